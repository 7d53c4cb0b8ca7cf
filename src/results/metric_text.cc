#include "results/metric_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "base/strings.h"
#include "base/units.h"

namespace rouse::results {
namespace {

constexpr std::array<std::string_view, 6> kStatistics = {"median", "max", "min",
                                                         "mean",   "p90", "p95"};

struct Relation {
  std::string_view text;
  GuardRelation relation;
};
// Longer ones first: "<=" begins with "<".
constexpr std::array<Relation, 4> kRelations = {{{"<=", GuardRelation::kAtMost},
                                                 {">=", GuardRelation::kAtLeast},
                                                 {"<", GuardRelation::kBelow},
                                                 {">", GuardRelation::kAbove}}};

Result<double> ParsePlainNumber(std::string_view text) {
  double number = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || stop != text.data() + text.size() || !std::isfinite(number) ||
      number < 0) {
    return Error(ErrorCode::kUsage, "\"" + std::string(text) + "\" is not a number of at least 0");
  }
  return number;
}

std::vector<std::string_view> KnownNames() {
  std::vector<std::string_view> names = MetricNames();
  names.push_back(kFailureRate);
  return names;
}

}  // namespace

Result<double> ParseMetricValue(const std::string& text, const Metric& metric) {
  if (metric.unit == "ns" || metric.unit == "us") {
    ASSIGN_OR_RETURN(const int64_t ns, ParseDuration(text));
    return static_cast<double>(ns) / (metric.unit == "us" ? 1000.0 : 1.0);
  }
  if (metric.unit == "bytes") {
    ASSIGN_OR_RETURN(const int64_t bytes, ParseBytes(text));
    return static_cast<double>(bytes);
  }
  return ParsePlainNumber(text);
}

Result<Guard> ParseGuard(const std::string& text) {
  Guard guard;
  guard.text = text;
  size_t place = std::string::npos;
  const Relation* found = nullptr;
  for (const Relation& relation : kRelations) {
    place = text.find(relation.text);
    found = &relation;
    if (place != std::string::npos) break;
  }
  if (place == std::string::npos) {
    return Error(ErrorCode::kUsage, "\"" + text + "\" needs NAME<=NUMBER (or <, >=, >)");
  }
  guard.relation = found->relation;
  std::string_view name = TrimBlanks(std::string_view(text).substr(0, place));
  const std::string limit(TrimBlanks(std::string_view(text).substr(place + found->text.size())));
  guard.statistic = "median";
  const size_t bracket = name.find('(');
  if (bracket != std::string_view::npos && name.ends_with(')')) {
    guard.statistic = name.substr(0, bracket);
    name = name.substr(bracket + 1, name.size() - bracket - 2);
    if (std::find(kStatistics.begin(), kStatistics.end(), guard.statistic) == kStatistics.end()) {
      return Error(ErrorCode::kUsage, "\"" + text +
                                          "\": the statistic must be median, max, min, mean, p90 "
                                          "or p95");
    }
  }
  if (name == kFailureRate) {
    guard.metric = kFailureRate;
    ASSIGN_OR_RETURN(guard.limit, ParsePlainNumber(limit));
    return guard;
  }
  const Metric* const metric = FindMetric(name);
  if (metric == nullptr) {
    const std::string nearest = NearestName(name, KnownNames());
    return Error(ErrorCode::kUsage, "\"" + text + "\": there is no metric \"" + std::string(name) +
                                        "\"" +
                                        (nearest.empty() ? "" : "; did you mean " + nearest + "?"));
  }
  guard.metric = metric->name;
  Result<double> value = ParseMetricValue(limit, *metric);
  if (!value.ok()) return value.error().WithContext("\"" + text + "\"");
  guard.limit = *value;
  return guard;
}

Result<Margin> ParseMargin(const std::string& text, const Metric& metric) {
  Margin margin;
  const std::string_view trimmed = TrimBlanks(text);
  margin.relative = trimmed.ends_with('%');
  if (margin.relative) {
    const std::string_view number = TrimBlanks(trimmed.substr(0, trimmed.size() - 1));
    const auto [stop, code] =
        std::from_chars(number.data(), number.data() + number.size(), margin.value);
    if (code != std::errc() || stop != number.data() + number.size()) margin.value = NAN;
    margin.value /= 100;
  } else {
    Result<double> value = ParseMetricValue(std::string(trimmed), metric);
    if (!value.ok()) return value.error().WithContext("margin \"" + text + "\"");
    margin.value = *value;
  }
  if (!std::isfinite(margin.value) || margin.value <= 0) {
    return Error(ErrorCode::kUsage, "margin \"" + text +
                                        "\" must be above 0: a percentage of the control's value "
                                        "(10%) or a value of the metric (50ms)");
  }
  return margin;
}

}  // namespace rouse::results
