// The contrasts of a run: each condition against its base, ranked by what the change costs. Only a
// contrast that changed exactly one layer, which was read back in every attempt of both sides,
// while no other layer differed, and whose interval excludes 0, proves a cause.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "explain/causes.h"
#include "results/attempt.h"
#include "results/run.h"
#include "stats/contrast.h"

namespace rouse::explain {

enum class Grade {
  kProved,    // one layer, read back, interval above 0
  kCosts,     // interval above 0, but not one proved layer: `why_not_proved`
  kNoCost,    // the interval holds 0, or is below it
  kUndecided  // no interval: too few attempts
};
std::string_view GradeName(Grade grade);  // "proved", "costs", "no_cost", "undecided"

struct Contrast {
  std::string condition;  // the one that lacks something
  std::string base;       // the one that has it
  std::string layer;      // what differs
  std::string title;      // "the model's file was not in the page cache" (layer_words.h)
  Grade grade = Grade::kUndecided;
  std::string why_not_proved;
  stats::Shift cost;  // Hodges-Lehmann, ns, condition less base
  int64_t n_condition = 0;
  int64_t n_base = 0;
  int64_t failures = 0;
  std::vector<std::string> lost_layers;  // differ beside the declared one, in words
  Attribution attribution;               // of the medians' difference; empty without a positive one
};

// Largest cost first; those without a value last. `run` and `attempts` as stored.
std::vector<Contrast> FindContrasts(const results::Run& run,
                                    std::span<const results::Attempt> attempts);

// The rate of reads that met a cold file: median of the run's attempts whose file was out of the
// page cache by proof and that read at least half of it; `except` is left out. Bytes per second.
std::optional<double> DiskRate(const results::Run& run, std::span<const results::Attempt> attempts,
                               const results::Attempt* except);

std::optional<double> ModelBytes(const results::Run& run);

}  // namespace rouse::explain
