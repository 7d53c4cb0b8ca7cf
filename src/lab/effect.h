// The smallest effect that a plan's number of attempts can see, before anything is run: from an
// earlier run (a pilot) or a stated spread. Normal theory with the efficiency of the signed-rank
// test (stats/verdict.h): a guide for choosing `repeat`, no promise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/plan.h"
#include "results/attempt.h"
#include "results/run.h"
#include "results/store.h"

namespace rouse::lab {

inline constexpr double kEffectPower = 0.8;

struct SmallestEffect {
  std::string treatment;
  std::string control;
  int64_t n = 0;  // pairs
  double confidence = 0.95;
  std::optional<double> ratio;  // of the control's median TTFT
  std::optional<int64_t> ns;    // only from a pilot
  std::string source;           // "run 12 (36 pairs)", "a spread of 10 %"
  std::string why_not;          // when neither could be told
};

struct Pilot {
  int64_t run = 0;
  std::vector<results::Attempt> attempts;
};

// The newest stored run of this plan; else the newest of the same target and model that has all of
// the plan's conditions by name. Nothing when there is none.
Result<std::optional<Pilot>> FindPilot(results::Store& store, const Plan& plan);

// One row per hypothesis; without any, one per condition and its base. `spread` is the relative
// standard deviation of one attempt and goes before a pilot.
std::vector<SmallestEffect> SmallestEffects(const Plan& plan, const std::optional<Pilot>& pilot,
                                            std::optional<double> spread);

}  // namespace rouse::lab
