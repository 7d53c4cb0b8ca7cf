// A whole run: plan -> schedule -> attempts -> store, one transaction an attempt, written before
// the next begins. Stopping it at any instant loses at most the attempt in flight.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lab/plan.h"
#include "lab/schedule.h"
#include "results/attempt.h"
#include "results/run.h"

namespace rouse::results {
class Store;
}

namespace rouse::lab {

struct ExperimentEvents {
  // Before the first attempt: the run as it was stored, with calibration and environment.
  std::function<void(const results::Run&)> on_start;
  // What is being waited for and why: "block 2 of 6, page cache cold: evicting the file".
  std::function<void(const std::string&, int64_t done, int64_t total, int64_t eta_ns)> on_step;
  std::function<void(const results::Attempt&)> on_attempt;
  // Whether the user asked to stop; asked between steps and while waiting.
  std::function<bool()> interrupted;
};

struct ExperimentResult {
  results::Run run;
  std::vector<results::Attempt> attempts;  // the prime included
  bool interrupted = false;
};

// Runs the plan and stores everything. Errors: the store's, or a target that cannot be set up at
// all; what was measured so far is then in the store and the run is marked as failed.
Result<ExperimentResult> RunExperiment(const Plan& plan, uint64_t seed, results::Store& store,
                                       const ExperimentEvents& events);

}  // namespace rouse::lab
