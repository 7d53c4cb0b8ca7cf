#include "report/guard.h"

namespace rouse::report {
namespace {

using results::GuardRelation;
using results::kFailureRate;

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
