// The cases of a plan with `verify = true`: whether a server does what it promises, and whether it
// fails well. Three kinds (docs/presets/verify.md): benefits, which are the plan's hypotheses;
// refusals (a fault is made, a clear error has to come in bounded time); recoveries (the server is
// killed or left, the next request has to be served). After each, nothing may be lost.
//
// Whether a target can be brought to a case is decided by its kind alone; what it cannot be brought
// to is left out with the reason. Runs refusals and recoveries; judges no hypothesis, stores and
// prints nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lab/plan.h"
#include "lab/plan_adapt.h"
#include "lab/sender.h"
#include "lab/target.h"
#include "results/verification.h"

namespace rouse::lab {

// SIGKILL to every process of the target, without a word before.
void KillTarget(Target& target);
// Lets the target's process have no more than this address space from now on. kState when it has
// ended, or as the kernel says.
Status LimitTargetMemory(Target& target, int64_t bytes);

struct VerifyParts {
  Target& target;
  SenderMaker make_sender = MakeSender;
  const std::atomic<bool>* interrupt = nullptr;
  // The faults that no target makes itself; tests script them.
  std::function<void(Target&)> kill = KillTarget;
  std::function<Status(Target&, int64_t bytes)> limit_memory = LimitTargetMemory;
  std::function<void(const results::VerificationCase&)> on_begin = {};
  // After each; an error ends the rest and is RunCases' own.
  std::function<Status(const results::VerificationCase&)> on_end = {};
  int64_t idle_ns = kNsPerSecond;  // before "killed while idle"
};

// All cases of this plan on its target, none run yet: planned, or left out with the reason.
std::vector<results::VerificationCase> PlanCases(const Plan& plan,
                                                 std::span<const LeftOut> left_out);

// Runs the refusals and recoveries among `cases` that are planned or were interrupted; others stay
// as they are. The target is stopped at the end. kState when it cannot be brought to answer once:
// nothing can be told of it then. An interrupt marks what is left as interrupted.
Status RunCases(const Plan& plan, std::vector<results::VerificationCase>& cases, VerifyParts parts);

}  // namespace rouse::lab
