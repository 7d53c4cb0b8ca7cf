#include "cli/probe_text.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/units.h"

namespace rouse::cli {
namespace {

constexpr size_t kColumns = 80;
constexpr size_t kNameColumns = 25;
constexpr size_t kTimeColumns = 10;
constexpr size_t kBarColumns = kColumns - kNameColumns - kTimeColumns - 5;

struct Row {
  std::string name;
  int64_t ns = 0;
};

// The marks in order of time; those of one read share a row.
std::vector<Row> Rows(const results::Marks& marks) {
  std::vector<Row> rows;
  const auto add = [&rows](std::string_view name, std::optional<int64_t> ns) {
    if (!ns) return;
    if (!rows.empty() && rows.back().ns == *ns && name != "end") {
      rows.back().name += ", " + std::string(name);
    } else {
      rows.push_back({std::string(name), *ns});
    }
  };
  add("connected", marks.connected);
  add("request sent", marks.request_sent);
  add("headers", marks.response_headers);
  add("first byte", marks.first_byte);
  add("first event", marks.first_event);
  add("first token", marks.first_token);
  if (marks.first_content != marks.first_token) add("first content", marks.first_content);
  if (marks.last_token != marks.first_token) add("last token", marks.last_token);
  add("end", marks.end);
  std::ranges::stable_sort(rows, {}, &Row::ns);
  return rows;
}

std::string Pad(std::string text, size_t columns) {
  if (text.size() < columns) text.append(columns - text.size(), ' ');
  return text;
}

std::string PadLeft(const std::string& text, size_t columns) {
  return text.size() < columns ? std::string(columns - text.size(), ' ') + text : text;
}

// "first byte, first event, first token" in as few columns as there are: the last one matters.
std::string FitName(std::string name) {
  while (name.size() > kNameColumns && name.find(", ") != std::string::npos) {
    name.erase(0, name.find(", ") + 2);
  }
  return Pad(std::move(name), kNameColumns);
}

// Each row's bar runs from the mark before it to its own.
std::string Timeline(const results::Marks& marks) {
  const std::vector<Row> rows = Rows(marks);
  if (rows.empty()) return "";
  const int64_t total = std::max<int64_t>(1, rows.back().ns);
  const auto column = [total](int64_t ns) {
    const double share =
        static_cast<double>(std::clamp<int64_t>(ns, 0, total)) / static_cast<double>(total);
    return static_cast<size_t>(share * static_cast<double>(kBarColumns));
  };
  std::string text;
  int64_t before = 0;
  for (const Row& row : rows) {
    const size_t from = std::min(column(before), kBarColumns - 1);
    const size_t to = std::max(column(row.ns), from + 1);
    text += "  " + FitName(row.name) + PadLeft(FormatDuration(row.ns), kTimeColumns) + " |" +
            std::string(from, ' ') + std::string(to - from, '=') +
            std::string(kBarColumns - to, ' ') + "|\n";
    before = row.ns;
  }
  return text;
}

std::string Headline(const results::Attempt& attempt) {
  if (!attempt.ttft_ns) {
    return "No first token: " + std::string(results::OutcomeName(attempt.outcome));
  }
  std::string text = "First token after " + FormatDuration(*attempt.ttft_ns) + " (" +
                     attempt.first_token_channel + ")";
  if (attempt.ttfc_ns && attempt.ttfc_ns != attempt.ttft_ns) {
    text += ", visible answer after " + FormatDuration(*attempt.ttfc_ns);
  } else if (!attempt.ttfc_ns) {
    text += ", no visible answer";
  }
  if (attempt.outcome != results::Outcome::kOk) {
    text += "; then " + std::string(results::OutcomeName(attempt.outcome));
  }
  return text;
}

std::string CountOf(std::optional<int64_t> count) {
  return count ? std::to_string(*count) : "unknown";
}

std::string TokenLine(const results::Attempt& attempt) {
  if (!attempt.stream.events) return "";
  const results::Tokens& tokens = attempt.tokens;
  std::string text = "tokens      prompt " + CountOf(tokens.prompt);
  if (tokens.cached) text += " (" + std::to_string(*tokens.cached) + " from the prefix cache)";
  text += ", generated " + CountOf(tokens.completion) + ", in " +
          CountOf(attempt.stream.token_events) + " of " + CountOf(attempt.stream.events) +
          " events";
  const int64_t gaps = attempt.stream.token_events.value_or(0) - 1;
  if (gaps > 0 && attempt.marks.last_token && attempt.ttft_ns) {
    text += "; " + FormatDuration((*attempt.marks.last_token - *attempt.ttft_ns) / gaps) +
            " from event to event";
  }
  if (attempt.stream.pings.value_or(0) > 0) {
    text += "; " + std::to_string(*attempt.stream.pings) + " pings";
  }
  return Wrap(text, "  ");
}

std::string StageLine(const results::Attempt& attempt) {
  std::string text;
  for (int i = 0; i < results::kStageCount; ++i) {
    const results::StageTime& time = attempt.stages[static_cast<size_t>(i)];
    if (time.ns.value_or(0) == 0) continue;
    text += text.empty() ? "waited for  " : ", ";
    text += std::string(results::StageName(static_cast<results::Stage>(i))) + " " +
            FormatDuration(*time.ns);
    if (time.source == results::StageSource::kServer) text += " (says the server)";
  }
  return text.empty() ? "" : Wrap(text, "  ");
}

std::string ConnectionLine(const results::Attempt& attempt, const wire::Exchange& exchange) {
  if (attempt.connection.remote.empty()) return "";
  std::string text = "connection  " + attempt.connection.family + " " + attempt.connection.remote;
  if (!exchange.connection.tls.empty()) text += ", " + exchange.connection.tls;
  if (attempt.http_status) text += ", HTTP status " + std::to_string(*attempt.http_status);
  if (exchange.client_read_delay_ns) {
    text += "; this client read " + FormatDuration(*exchange.client_read_delay_ns) +
            " after the kernel had the bytes";
  }
  return Wrap(text, "  ");
}

std::string AnswerLine(const wire::Exchange& exchange) {
  std::string text;
  if (!exchange.reasoning_text.empty()) {
    text += "  reasoning   " + OneLine(exchange.reasoning_text, 64) + "\n";
  }
  if (!exchange.content_text.empty()) {
    text += "  answer      " + OneLine(exchange.content_text, 64) + "\n";
  }
  return text;
}

}  // namespace

std::string OneLine(std::string_view text, size_t columns) {
  std::string line;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    line += byte < 0x20 || byte == 0x7F ? ' ' : letter;
  }
  // C1 controls (U+0080 to U+009F) are two bytes in UTF-8, and some terminals obey them.
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    if (line[i] == '\xC2' && static_cast<unsigned char>(line[i + 1]) < 0xA0) {
      line[i] = line[i + 1] = ' ';
    }
  }
  if (line.size() <= columns) return line;
  size_t end = columns - 3;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) --end;
  return line.substr(0, end) + "...";
}

