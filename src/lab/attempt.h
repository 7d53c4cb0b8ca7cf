// One attempt in eight steps (docs/method.md section 3): bring the state about, prove it, wait for
// quiet, idle without contact and prove again, read counters, send, read counters, prove again.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/time.h"
#include "lab/machine_clock.h"
#include "lab/sampler.h"
#include "lab/schedule.h"
#include "lab/sender.h"
#include "lab/states.h"
#include "os/proc_root.h"
#include "results/attempt.h"
#include "wire/request.h"

namespace rouse::lab {

struct AttemptContext {
  StateContext states;
  Sender& sender;
  const os::ProcRoot& proc;
  const std::atomic<bool>* interrupt = nullptr;
  std::string disk;  // the block device under the model's file (lab/counters.h); "" = unknown
  // For the companions of a condition with `concurrency`.
  SenderMaker make_sender = MakeSender;
  // Samples each attempt while it runs. Null: nothing is sampled.
  Sampler* sampler = nullptr;
  // An attempt during which the machine was suspended is ended as interrupted. Null: not looked at.
  std::function<MachineClocks()> clocks = {};
  // Right before an idle time of so many ns; the last thing before it that may take time.
  std::function<void(int64_t)> on_idle = {};
  // Before the wait for quiet that comes before the request, or before its idle time.
  std::function<void()> on_request = {};
};

// The request of this plan to this target with this setup.
wire::RequestSpec MakeRequest(const Plan& plan, Target& target, const SendSetup& setup);

// Sends a primer: unmeasured, tried again while the server is starting or loading (refused, 503).
Result<PrimerReport> SendPrimer(AttemptContext& context, const SendSetup& setup);

// Never fails: what went wrong is the attempt's outcome. The attempt has no id yet.
results::Attempt RunAttempt(AttemptContext& context, const ScheduledAttempt& scheduled);

}  // namespace rouse::lab
