// Operating-system counters of one attempt: read before the request and after it, subtracted, and
// named as rows of the metric catalogue. A counter that could not be read is empty with a reason.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "results/attempt.h"

namespace rouse::lab {

// One reading; totals since the start of each process, or since boot for machine-wide ones.
struct CounterSnapshot {
  std::map<std::string, std::optional<int64_t>> totals;  // differences are stored
  std::map<std::string, std::optional<int64_t>> levels;  // the later value is stored
  std::map<std::string, std::string> reasons;
};

// Reads the whole tree of processes (empty: none of ours, all target_* are unknown) and the
// machine's pressure. About 0.3 ms for one process; never inside the measured path.
CounterSnapshot ReadCounters(const std::vector<int>& tree);

// after - before, for a process that did not exist before: its totals since its start.
void StoreCounters(const std::optional<CounterSnapshot>& before, const CounterSnapshot& after,
                   results::Attempt& attempt);

}  // namespace rouse::lab
