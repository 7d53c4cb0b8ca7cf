#include "lab/resume.h"

#include <unistd.h>

#include <cstddef>

#include "base/time.h"
#include "base/units.h"
#include "os/process.h"

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

bool IsBeingMeasured(const results::RunProgress& progress, const std::string& boot_id) {
  if (progress.boot_id != boot_id) return false;
  const auto pid = static_cast<int>(progress.tool_pid);
  const Result<int64_t> ticks = os::ProcessStartTicks(pid);
  return ticks.ok() && *ticks == progress.tool_start_ticks;
}

std::string MeasuredBesideText(results::Store& store, const std::string& boot_id) {
  const Result<std::vector<results::RunSummary>> runs = store.ListRuns();
  if (!runs.ok()) return "";
  std::string text;
  for (const results::RunSummary& run : *runs) {
    if (run.status != "running") continue;
    const auto progress = store.LoadProgress(run.id);
    if (!progress.ok() || !*progress || (*progress)->tool_pid == getpid()) continue;
    if (!IsBeingMeasured(**progress, boot_id)) continue;
    text += (text.empty() ? "run " : " and run ") + std::to_string(run.id) + " (process " +
            std::to_string((*progress)->tool_pid) + ")";
  }
  return text.empty() ? "" : text + " is being measured at the same time: both disturb each other";
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
