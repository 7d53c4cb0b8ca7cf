// Operating-system counters of one attempt: read before the request and after it, subtracted, and
// named as rows of the metric catalogue. A counter that could not be read is empty with a reason.
// Sources, costs and caveats of each: docs/counters.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "os/proc_root.h"
#include "os/process_tree_counters.h"
#include "results/attempt.h"

namespace rouse::lab {

struct CounterSnapshot {
  os::ProcessTreeCounters tree;
  std::map<std::string, std::optional<int64_t>> machine_totals;  // differences are stored
  std::map<std::string, std::optional<int64_t>> machine_levels;  // clocks before, memory after
  std::map<std::string, std::string> reasons;                    // of the machine's counters
};

// The block device whose reads are counted as the model's disk: of the file, as in
// /proc/diskstats. Empty where there is none (a network file system, no file). About 200 us; once a
// run.
std::string DiskOf(const os::ProcRoot& root, const std::string& file);

// Reads the processes `pids` (a target's whole tree; none before a new process exists), the
// machine's pressure, reclaim, swap-in, clocks, the reads of `disk` ("" = unknown) and the CPU
// quota of the processes' control group. About 0.5 ms for one process; never between send and first
// token.
CounterSnapshot ReadCounters(const os::ProcRoot& root, std::span<const int> pids,
                             const std::string& disk);

// Into attempt.counters, and attempt.null_reasons for what is empty. Totals of processes that are
// new in `after` count from their start. `has_process` false (a bare URL): all target_* are empty.
void StoreCounters(const CounterSnapshot& before, const CounterSnapshot& after, bool has_process,
                   results::Attempt& attempt);

}  // namespace rouse::lab
