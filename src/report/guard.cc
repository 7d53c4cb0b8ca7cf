#include "report/guard.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "base/strings.h"
#include "base/units.h"

namespace rouse::report {
namespace {

constexpr std::string_view kFailureRate = "failure_rate";
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
  std::vector<std::string_view> names = results::MetricNames();
  names.push_back(kFailureRate);
  return names;
}

bool Holds(GuardRelation relation, double value, double limit) {
  switch (relation) {
    case GuardRelation::kAtMost:
      return value <= limit;
    case GuardRelation::kBelow:
      return value < limit;
    case GuardRelation::kAtLeast:
      return value >= limit;
    case GuardRelation::kAbove:
      return value > limit;
  }
  return false;
}

stats::Estimate StatisticOf(const stats::SampleSummary& summary, const std::string& statistic) {
  if (statistic == "max") return summary.max;
  if (statistic == "min") return summary.min;
  if (statistic == "mean") return summary.mean;
  if (statistic == "p90") return summary.p90.value;
  if (statistic == "p95") return summary.p95.value;
  return summary.median.value;
}

}  // namespace

Result<double> ParseMetricValue(const std::string& text, const results::Metric& metric) {
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
    return Error(ErrorCode::kUsage, "guard \"" + text + "\" needs NAME<=NUMBER (or <, >=, >)");
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
      return Error(ErrorCode::kUsage, "guard \"" + text +
                                          "\": the statistic must be median, max, min, mean, p90 "
                                          "or p95");
    }
  }
  if (name == kFailureRate) {
    guard.metric = kFailureRate;
    ASSIGN_OR_RETURN(guard.limit, ParsePlainNumber(limit));
    return guard;
  }
  const results::Metric* const metric = results::FindMetric(name);
  if (metric == nullptr) {
    const std::string nearest = NearestName(name, KnownNames());
    return Error(ErrorCode::kUsage, "guard \"" + text + "\": there is no metric \"" +
                                        std::string(name) + "\"" +
                                        (nearest.empty() ? "" : "; did you mean " + nearest + "?"));
  }
  guard.metric = metric->name;
  Result<double> value = ParseMetricValue(limit, *metric);
  if (!value.ok()) return value.error().WithContext("guard \"" + text + "\"");
  guard.limit = *value;
  return guard;
}

GuardResult JudgeGuard(const Guard& guard, const ConditionAttempts& treatment) {
  GuardResult result{guard, {}, {}, ""};
  if (guard.metric == kFailureRate) {
    int64_t counted = 0;
    int64_t failed = 0;
    for (const results::Attempt* attempt : treatment.attempts) {
      if (!results::CountsInSample(attempt->outcome)) continue;
      ++counted;
      if (attempt->outcome != results::Outcome::kOk) ++failed;
    }
    if (counted == 0) {
      result.reason = "no attempt";
      return result;
    }
    result.value = static_cast<double>(failed) / static_cast<double>(counted);
  } else {
    const MetricSample sample = SampleOf(treatment, *results::FindMetric(guard.metric));
    const stats::Estimate estimate = StatisticOf(stats::Summarize(sample.sample), guard.statistic);
    if (estimate.kind == stats::Estimate::Kind::kNone) {
      result.reason = sample.values.empty() ? "it was not measured" : estimate.reason;
      return result;
    }
    // A lower limit is enough to know that an upper bound is broken, or a lower one kept.
    result.value = estimate.value;
    if (estimate.kind == stats::Estimate::Kind::kAtLeast &&
        Holds(GuardRelation::kAtMost, estimate.value, guard.limit)) {
      result.value.reset();
      result.reason = "only a lower limit of it is known";
      return result;
    }
  }
  result.held = Holds(guard.relation, *result.value, guard.limit);
  return result;
}

}  // namespace rouse::report
