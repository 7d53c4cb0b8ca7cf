// /proc/PID/status: memory and context switches. Readable by everybody. About 15 us.
#pragma once

#include <cstdint>
#include <optional>

#include "os/proc_root.h"

namespace rouse::os {

struct ProcStatus {
  // All empty for a zombie or a kernel thread, which have no memory.
  std::optional<int64_t> peak_rss_bytes;  // VmHWM
  std::optional<int64_t> rss_bytes;       // VmRSS
  std::optional<int64_t> rss_anon_bytes;  // RssAnon
  std::optional<int64_t> rss_file_bytes;  // RssFile: mapped files, the weights of a mapped model
  std::optional<int64_t> rss_shmem_bytes;
  std::optional<int64_t> swap_bytes;    // VmSwap
  std::optional<int64_t> locked_bytes;  // VmLck: length of the locked mappings
  std::optional<int64_t> threads;
  std::optional<int64_t> user_id;  // effective
  // Of the one thread that the file is about, the main thread for a process.
  std::optional<int64_t> voluntary_context_switches;
  std::optional<int64_t> involuntary_context_switches;
};

Result<ProcStatus> ReadProcStatus(const ProcRoot& root, int pid);
Result<ProcStatus> ReadThreadStatus(const ProcRoot& root, int pid, int tid);

}  // namespace rouse::os
