// `rouse doctor`: what this machine lets us set, prove and observe, and how to widen it; with
// --calibrate what the client itself adds, and nothing else.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/terminal_text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/doctor_checks.h"
#include "cli/output_text.h"
#include "lab/calibration.h"
#include "lab/targets.h"

namespace rouse::cli {
namespace {

constexpr size_t kColumns = 80;

using Calibration = std::vector<results::CalibrationRow>;

nlohmann::json AbilityJson(const Ability& ability) {
  return {{"yes", ability.yes},
          {"how", ability.how},
          {"but", ability.but.empty() ? nlohmann::json() : nlohmann::json(ability.but)},
          {"widen", ability.widen.empty() ? nlohmann::json() : nlohmann::json(ability.widen)}};
}

nlohmann::json CalibrationJson(const Calibration& calibration) {
  const auto or_null = [](const std::optional<int64_t>& value) {
    return value ? nlohmann::json(*value) : nlohmann::json();
  };
  nlohmann::json rows = nlohmann::json::array();
  for (const results::CalibrationRow& row : calibration) {
    rows.push_back({{"streams", row.streams},
                    {"samples", row.samples},
                    {"median_ns", or_null(row.median_ns)},
                    {"p99_ns", or_null(row.p99_ns)},
                    {"max_ns", or_null(row.max_ns)}});
  }
  return rows;
}

nlohmann::json ReportJson(const DoctorReport& report) {
  nlohmann::json json = {{"schema", "rouse.doctor/1"},
                         {"target", report.target},
                         {"kind", report.kind},
                         {"machine", nlohmann::json::object()},
                         {"layers", nlohmann::json::array()},
                         {"readers", nlohmann::json::array()},
                         {"remarks", report.remarks},
                         {"calibration", nullptr}};
  for (const auto& [name, text] : report.machine) json["machine"][name] = text;
  for (const LayerAbility& row : report.layers) {
    json["layers"].push_back({{"layer", row.layer},
                              {"settable", AbilityJson(row.settable)},
                              {"provable", AbilityJson(row.provable)},
                              {"observable", AbilityJson(row.observable)}});
  }
  for (const ReaderAbility& row : report.readers) {
    nlohmann::json entry = AbilityJson(row.ability);
    entry["what"] = row.what;
    json["readers"].push_back(std::move(entry));
  }
  return json;
}

// Words of `text` on lines of at most kColumns, after `first` and, from the second line on, `next`.
std::string Wrapped(const std::string& first, const std::string& next, const std::string& foreign) {
  const std::string text = SafeLines(foreign);
  std::string result = first;
  size_t column = first.size();
  bool line_is_empty = true;
  size_t start = 0;
  while (start < text.size()) {
    size_t end = text.find_first_of(" \n", start);
    if (end == std::string::npos) end = text.size();
    const size_t length = end - start;
    if (!line_is_empty && column + 1 + length > kColumns) {
      result += "\n" + next;
      column = next.size();
      line_is_empty = true;
    }
    if (!line_is_empty) {
      result += ' ';
      ++column;
    }
    result += text.substr(start, length);
    column += length;
    line_is_empty = length == 0 && line_is_empty;
    start = end + 1;
  }
  return result + "\n";
}

// The words of a command, quotes and all; a comment is one.
std::vector<std::string> ShellWords(const std::string& command) {
  std::vector<std::string> words(1);
  char quote = 0;        // that is open
  bool escapes = false;  // "\\" takes the next character with it: outside of '...'
  for (size_t i = 0; i < command.size(); ++i) {
    const char letter = command[i];
    if (quote == 0 && letter == '#' && words.back().empty()) {
      words.back() = command.substr(i);
      break;
    }
    if (quote == 0 && letter == ' ') {
      if (!words.back().empty()) words.emplace_back();
      continue;
    }
    escapes = quote == 0 || escapes;
    if (quote == 0 && (letter == '\'' || letter == '"')) {
      quote = letter;
      escapes = letter == '"' || words.back().ends_with('$');
    } else if (letter == quote) {
      quote = 0;
    }
    words.back() += letter;
    if (letter == '\\' && escapes && i + 1 < command.size()) words.back() += command[++i];
  }
  return words;
}

// What widens an ability. A command can be pasted with its line breaks.
std::string Widening(const std::string& text) {
  if (!text.starts_with("rouse ") && !text.starts_with("sudo ")) {
    return Wrapped("    > ", "      ", text);
  }
  constexpr std::string_view kBreak = " \\\n      ";
  std::string result = "    > ";
  size_t column = result.size();
  for (const std::string& word : ShellWords(SafeText(text))) {
    const bool first = column == 6;
    if (!first && column + 1 + word.size() + 2 > kColumns) {
      result += kBreak;
      column = 6;
    } else if (!first) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result + "\n";
}

std::string Cell(const std::string& text, size_t width) {
  return text.size() >= width ? text + " " : text + std::string(width - text.size(), ' ');
}

struct NamedAbility {
  const char* word;
  const Ability* ability;
};

// What is missing in a row, each reason once, with the command that widens it.
std::string Missing(const LayerAbility& row) {
  std::string text;
  std::vector<std::string> said;
  for (const NamedAbility& each : {NamedAbility{"cannot be set", &row.settable},
                                   NamedAbility{"cannot be proved", &row.provable},
                                   NamedAbility{"cannot be observed", &row.observable}}) {
    const Ability& ability = *each.ability;
    const std::string why = ability.yes ? ability.but : ability.how;
    if (why.empty() && ability.widen.empty()) continue;
    if (std::find(said.begin(), said.end(), why) != said.end()) continue;
    said.push_back(why);
    const std::string what =
        row.layer + (ability.yes ? " has a limit" : " " + std::string(each.word));
    if (why.empty()) {
      text += Wrapped("  ", "      ", row.layer + ": can be widened");
    } else {
      text += Wrapped("  ", "      ", what + ": " + why);
    }
    if (!ability.widen.empty()) text += Widening(ability.widen);
  }
  return text;
}

// First the matrix alone: what most people want to know fits on one screen.
std::string LayersText(const DoctorReport& report) {
  const auto yes = [](const Ability& ability) {
    return !ability.yes ? "no" : ability.but.empty() ? "yes" : "yes *";
  };
  std::string text = Wrapped("State layers of ", "  ", report.target) +
                     "                   can be set  proved  observed\n";
  std::string missing;
  std::string means;
  for (const LayerAbility& row : report.layers) {
    text += "  " + Cell(row.layer, 17) + Cell(yes(row.settable), 12) + Cell(yes(row.provable), 8) +
            yes(row.observable) + "\n";
    missing += Missing(row);
    if (!row.settable.yes && !row.provable.yes) continue;
    means += "  " + row.layer + "\n";
    if (row.settable.yes) means += Wrapped("    set by: ", "      ", row.settable.how);
    if (row.provable.yes) means += Wrapped("    proved by: ", "      ", row.provable.how);
  }
  if (!missing.empty()) {
    text += "\nWhat is missing or has a limit (*), and after > what would widen it\n" + missing;
  }
  return text + "\nHow each is set and proved\n" + means;
}

std::string ReportText(const DoctorReport& report) {
  std::string text = "This machine\n";
  for (const auto& [name, value] : report.machine) {
    text += Wrapped("  " + Cell(name, 17), std::string(19, ' '), value);
  }
  text += "\n" + LayersText(report);
  text += "\nEvidence that is stored with each attempt\n";
  for (const ReaderAbility& row : report.readers) {
    const std::string first = "  " + Cell(row.what, 25) + Cell(row.ability.yes ? "yes" : "no", 5);
    text += Wrapped(first, std::string(32, ' '), row.ability.how);
    if (!row.ability.widen.empty()) {
      text += Widening(row.ability.widen);
    }
  }
  if (!report.remarks.empty()) text += "\nTo know before measuring\n";
  for (const std::string& remark : report.remarks) text += Wrapped("  - ", "    ", remark);
  return text + "\nThe client's own error: rouse doctor --calibrate\n";
}

std::string CalibrationText(const Calibration& calibration) {
  std::string text = lab::CalibrationLine(calibration) +
                     "\n\n"
                     "  streams  tokens  median     p99        largest\n";
  const auto known = [](const std::optional<int64_t>& ns) {
    return ns ? FormatDuration(*ns) : "unknown";
  };
  for (const results::CalibrationRow& row : calibration) {
    text += "  " + Cell(std::to_string(row.streams), 9) + Cell(std::to_string(row.samples), 8) +
            Cell(known(row.median_ns), 11) + Cell(known(row.p99_ns), 11) + known(row.max_ns) + "\n";
  }
  return text +
         "\nFrom right before a server inside the tool writes a token to the client's mark of it.\n"
         "Every run begins with this; it is the error bar of its times, and never subtracted.\n";
}

int Calibrate(bool json) {
  const Result<Calibration> rows = lab::Calibrate();
  if (!rows.ok()) return Fail(rows.error());
  const std::string text = json ? DumpJson(nlohmann::json{{"schema", "rouse.doctor/1"},
                                                          {"calibration", CalibrationJson(*rows)}},
                                           2) +
                                      "\n"
                                : CalibrationText(*rows);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace

int RunDoctor(int argc, const char* const* argv) {
  CLI::App app("What this machine lets us set, prove and observe; how to widen it", "doctor");
  CommonFlags flags;
  AddCommonFlags(app, flags);
  std::string target_text = "builtin";
  std::string model;
  std::string model_file;
  bool calibrate = false;
  std::string kinds;
  for (const lab::TargetRow& row : lab::Targets()) {
    kinds += (kinds.empty() ? "" : ", ") + std::string(row.name);
  }
  app.add_option("--target", target_text,
                 "A URL, KIND:URL, 'cmd:COMMAND {port} {model}', or a kind alone: " + kinds +
                     ". No request is sent to it")
      ->capture_default_str();
  app.add_option("--model", model, "The model whose file is looked at: a name or a GGUF file");
  app.add_option("--model-file", model_file,
                 "The local file behind a server's model, for page-cache proofs");
  app.add_flag("--calibrate", calibrate,
               "Measure what the client itself adds, and nothing else (under 1 s)");
  app.footer(
      "Tries out what is harmless (a temporary file of 2 MiB beside the model) and changes "
      "nothing\n"
      "that stays. Each \"no\" comes with its reason and, where there is one, the command that\n"
      "widens it.\n\nExamples: rouse doctor\n"
      "          rouse doctor --target llama-server:http://127.0.0.1:8080 --model-file m.gguf\n"
      "          rouse doctor --calibrate");
  if (const std::optional<int> status = ParseArguments(app, argc, argv)) return *status;
  if (calibrate) return Calibrate(flags.json);
  const Result<DoctorTarget> target = ReadDoctorTarget(target_text, model, model_file);
  if (!target.ok()) return Fail(target.error());
  const DoctorReport report = Examine(*target);
  const std::string text = flags.json ? DumpJson(ReportJson(report), 2) + "\n" : ReportText(report);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace rouse::cli
