// How much more of a file may be brought into the page cache before the kernel has to take memory
// from somebody. Reads /proc/meminfo and the limits of the control group and of those above it (v1
// and v2). It decides nothing: what to do with a file that does not fit is the prefetcher's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "os/proc_root.h"

namespace rouse::loader {

struct MemoryBudget {
  // MemAvailable: free, plus what the kernel reclaims easily. Empty when it is not told.
  std::optional<int64_t> machine_bytes;
  // Of it, page cache of files; empty when it is not told.
  std::optional<int64_t> machine_file_bytes;
  // What is left below the tightest limit of a control group; empty without a limit. Page cache
  // that is charged to the group counts as left, since the group gives it up first.
  std::optional<int64_t> group_bytes;
  std::optional<int64_t> group_file_bytes;  // of it, page cache of files
  std::string group;  // the group with that limit ("/user.slice/rouse"), "" without one

  // What this process has locked, which counts as left nowhere.
  int64_t locked_bytes = 0;

  // The smaller one, less `reserve_bytes`, at least 0; empty when neither is known.
  std::optional<int64_t> Left(int64_t reserve_bytes) const;
};

// About 200 us. Never fails: what can't be read is empty.
MemoryBudget ReadMemoryBudget(const os::ProcRoot& root, int pid);
// The same of this process. Tests have proc and sys folders of their own below `system_root`; "" is
// this machine.
MemoryBudget ReadOwnMemoryBudget(const std::string& system_root = "");

}  // namespace rouse::loader
