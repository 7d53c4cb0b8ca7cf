// From attempts to samples: which attempts of a condition count, what a failure is worth, which
// blocks pair up. The rules are those of docs/statistics.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "results/attempt.h"
#include "results/metrics.h"
#include "results/run.h"
#include "stats/summary.h"

namespace rouse::report {

// The attempts of one condition, primes left out, in the order of the run.
struct ConditionAttempts {
  std::string name;
  std::vector<const results::Attempt*> attempts;
};

// One entry per condition of the run, in its order, the empty ones included; conditions that only
// attempts name come behind. The pointers point into `attempts`.
std::vector<ConditionAttempts> ByCondition(const results::Run& run,
                                           std::span<const results::Attempt> attempts);

// How often each outcome came.
std::map<results::Outcome, int64_t> CountOutcomes(const ConditionAttempts& condition);

struct MetricSample {
  stats::Sample sample;
  int64_t counted = 0;       // attempts that count in n
  int64_t not_measured = 0;  // of those, succeeded but without a value of this metric
  // One value per counted and measured attempt, +infinity for a failure, in order.
  std::vector<double> values;
  std::vector<std::optional<int64_t>> blocks;  // of each of them
};

// Failures are infinite in times of the answer; counters and states count as measured.
MetricSample SampleOf(const ConditionAttempts& condition, const results::Metric& metric);
bool FailureIsInfinite(const results::Metric& metric);

// Only the successes.
stats::Sample SuccessesOnly(const MetricSample& sample);

struct Pairs {
  bool paired = false;
  std::string why_not;            // when not
  std::vector<double> treatment;  // of the pairs, or all of each side
  std::vector<double> control;
  std::vector<int64_t> only_treatment;  // blocks without a partner
  std::vector<int64_t> only_control;
};

// By block when `same_run`, and every attempt has one, and none stands twice in a condition.
Pairs PairUp(const MetricSample& treatment, const MetricSample& control, bool same_run);

}  // namespace rouse::report
