// Samples of one attempt: faults and reads of the target's processes, the machine's pressure, and
// which parts of the model file are in the page cache, every 20 ms from right before the send to
// the end of the answer, on a thread of its own. Where the time goes within an attempt, for
// pictures; every number that is reported comes from the counters on both sides (counters.h).
//
// Nothing of the server is contacted, no page of the file touched, no lock taken that its page
// faults wait for. One sample takes about 0.13 ms of one CPU; docs/counters.md has what that does
// to the attempt, and the attempt's own sampler_cpu_ns.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/time.h"
#include "os/proc_root.h"
#include "results/attempt.h"

namespace rouse::lab {

class Sampler {
 public:
  virtual ~Sampler() = default;
  // Takes the first sample; everything counts from here. `pids`: the target's tree, none before a
  // process exists. `model_file` may be "".
  virtual void Begin(std::span<const int> pids, const std::string& model_file) = 0;
  // A process that was started since.
  virtual void Follow(int pid) = 0;
  // Takes the last sample, and stores all of them with times relative to `intended`, or why there
  // are none. Without Begin it stores nothing. Safe to call while nothing runs.
  virtual void End(MonoTime intended, results::Attempt& attempt) = 0;
};

// `period_ns` above 0. `root` must outlive it.
std::unique_ptr<Sampler> MakeSampler(const os::ProcRoot& root, int64_t period_ns);

}  // namespace rouse::lab
