#include "lab/resume.h"

#include <cstddef>

#include "base/time.h"
#include "base/units.h"

namespace rouse::lab {

Result<std::optional<int64_t>> UnfinishedRunOf(results::Store& store, const Plan& plan) {
  const std::string hash = PlanHash(plan);
  ASSIGN_OR_RETURN(const std::vector<results::RunSummary> runs, store.ListRuns());
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    if (run->kind != "measure") continue;
    ASSIGN_OR_RETURN(const results::Run stored, store.LoadRun(run->id));
    if (stored.plan_hash != hash) continue;
    if (stored.status != "complete") return std::optional<int64_t>(run->id);
    return Error(ErrorCode::kUsage,
                 "run " + std::to_string(run->id) + " of this plan is complete: rouse report " +
                     std::to_string(run->id) + " shows it; without --resume a new one begins");
  }
  return std::optional<int64_t>();
}

int64_t CountSessions(const Plan& plan, const std::vector<ScheduledAttempt>& schedule,
                      std::optional<int64_t> model_bytes) {
  if (!plan.session_ns) return 1;
  int64_t sessions = 1;
  int64_t used_ns = 0;
  size_t from = 0;
  while (from < schedule.size()) {
    size_t to = from;
    while (to < schedule.size() && schedule[to].block == schedule[from].block) ++to;
    const std::vector<ScheduledAttempt> block(schedule.begin() + static_cast<std::ptrdiff_t>(from),
                                              schedule.begin() + static_cast<std::ptrdiff_t>(to));
    const int64_t block_ns = EstimateRunNs(plan, block, model_bytes);
    if (used_ns > 0 && used_ns + block_ns > *plan.session_ns) {
      ++sessions;
      used_ns = 0;
    }
    used_ns += block_ns;
    from = to;
  }
  return sessions;
}

std::string SessionsText(const Plan& plan, const std::vector<ScheduledAttempt>& schedule,
                         std::optional<int64_t> model_bytes) {
  const int64_t sessions = CountSessions(plan, schedule, model_bytes);
  if (sessions < 2) return "";
  // What fits into a night is a night.
  const bool nights = *plan.session_ns >= int64_t{6} * 3600 * kNsPerSecond;
  return ", in " + std::to_string(sessions) + (nights ? " nights" : " sessions") + " of at most " +
         FormatDuration(*plan.session_ns);
}

}  // namespace rouse::lab
