// /proc/meminfo: the machine's memory. Readable by everybody. About 25 us.
#pragma once

#include <cstdint>
#include <optional>

#include "os/proc_root.h"

namespace rouse::os {

struct Meminfo {
  std::optional<int64_t> total_bytes;
  std::optional<int64_t> free_bytes;
  std::optional<int64_t> available_bytes;  // an estimate: free, plus what reclaim gives easily
  std::optional<int64_t> buffers_bytes;
  std::optional<int64_t> cached_bytes;  // page cache, tmpfs included
  // Pages of files that can be given up: neither tmpfs nor locked ones.
  std::optional<int64_t> active_file_bytes;
  std::optional<int64_t> inactive_file_bytes;
  std::optional<int64_t> dirty_bytes;
  std::optional<int64_t> writeback_bytes;
  std::optional<int64_t> anonymous_bytes;
  std::optional<int64_t> mapped_bytes;
  std::optional<int64_t> shmem_bytes;
  std::optional<int64_t> locked_bytes;       // Mlocked
  std::optional<int64_t> unevictable_bytes;  // locked ones included
  std::optional<int64_t> swap_total_bytes;
  std::optional<int64_t> swap_free_bytes;
};

Result<Meminfo> ReadMeminfo(const ProcRoot& root);

}  // namespace rouse::os
