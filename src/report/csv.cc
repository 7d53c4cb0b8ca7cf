#include "report/csv.h"

#include <charconv>
#include <cmath>
#include <set>

#include "results/metrics.h"

namespace rouse::report {
namespace {

using results::Attempt;
using results::Metric;

std::string Cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"') quoted += '"';
    quoted += letter;
  }
  return quoted + "\"";
}

std::string Number(double value) {
  char buffer[64];
  const bool whole = std::floor(value) == value && std::abs(value) < 9e15;
  const auto [end, code] =
      whole ? std::to_chars(buffer, buffer + sizeof buffer, static_cast<int64_t>(value))
            : std::to_chars(buffer, buffer + sizeof buffer, value);
  return code == std::errc() ? std::string(buffer, end) : "";
}

std::string Number(const std::optional<int64_t>& value) {
  return value ? std::to_string(*value) : "";
}

std::set<std::string> OtherCounters(std::span<const Attempt> attempts) {
  std::set<std::string> names;
  for (const Attempt& attempt : attempts) {
    for (const auto& [name, value] : attempt.counters) {
      if (results::FindMetric(name) == nullptr) names.insert(name);
    }
  }
  return names;
}

void AppendRow(const Attempt& attempt, const std::set<std::string>& others, std::string& out) {
  out += Number(attempt.run) + "," + Number(attempt.id) + "," + Cell(attempt.condition) + "," +
         Number(attempt.block) + "," + Number(attempt.position) + "," +
         (attempt.prime ? "1" : "0") + "," + std::string(results::OutcomeName(attempt.outcome)) +
         "," + Cell(attempt.outcome_detail) + "," + Cell(attempt.api) + "," +
         Number(attempt.http_status) + "," + Number(attempt.started_wall_ns) + "," +
         attempt.first_token_channel;
  for (const Metric& metric : results::Metrics()) {
    const std::optional<double> value = results::MetricOf(attempt, metric);
    out += "," + (value ? Number(*value) : std::string());
  }
  for (const std::string& name : others) {
    out += ",";
    const auto found = attempt.counters.find(name);
    if (found == attempt.counters.end() || !found->second) continue;
    out +=
        std::visit([](auto number) { return Number(static_cast<double>(number)); }, *found->second);
  }
  out += "\r\n";
}

std::string AttemptTable(std::span<const Attempt> attempts) {
  const std::set<std::string> others = OtherCounters(attempts);
  std::string out =
      "run,id,condition,block,position,prime,outcome,outcome_detail,api,http_status,"
      "started_wall_ns,first_token_channel";
  for (const Metric& metric : results::Metrics()) out += "," + std::string(metric.name);
  for (const std::string& name : others) out += "," + Cell(name);
  out += "\r\n";
  for (const Attempt& attempt : attempts) AppendRow(attempt, others, out);
  return out;
}

// What every row of a long table begins with.
constexpr std::string_view kKeyColumns = "run,id,condition,block,prime,outcome,ttft_ns";

std::string KeyCells(const Attempt& attempt) {
  return Number(attempt.run) + "," + Number(attempt.id) + "," + Cell(attempt.condition) + "," +
         Number(attempt.block) + "," + (attempt.prime ? "1" : "0") + "," +
         std::string(results::OutcomeName(attempt.outcome)) + "," + Number(attempt.ttft_ns);
}

std::string ReasonOf(const Attempt& attempt, const std::string& field) {
  const auto found = attempt.null_reasons.find(field);
  return found == attempt.null_reasons.end() ? "" : Cell(found->second);
}

std::string StageTable(std::span<const Attempt> attempts) {
  std::string out(kKeyColumns);
  out += ",stage,ns,source,null_reason\r\n";
  for (const Attempt& attempt : attempts) {
    const std::string key = KeyCells(attempt);
    for (int i = 0; i < results::kStageCount; ++i) {
      const results::StageTime& time = attempt.stages[static_cast<size_t>(i)];
      const std::string name(results::StageName(static_cast<results::Stage>(i)));
      out += key + "," + name + "," + Number(time.ns) + ",";
      if (time.source) out += results::StageSourceName(*time.source);
      out += "," + (time.ns ? "" : ReasonOf(attempt, "stage_" + name + "_ns")) + "\r\n";
    }
  }
  return out;
}

std::string CounterTable(std::span<const Attempt> attempts) {
  std::string out(kKeyColumns);
  out += ",counter,value,unit,null_reason\r\n";
  for (const Attempt& attempt : attempts) {
    const std::string key = KeyCells(attempt);
    for (const auto& [name, value] : attempt.counters) {
      const Metric* const metric = results::FindMetric(name);
      out += key + "," + Cell(name) + ",";
      if (value) {
        out += std::visit([](auto number) { return Number(static_cast<double>(number)); }, *value);
      }
      out += "," + (metric == nullptr ? "" : std::string(metric->unit)) + "," +
             (value ? "" : ReasonOf(attempt, name)) + "\r\n";
    }
  }
  return out;
}

std::string StateTable(std::span<const Attempt> attempts) {
  struct Moment {
    const char* name;
    results::LayerReadings Attempt::* readings;
  };
  constexpr Moment kMoments[] = {{"before", &Attempt::state_before},
                                 {"at_send", &Attempt::state_at_send},
                                 {"after", &Attempt::state_after}};
  std::string out(kKeyColumns);
  out += ",moment,layer,value,proof,wanted,reached,detail\r\n";
  for (const Attempt& attempt : attempts) {
    const std::string key = KeyCells(attempt);
    for (const Moment& moment : kMoments) {
      for (const auto& [layer, reading] : attempt.*moment.readings) {
        std::string value;
        if (const double* const share = std::get_if<double>(&reading.value)) {
          value = Number(*share);
        } else if (const std::string* const word = std::get_if<std::string>(&reading.value)) {
          value = Cell(*word);
        }
        const char* const reached = !reading.reached ? "" : *reading.reached ? "1" : "0";
        out += key + "," + moment.name + "," + Cell(layer) + "," + value + "," +
               Cell(reading.proof) + "," + Cell(reading.wanted) + "," + reached + "," +
               Cell(reading.detail) + "\r\n";
      }
    }
  }
  return out;
}

}  // namespace

std::optional<CsvTable> CsvTableFromName(std::string_view name) {
  if (name == "attempts") return CsvTable::kAttempts;
  if (name == "stages") return CsvTable::kStages;
  if (name == "counters") return CsvTable::kCounters;
  if (name == "states") return CsvTable::kStates;
  return std::nullopt;
}

std::string AttemptsCsv(std::span<const Attempt> attempts, CsvTable table) {
  switch (table) {
    case CsvTable::kAttempts:
      return AttemptTable(attempts);
    case CsvTable::kStages:
      return StageTable(attempts);
    case CsvTable::kCounters:
      return CounterTable(attempts);
    case CsvTable::kStates:
      return StateTable(attempts);
  }
  return {};
}

}  // namespace rouse::report