std::string Wrap(std::string_view text, std::string_view indent) {
  std::string wrapped;
  std::string line(indent);
  size_t words = 0;
  while (!text.empty()) {
    const size_t blank = std::min(text.find(' '), text.size());
    // Blanks at the start of a word keep columns of a table apart.
    size_t next = blank;
    while (next < text.size() && text[next] == ' ') ++next;
    const std::string_view word = text.substr(0, blank);
    if (words > 0 && line.size() + word.size() > kColumns) {
      while (line.ends_with(' ')) line.pop_back();
      wrapped += line + "\n";
      line = std::string(indent) + "  ";
      words = 0;
    }
    line += text.substr(0, next);
    ++words;
    text.remove_prefix(next);
  }
  while (line.ends_with(' ')) line.pop_back();
  return wrapped + line + "\n";
}

std::string RenderProbe(const ProbeText& text, const results::Attempt& attempt,
                        const wire::Exchange& exchange) {
  const std::string headline = Headline(attempt);
  std::string out = text.color ? "\033[1m" + headline + "\033[0m\n" : headline + "\n";
  if (!attempt.outcome_detail.empty()) out += Wrap(OneLine(attempt.outcome_detail, 600), "  ");
  out += Wrap(attempt.api + " at " + OneLine(text.url, 200), "  ") + "\n";
  out += Timeline(attempt.marks) + "\n";
  out += StageLine(attempt) + TokenLine(attempt) + ConnectionLine(attempt, exchange);
  out += AnswerLine(exchange);
  for (const wire::Warning& warning : exchange.warnings) {
    out += "\n" + Wrap("Warning: " + OneLine(warning.message, 400) + " [" + warning.code + "]", "");
    if (!warning.advice.empty()) out += Wrap("What helps: " + warning.advice, "  ");
  }
  return out;
}

}  // namespace rouse::cli
