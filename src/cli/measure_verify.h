// The cases of a plan with `verify = true`: planned before its run, run after its attempts
// (lab/verify.h), kept with it after each, and the exit status that they end in.
#pragma once

#include <optional>
#include <string>

#include "cli/common.h"
#include "lab/experiment.h"
#include "lab/plan.h"
#include "lab/plan_adapt.h"
#include "lab/target.h"
#include "results/run.h"
#include "results/store.h"

namespace rouse::cli {

// What the run does after its attempts; empty for a plan without `verify`. All four outlive it.
lab::AfterAttempts VerifyAfterAttempts(const lab::Plan& plan, lab::Target& target,
                                       results::Store& store, Progress& progress);

// 0 passed, 1 a case failed, 4 nothing failed but not all was seen. Of a run that has cases.
int VerificationStatus(const results::Run& run);

}  // namespace rouse::cli
