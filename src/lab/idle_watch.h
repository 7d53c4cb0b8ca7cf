// What happened during an idle time, read right before it and right after it and never in between:
// which layers it took from the server, what the server did by itself (timer wake-ups), what others
// did on the machine, what the kernel took back. Nothing here contacts the server or touches its
// file's pages. Defined in docs/presets/idle.md and docs/metrics.md (idle_*).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/time.h"
#include "lab/states.h"
#include "os/proc_root.h"
#include "os/process_tree_counters.h"
#include "results/attempt.h"

namespace rouse::lab {

struct IdleSnapshot {
  MonoTime at;
  os::ProcessTreeCounters target;
  std::set<int> mappers;  // processes of the target that map the model's file
  std::map<std::string, std::optional<int64_t>> totals;
  std::map<std::string, std::string> reasons;
};

// About 1 ms and 60 us a process of the machine.
IdleSnapshot ReadIdleSnapshot(const os::ProcRoot& root, StateContext& context);

// Into `attempt`: counters idle_*, the layers "model" and "resident_memory" of state_at_send, and a
// warning for what disturbs an idle time (other programs, proactive reclaim).
void StoreIdle(const IdleSnapshot& before, const IdleSnapshot& after, const Condition& condition,
               results::Attempt& attempt);

// "model: ...; page_cache: ..." for every layer of these readings that is not as wanted.
std::string AllNotReached(const results::LayerReadings& readings);

// "on (since boot or by its module parameter)", "off", "not in this kernel": whether the kernel
// takes idle pages back by itself.
std::string DamonReclaim(const os::ProcRoot& root);

}  // namespace rouse::lab
