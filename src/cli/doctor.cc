// `rouse doctor`: what this machine lets us set, prove and observe, and how to widen it; with
// --calibrate what the client itself adds, and nothing else.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/doctor_checks.h"
#include "lab/calibration.h"
#include "lab/targets.h"
#include "models/catalog.h"

namespace rouse::cli {
namespace {

constexpr size_t kColumns = 80;

using Calibration = std::vector<results::CalibrationRow>;

nlohmann::json AbilityJson(const Ability& ability) {
  return {{"yes", ability.yes},
          {"how", ability.how},
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
std::string Wrapped(const std::string& first, const std::string& next, const std::string& text) {
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

std::string Cell(const std::string& text, size_t width) {
  return text.size() >= width ? text + " " : text + std::string(width - text.size(), ' ');
}

// What is missing in a row, once, with the command that widens it.
std::string Missing(const std::string& kind, const Ability& ability) {
  std::string text;
  if (!ability.yes) text += Wrapped("      " + kind + ": ", "        ", ability.how);
  if (!ability.widen.empty()) text += Wrapped("        widen: ", "          ", ability.widen);
  return text;
}

std::string LayersText(const DoctorReport& report) {
  std::string text = "State layers of a target of kind " + report.target +
                     "\n  layer            settable  provable  observable\n";
  for (const LayerAbility& row : report.layers) {
    const auto yes = [](const Ability& ability) { return ability.yes ? "yes" : "no"; };
    text += "  " + Cell(row.layer, 17) + Cell(yes(row.settable), 10) + Cell(yes(row.provable), 10) +
            yes(row.observable) + "\n";
    if (row.settable.yes) text += Wrapped("      set by: ", "        ", row.settable.how);
    text += Missing("not settable", row.settable);
    if (row.provable.yes) text += Wrapped("      proved by: ", "        ", row.provable.how);
    const bool said = row.provable.how == row.settable.how;
    if (!said) text += Missing("not provable", row.provable);
    if (row.observable.how != row.provable.how) text += Missing("not observable", row.observable);
  }
  return text;
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
      text += Wrapped("        widen: ", "          ", row.ability.widen);
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
  const std::string text =
      json ? nlohmann::json{{"schema", "rouse.doctor/1"}, {"calibration", CalibrationJson(*rows)}}
                     .dump(2) +
                 "\n"
           : CalibrationText(*rows);
  std::fputs(text.c_str(), stdout);
  return 0;
}

// The file whose page cache is to be looked at: the one that was named, else the default model.
Result<std::string> ModelFile(const std::string& argument, lab::TargetKind target) {
  if (!argument.empty()) {
    ASSIGN_OR_RETURN(const models::ModelFile model, models::Resolve(argument));
    return model.path;
  }
  if (!lab::RowOf(target).owns_process) return std::string();
  const Result<models::ModelFile> model = models::Resolve(models::kDefaultModel);
  return model.ok() ? model->path : std::string();
}

}  // namespace

int RunDoctor(int argc, const char* const* argv) {
  CLI::App app("What this machine lets us set, prove and observe; how to widen it", "doctor");
  CommonFlags flags;
  AddCommonFlags(app, flags);
  std::string target_name = "builtin";
  std::vector<std::string> kinds;
  for (const lab::TargetRow& row : lab::Targets()) kinds.emplace_back(row.name);
  std::string model;
  bool calibrate = false;
  app.add_option("--target", target_name, "The kind of target (no request is sent to any)")
      ->check(CLI::IsMember(kinds))
      ->capture_default_str();
  app.add_option("--model", model, "The model whose file is looked at: a name or a GGUF file");
  app.add_flag("--calibrate", calibrate,
               "Measure what the client itself adds, and nothing else (under 1 s)");
  app.footer(
      "Tries out what is harmless (a temporary file of 2 MiB beside the model) and changes "
      "nothing\n"
      "that stays. Each \"no\" comes with its reason and, where there is one, the command that\n"
      "widens it.\n\nExample: rouse doctor --calibrate");
  if (const std::optional<int> status = ParseArguments(app, argc, argv)) return *status;
  if (calibrate) return Calibrate(flags.json);
  const lab::TargetKind target = *lab::TargetKindFromName(target_name);
  const Result<std::string> model_file = ModelFile(model, target);
  if (!model_file.ok()) return Fail(model_file.error());
  const DoctorReport report = Examine(target, *model_file);
  const std::string text = flags.json ? ReportJson(report).dump(2) + "\n" : ReportText(report);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace rouse::cli
