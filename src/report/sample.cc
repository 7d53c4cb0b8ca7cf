#include "report/sample.h"

#include <cmath>
#include <unordered_map>

namespace rouse::report {

using results::Attempt;
using results::Metric;
using results::MetricHome;

std::vector<ConditionAttempts> ByCondition(const results::Run& run,
                                           std::span<const Attempt> attempts) {
  std::vector<ConditionAttempts> conditions;
  std::unordered_map<std::string_view, size_t> places;
  for (const results::ConditionRow& row : run.conditions) {
    if (places.emplace(row.name, conditions.size()).second) conditions.push_back({row.name, {}});
  }
  for (const Attempt& attempt : attempts) {
    if (attempt.prime) continue;
    const auto [place, is_new] = places.emplace(attempt.condition, conditions.size());
    if (is_new) conditions.push_back({attempt.condition, {}});
    conditions[place->second].attempts.push_back(&attempt);
  }
  return conditions;
}

std::map<results::Outcome, int64_t> CountOutcomes(const ConditionAttempts& condition) {
  std::map<results::Outcome, int64_t> counts;
  for (const Attempt* attempt : condition.attempts) ++counts[attempt->outcome];
  return counts;
}

bool FailureIsInfinite(const Metric& metric) {
  if (metric.unit != "ns" || metric.name == "idle_ns" || metric.name == "suspended_ns" ||
      metric.name == "uncertainty_ns") {
    return false;
  }
  return metric.home == MetricHome::kAttempt || metric.home == MetricHome::kMark ||
         metric.home == MetricHome::kStage;
}

MetricSample SampleOf(const ConditionAttempts& condition, const Metric& metric) {
  MetricSample result;
  const bool failure_is_infinite = FailureIsInfinite(metric);
  for (const Attempt* attempt : condition.attempts) {
    if (!results::CountsInSample(attempt->outcome)) continue;
    ++result.counted;
    if (failure_is_infinite) {
      const std::optional<double> wait = results::LongestWait(*attempt);
      std::optional<double>& longest = result.sample.longest_wait;
      if (wait && (!longest || *longest < *wait)) longest = wait;
    }
    if (failure_is_infinite && attempt->outcome != results::Outcome::kOk) {
      ++result.sample.failures;
      result.values.push_back(INFINITY);
      result.blocks.push_back(attempt->block);
      continue;
    }
    const std::optional<double> value = results::MetricOf(*attempt, metric);
    if (!value) {
      ++result.not_measured;
      continue;
    }
    result.sample.values.push_back(*value);
    result.values.push_back(*value);
    result.blocks.push_back(attempt->block);
  }
  return result;
}

stats::Sample SuccessesOnly(const MetricSample& sample) { return {sample.sample.values, 0, {}}; }

namespace {

// Block -> value, or nothing (with the reason) when that is not one to one.
std::optional<std::map<int64_t, double>> ByBlock(const MetricSample& sample, std::string& why) {
  std::map<int64_t, double> values;
  for (size_t index = 0; index < sample.values.size(); ++index) {
    if (!sample.blocks[index]) {
      why = "not every attempt has a block";
      return std::nullopt;
    }
    if (!values.emplace(*sample.blocks[index], sample.values[index]).second) {
      why = "block " + std::to_string(*sample.blocks[index]) + " holds a condition twice";
      return std::nullopt;
    }
  }
  return values;
}

Pairs Unpaired(const MetricSample& treatment, const MetricSample& control, std::string why) {
  Pairs pairs;
  pairs.why_not = std::move(why);
  pairs.treatment = treatment.values;
  pairs.control = control.values;
  return pairs;
}

}  // namespace

Pairs PairUp(const MetricSample& treatment, const MetricSample& control, bool same_run) {
  if (!same_run) return Unpaired(treatment, control, "the two sides are different runs");
  std::string why;
  const auto t = ByBlock(treatment, why);
  const auto c = t ? ByBlock(control, why) : std::nullopt;
  if (!t || !c) return Unpaired(treatment, control, why);
  Pairs pairs;
  pairs.paired = true;
  for (const auto& [block, value] : *t) {
    const auto partner = c->find(block);
    if (partner == c->end()) {
      pairs.only_treatment.push_back(block);
      continue;
    }
    pairs.treatment.push_back(value);
    pairs.control.push_back(partner->second);
  }
  for (const auto& [block, value] : *c) {
    if (!t->contains(block)) pairs.only_control.push_back(block);
  }
  if (pairs.treatment.empty()) {
    return Unpaired(treatment, control, "no block holds both conditions");
  }
  return pairs;
}

}  // namespace rouse::report
