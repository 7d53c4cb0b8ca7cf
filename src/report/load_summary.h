// What contention costs, from conditions that vary `concurrency` or `background`: tails, the share
// of the time that was spent in the queue, what the others of a burst waited, and how much another
// service on the machine was slowed. Computes; prints nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/terminal.h"
#include "results/attempt.h"
#include "results/run.h"
#include "stats/summary.h"

namespace rouse::report {

struct LoadRow {
  std::string condition;
  std::string load;  // "8 at once", "background cpu", "alone"
  stats::SampleSummary ttft;
  std::optional<double> to_base;        // median TTFT over that of the condition without load
  std::optional<double> queue_share;    // median of stage queue over TTFT; null: nobody tells
  std::optional<double> burst_last_ns;  // median over the bursts of the longest TTFT of one of them
  int64_t companions_failed = 0;
  std::optional<double> cotenant_slowdown;  // median
};

struct LoadSummary {
  std::vector<LoadRow> rows;  // the first is the one without load
};

// Nothing when no condition has a load.
std::optional<LoadSummary> SummarizeLoads(const results::Run& run,
                                          std::span<const results::Attempt> attempts);

std::string LoadText(const LoadSummary& summary, const TerminalOptions& options);
std::string LoadJson(const LoadSummary& summary);

}  // namespace rouse::report
