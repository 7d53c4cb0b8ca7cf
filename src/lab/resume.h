// Which stored run a command goes on with, and in how many sessions a run ends: what makes "the
// same command each evening" work. Reads the store only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/plan.h"
#include "lab/schedule.h"
#include "results/store.h"

namespace rouse::lab {

// The unfinished run of exactly this plan (by its hash), the latest one. Empty when this plan was
// never begun: it may begin now. kUsage when its latest run is complete: there is nothing to go on
// with, and nobody who says --resume wants a second run.
Result<std::optional<int64_t>> UnfinishedRunOf(results::Store& store, const Plan& plan);

// Whether the process that wrote this measures still: it is of this boot, and the pid is the same
// process.
bool IsBeingMeasured(const results::RunProgress& progress, const std::string& boot_id);

// The runs of this database that other processes are measuring right now: they and a run that is
// begun now disturb each other. "" without one, else a sentence.
std::string MeasuredBesideText(results::Store& store, const std::string& boot_id);

// How many sessions the whole schedule takes, as lab/experiment.h cuts it: no block begins that
// would not end within the plan's session. 1 without a session.
int64_t CountSessions(const Plan& plan, const std::vector<ScheduledAttempt>& schedule,
                      std::optional<int64_t> model_bytes);

// ", in 3 sessions of at most 10 h", or "" when one is enough.
std::string SessionsText(const Plan& plan, const std::vector<ScheduledAttempt>& schedule,
                         std::optional<int64_t> model_bytes);

}  // namespace rouse::lab
