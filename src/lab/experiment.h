// A whole run: plan -> schedule -> attempts -> store, one transaction an attempt, written before
// the next begins. Stopping it at any instant loses at most the attempt in flight.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lab/attempt.h"
#include "lab/machine_clock.h"
#include "lab/plan.h"
#include "lab/schedule.h"
#include "results/attempt.h"
#include "results/run.h"
#include "results/store.h"

namespace rouse::lab {

struct Progress {
  std::string doing;      // "page cache cold: dropping the file from the page cache"
  std::string condition;  // its first part, "" before the first attempt
  std::string step;       // its second part: what is being waited for
  int64_t done = 0;       // attempts, the prime not counted
  int64_t total = 0;
  int64_t eta_ns = 0;
  std::optional<int64_t> until_wall_ns;  // the end of the idle time that it is in
  // The request comes next: until the next report nothing beside it should use the machine.
  bool request = false;
};

struct ExperimentEvents {
  // Before the first attempt: the run as it was stored, with calibration and environment.
  std::function<void(const results::Run&)> on_start;
  std::function<void(const Progress&)> on_step;
  std::function<void(const results::Attempt&, const Progress&)> on_attempt;
  // Becomes true when the user asks to stop; looked at between steps and while waiting.
  const std::atomic<bool>* interrupt = nullptr;
};

struct ExperimentResult {
  results::Run run;
  std::vector<results::Attempt> attempts;  // the prime included
  bool interrupted = false;
  std::string why_interrupted;  // when it was not the user: the machine suspends again and again
  // Not "": the plan's session was used up before the run was complete; why and how much is left.
  std::string paused;
  // The target could not be brought up at all: its first failure, with its last words. What was
  // measured until then is stored.
  std::string failure;
};

// What a run does after its last attempt and before it is closed. Whoever looks on is told what
// `step` is called with. Sets `interrupted` or `failure` as the attempts would; its errors are the
// store's, as RunExperiment's are.
using AfterAttempts = std::function<Status(ExperimentResult& result,
                                           const std::function<void(const std::string&)>& step)>;

// What stands behind the seams; tests give fakes.
struct ExperimentParts {
  Target& target;
  Sender& sender;
  PageCache& page_cache;
  Clock& clock;
  // What the caller knows of the environment beside what is read here: versions, backends.
  std::map<std::string, std::string> environment;
  bool calibrate = true;
  // Go on with this stored run: its finished attempts are kept, one that was cut is repeated (and
  // marked), the seed is the run's. kUsage when the plan's hash is not the run's, or when the run
  // is complete; kState while another process measures it.
  std::optional<int64_t> resume_run = {};
  // For memory pressure, background work and the sentinel; null: conditions that need one fail.
  LoadMaker* loads = nullptr;
  // Samples each attempt while it runs; null: none is.
  Sampler* sampler = nullptr;
  // Of a plan with `verify = true`, as they are stored with a new run (lab/verify.h).
  std::vector<results::VerificationCase> cases = {};
  AfterAttempts after_attempts = {};
  // Boot, suspended time and wall clock; read after each attempt. Tests script it.
  std::function<MachineClocks()> clocks = [] { return ReadMachineClocks(os::ProcRoot::Real()); };
};

// Runs the plan and stores everything; the target is stopped at the end. Errors are the store's:
// then nothing more could be kept. An attempt during which the machine was suspended is repeated,
// three times at most; its cut tries stay in the results as interrupted.
Result<ExperimentResult> RunExperiment(const Plan& plan, uint64_t seed, results::Store& store,
                                       ExperimentParts parts, const ExperimentEvents& events);

}  // namespace rouse::lab
