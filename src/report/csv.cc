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

}  // namespace

std::string AttemptsCsv(std::span<const Attempt> attempts) {
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

}  // namespace rouse::report
