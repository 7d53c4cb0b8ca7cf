#include "report/html.h"

#include <algorithm>

#include "base/terminal_text.h"

namespace rouse::report {

#ifdef ROUSE_PAGE_FILE
// The pages as web/ built them, put into this binary by the assembler.
__asm__(
    ".section .rodata\n"
    ".global rouse_page_begin\n"
    ".global rouse_page_end\n"
    ".global rouse_runs_begin\n"
    ".global rouse_runs_end\n"
    "rouse_page_begin:\n"
    ".incbin \"" ROUSE_PAGE_FILE
    "\"\n"
    "rouse_page_end:\n"
    "rouse_runs_begin:\n"
    ".incbin \"" ROUSE_RUNS_FILE
    "\"\n"
    "rouse_runs_end:\n"
    ".previous\n");
extern "C" {
extern const char rouse_page_begin[];  // NOLINT: the assembler's names
extern const char rouse_page_end[];    // NOLINT
extern const char rouse_runs_begin[];  // NOLINT
extern const char rouse_runs_end[];    // NOLINT
}
#endif

namespace {

std::string_view Template() {
#ifdef ROUSE_PAGE_FILE
  return {rouse_page_begin, static_cast<size_t>(rouse_page_end - rouse_page_begin)};
#else
  return {};
#endif
}

std::string_view RunsTemplate() {
#ifdef ROUSE_PAGE_FILE
  return {rouse_runs_begin, static_cast<size_t>(rouse_runs_end - rouse_runs_begin)};
#else
  return {};
#endif
}

// For text and for attributes in double quotes. What can't be seen, or turns the text behind it
// around, is U+FFFD, as in the page's own script (web/src/dom.ts).
std::string HtmlText(std::string_view text) {
  std::string out;
  for (const CodePoint& each : CodePointsOf(text)) {
    if (each.harmful) {
      out += "\uFFFD";
    } else if (each.bytes == "<") {
      out += "&lt;";
    } else if (each.bytes == ">") {
      out += "&gt;";
    } else if (each.bytes == "&") {
      out += "&amp;";
    } else if (each.bytes == "\"") {
      out += "&quot;";
    } else {
      out += each.bytes;
    }
  }
  return out;
}

// JSON has these letters only inside of strings, where a \u escape means the same; an HTML parser
// then finds neither the end of the element nor a comment in it.
std::string JsonInHtml(std::string_view json) {
  std::string out;
  out.reserve(json.size() + json.size() / 64);
  size_t from = 0;
  while (from < json.size()) {
    const size_t at = std::min(json.find_first_of("<>&", from), json.size());
    out.append(json, from, at - from);
    if (at == json.size()) break;
    out += json[at] == '<' ? "\\u003c" : json[at] == '>' ? "\\u003e" : "\\u0026";
    from = at + 1;
  }
  return out;
}

// Puts the parts into the template at its three marks, which stand in this order.
Result<std::string> Fill(std::string_view title, std::string_view policy, std::string_view data) {
  RETURN_IF_ERROR(CheckPage());
  std::string out;
  std::string_view rest = Template();
  out.reserve(rest.size() + data.size());
  const struct {
    std::string_view mark;
    std::string_view text;
  } parts[] = {
      {"<!--ROUSE:POLICY-->", policy}, {"<!--ROUSE:TITLE-->", title}, {"<!--ROUSE:DATA-->", data}};
  for (const auto& part : parts) {
    const size_t at = rest.find(part.mark);
    if (at == std::string_view::npos) {
      return Error(ErrorCode::kInternal,
                   "the page inside of this program has no " + std::string(part.mark));
    }
    out.append(rest.substr(0, at)).append(part.text);
    rest.remove_prefix(at + part.mark.size());
  }
  return out.append(rest);
}

}  // namespace

Status CheckPage() {
  if (!Template().empty()) return {};
  return Error(ErrorCode::kUsage,
               "this rouse was built without the report page (-DROUSE_WEB=OFF), so there is no "
               "--html, and rouse ui shows text;\nbuild with ./dev build -DROUSE_WEB=ON, or use "
               "--json or --csv");
}

Result<std::string> PageHtml(std::string_view title, std::string_view json) {
  return Fill(
      HtmlText(title), "connect-src 'none'",
      "<script type=\"application/json\" id=\"rouse-data\">" + JsonInHtml(json) + "</script>");
}

Result<std::string> PageShell(std::string_view title, const PageSource& source) {
  const auto attribute = [](std::string_view name, std::string_view value) {
    return value.empty() ? "" : " data-" + std::string(name) + "=\"" + HtmlText(value) + "\"";
  };
  return Fill(HtmlText(title), "connect-src 'self'",
              "<script type=\"application/json\" id=\"rouse-data\"" +
                  attribute("source", source.data) + attribute("events", source.events) +
                  attribute("home", source.home) + "></script>");
}

Result<std::string_view> RunsPage() {
  RETURN_IF_ERROR(CheckPage());
  return RunsTemplate();
}

std::string PageTitle(const results::Run& run) {
  const std::string number = run.id ? "Run " + std::to_string(*run.id) : "A run";
  return run.name.empty() ? number : number + ", " + run.name;
}

std::string PageTitle(const results::Run& treatment, const results::Run& control) {
  const auto number = [](const results::Run& run) {
    return run.id ? "run " + std::to_string(*run.id) : std::string("a run");
  };
  if (treatment.id == control.id) return "Conditions of " + number(treatment);
  return "R" + number(treatment).substr(1) + " against " + number(control);
}

}  // namespace rouse::report
