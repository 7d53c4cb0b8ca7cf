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
#include "lab/schedule.h"
#include "lab/states.h"
#include "os/proc_root.h"
#include "results/attempt.h"
#include "wire/client.h"
#include "wire/exchange.h"
#include "wire/request.h"

namespace rouse::lab {

// Sends requests: the seam to wire/client.h, so that tests can script exchanges.
class Sender {
 public:
  virtual ~Sender() = default;
  // Name resolution, TLS context, body: everything that is slow and not part of the answer. Returns
  // what Perform sends; kUsage for a request that cannot be sent.
  virtual Status Prepare(const wire::RequestSpec& spec) = 0;
  // The request that was prepared last. With an intended send time its lateness counts.
  virtual wire::Exchange Perform(std::optional<MonoTime> intended_send,
                                 const std::atomic<bool>* interrupt) = 0;
  // Whether the next Perform may use, and keeps, one connection.
  virtual void KeepConnection(bool keep) = 0;
};

struct AttemptContext {
  StateContext states;
  Sender& sender;
  const os::ProcRoot& proc;
  const std::atomic<bool>* interrupt = nullptr;
  std::string disk;  // the block device under the model's file (lab/counters.h); "" = unknown
  // An attempt during which the machine was suspended is ended as interrupted. Null: not looked at.
  std::function<MachineClocks()> clocks = {};
  // Right before an idle time of so many ns; the last thing before it that may take time.
  std::function<void(int64_t)> on_idle = {};
};

// The request of this plan to this target with this setup.
wire::RequestSpec MakeRequest(const Plan& plan, Target& target, const SendSetup& setup);

// Sends a primer: unmeasured, tried again while the server is starting or loading (refused, 503).
Result<PrimerReport> SendPrimer(AttemptContext& context, const SendSetup& setup);

// Never fails: what went wrong is the attempt's outcome. The attempt has no id yet.
results::Attempt RunAttempt(AttemptContext& context, const ScheduledAttempt& scheduled);

// The real sender. Secrets come from the environment variables that the plan names.
std::unique_ptr<Sender> MakeSender();

}  // namespace rouse::lab
