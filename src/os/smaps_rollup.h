// /proc/PID/smaps_rollup: memory with shared pages divided among those who share them. Needs ptrace
// access (same user or root). Walks all page tables under the process's mmap lock: about 1 ms per
// GB mapped, and page faults of the target wait meanwhile. Never between send and first token.
#pragma once

#include <cstdint>
#include <optional>

#include "os/proc_root.h"

namespace rouse::os {

struct SmapsRollup {
  std::optional<int64_t> rss_bytes;
  std::optional<int64_t> pss_bytes;
  std::optional<int64_t> pss_anon_bytes;
  std::optional<int64_t> pss_file_bytes;
  std::optional<int64_t> anonymous_bytes;
  std::optional<int64_t> swap_bytes;
  std::optional<int64_t> locked_bytes;  // resident pages of locked mappings, its share
};

// A process without memory (zombie, kernel thread) is kNotFound.
Result<SmapsRollup> ReadSmapsRollup(const ProcRoot& root, int pid);

}  // namespace rouse::os
