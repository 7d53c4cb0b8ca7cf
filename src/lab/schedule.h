// The order of the attempts, drawn from a seed: blocks that hold each condition once, each block
// shuffled. The generator is our own and documented, so the same seed gives the same order on every
// machine and in every version (std::shuffle promises neither).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/effect.h"
#include "lab/plan.h"
#include "lab/plan_adapt.h"

namespace rouse::lab {

// SplitMix64 (Steele, Lea, Flood 2014): state += 0x9e3779b97f4a7c15, then two xor-shift-multiplies.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  // Uniform in [0, bound) without bias: draws below 2^64 mod bound are rejected. bound > 0.
  uint64_t Below(uint64_t bound);

 private:
  uint64_t state_;
};

struct ScheduledAttempt {
  int64_t block = 0;
  std::optional<int64_t> position;  // place in the whole run; none for the prime
  size_t condition = 0;             // index into the plan's conditions
  bool prime = false;
};

// A first unmeasured prime (the first condition), then the blocks. Block b holds every condition
// whose repeat is above b. The shuffle is Fisher-Yates from the end with Below(i + 1).
std::vector<ScheduledAttempt> MakeSchedule(const Plan& plan, uint64_t seed);

// How long it waits before its request: the condition's idle time, 0 for the prime, which is there
// to start the server.
int64_t IdleNs(const Plan& plan, const ScheduledAttempt& scheduled);

// 1 to 999,999, from the kernel: short enough to be read out and typed.
uint64_t DrawSeed();

// A guess of the whole run's length: idle times plus what setting and proving each state and the
// request usually cost for a file of this size. For the ETA only.
int64_t EstimateRunNs(const Plan& plan, const std::vector<ScheduledAttempt>& schedule,
                      std::optional<int64_t> model_bytes);

// What a dry run shows beside the plan itself.
struct DryRun {
  uint64_t seed = 0;
  std::vector<ScheduledAttempt> schedule;
  int64_t eta_ns = 0;
  std::vector<SmallestEffect> effects;
  std::vector<LeftOut> left_out;  // of a preset, on this target
  // The cases of a plan with `verify = true`, as JSON and for people; "" for others. The caller's:
  // how cases are told stands in report/verify_text.h, above this folder.
  std::string cases_json = {};
  std::string cases_text = {};
};

// `rouse.schedule/1` as JSON, and the same for people (states, how each is set and proved, the
// smallest effects, order).
std::string ScheduleJson(const Plan& plan, const DryRun& run);
std::string ScheduleText(const Plan& plan, const DryRun& run);

}  // namespace rouse::lab
