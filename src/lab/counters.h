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
  std::map<std::string, std::optional<int64_t>> machine_totals;  // psi_*: differences are stored
  std::map<std::string, std::string> reasons;                    // of the machine's counters
};

// Reads the processes `pids` (a target's whole tree; none before a new process exists) and the
// machine's pressure. About 0.2 ms for one process; never between send and first token.
CounterSnapshot ReadCounters(const os::ProcRoot& root, std::span<const int> pids);

// Into attempt.counters, and attempt.null_reasons for what is empty. Totals of processes that are
// new in `after` count from their start. `has_process` false (a bare URL): all target_* are empty.
void StoreCounters(const CounterSnapshot& before, const CounterSnapshot& after, bool has_process,
                   results::Attempt& attempt);

}  // namespace rouse::lab
