#include "lab/schedule.h"

#include "lab/targets.h"

#include <sys/random.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/time.h"
#include "base/units.h"

namespace rouse::lab {
namespace {

// Usual costs on two shared cores, for the ETA only.
constexpr int64_t kAttemptNs = 350 * kNsPerMs;
constexpr int64_t kReloadNs = 400 * kNsPerMs;
constexpr int64_t kProcessNs = 500 * kNsPerMs;
constexpr int64_t kPromptTokenNs = 3 * kNsPerMs;
constexpr int64_t kModelBytesPerSecond = 500'000'000;

int64_t StateCostNs(const Condition& condition, int64_t model_bytes) {
  int64_t cost = 0;
  const int64_t read_ns = model_bytes * (kNsPerSecond / kModelBytesPerSecond);
  if (condition.Value(Layer::kModel) != "loaded") cost += kReloadNs;
  if (condition.Value(Layer::kProcess) == "new") cost += kProcessNs;
  const std::string& page_cache = condition.Value(Layer::kPageCache);
  if (page_cache != "warm" && page_cache != kLockedPages) cost += read_ns;
  // The primer computes a long prompt as well.
  cost += condition.prompt_tokens.value_or(0) * 2 * kPromptTokenNs;
  cost += (condition.concurrency - 1) * kAttemptNs;
  if (!condition.target_args.empty() || !condition.path.empty()) cost += kProcessNs;
  return cost;
}

}  // namespace

uint64_t SplitMix64::Next() {
  // Constants: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014,
  // in the variant mix13 of Stafford that java.util.SplittableRandom uses.
  state_ += 0x9e3779b97f4a7c15U;
  uint64_t z = state_;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

uint64_t SplitMix64::Below(uint64_t bound) {
  CHECK(bound > 0);
  const uint64_t threshold = (0 - bound) % bound;  // 2^64 mod bound
  for (;;) {
    const uint64_t drawn = Next();
    if (drawn >= threshold) return drawn % bound;
  }
}

std::vector<ScheduledAttempt> MakeSchedule(const Plan& plan, uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<ScheduledAttempt> schedule;
  if (plan.conditions.empty()) return schedule;
  schedule.push_back({.block = 0, .position = std::nullopt, .condition = 0, .prime = true});
  const auto repeat_of = [&](size_t i) { return plan.conditions[i].repeat.value_or(plan.repeat); };
  int64_t blocks = 0;
  for (size_t i = 0; i < plan.conditions.size(); ++i) blocks = std::max(blocks, repeat_of(i));
  int64_t position = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    std::vector<size_t> order;
    for (size_t i = 0; i < plan.conditions.size(); ++i) {
      if (block < repeat_of(i)) order.push_back(i);
    }
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<size_t>(random.Below(i))]);
    }
    for (const size_t condition : order) {
      schedule.push_back(
          {.block = block, .position = position++, .condition = condition, .prime = false});
    }
  }
  return schedule;
}

int64_t IdleNs(const Plan& plan, const ScheduledAttempt& scheduled) {
  return scheduled.prime ? 0 : plan.conditions[scheduled.condition].idle_ns.value_or(0);
}

uint64_t DrawSeed() {
  uint64_t drawn = 0;
  CHECK(getrandom(&drawn, sizeof drawn, 0) == sizeof drawn);
  return SplitMix64(drawn).Below(999'999) + 1;
}

int64_t EstimateRunNs(const Plan& plan, const std::vector<ScheduledAttempt>& schedule,
                      std::optional<int64_t> model_bytes) {
  int64_t total = kNsPerSecond;  // calibration, first start
  for (const ScheduledAttempt& attempt : schedule) {
    const Condition& condition = plan.conditions[attempt.condition];
    total += kAttemptNs + StateCostNs(condition, model_bytes.value_or(0)) + IdleNs(plan, attempt);
  }
  return total;
}

}  // namespace rouse::lab
