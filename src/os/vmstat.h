// /proc/vmstat: what the machine's memory management has done since boot. Readable by everybody.
// About 60 us. Differences tell which of its actions fell into an attempt.
#pragma once

#include <cstdint>
#include <optional>

#include "os/proc_root.h"

namespace rouse::os {

struct Vmstat {
  std::optional<int64_t> paged_in_bytes;    // pgpgin: from block devices, files and swap
  std::optional<int64_t> paged_out_bytes;   // pgpgout
  std::optional<int64_t> swapped_in_pages;  // pswpin
  std::optional<int64_t> swapped_out_pages;
  std::optional<int64_t> faults;        // pgfault: minor and major
  std::optional<int64_t> major_faults;  // pgmajfault
  std::optional<int64_t> reclaimed_by_kswapd_pages;
  std::optional<int64_t> reclaimed_directly_pages;  // while a task waited for memory
  // By memory.reclaim of cgroup v2 (pgsteal_proactive): page cache that leaves without any
  // pressure.
  std::optional<int64_t> reclaimed_proactively_pages;
  // Pages read again soon after they had been evicted: memory is too small for what is in use.
  std::optional<int64_t> refaulted_file_pages;
  std::optional<int64_t> refaulted_anonymous_pages;
  std::optional<int64_t> cache_drops;  // drop_pagecache: somebody wrote to /proc/sys/vm/drop_caches
  std::optional<int64_t> out_of_memory_kills;
};

Result<Vmstat> ReadVmstat(const ProcRoot& root);

}  // namespace rouse::os
