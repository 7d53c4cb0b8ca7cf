// /proc/PID/stat: identity, page faults and CPU time of a process. Readable by everybody. About
// 10 us.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "os/proc_root.h"

namespace rouse::os {

struct ProcStat {
  std::string comm;
  char state = '?';  // R running, S sleeping, D in the kernel, Z zombie, T stopped, ...
  std::optional<int64_t> parent_pid;
  std::optional<int64_t> minor_faults;           // of all threads, ended ones included
  std::optional<int64_t> children_minor_faults;  // of children that were waited for
  std::optional<int64_t> major_faults;
  std::optional<int64_t> children_major_faults;
  std::optional<int64_t> user_ticks;  // sysconf(_SC_CLK_TCK) a second
  std::optional<int64_t> system_ticks;
  std::optional<int64_t> children_user_ticks;
  std::optional<int64_t> children_system_ticks;
  std::optional<int64_t> threads;
  std::optional<int64_t> start_time_ticks;  // since boot
  // delayacct_blkio_ticks, of the one thread that the file is about: 0 also when
  // kernel.task_delayacct was off at its start.
  std::optional<int64_t> block_io_delay_ticks;
};

Result<ProcStat> ReadProcStat(const ProcRoot& root, int pid);
// Of one thread: only state and block_io_delay_ticks then differ in meaning, CPU time and faults
// are the thread's own.
Result<ProcStat> ReadThreadStat(const ProcRoot& root, int pid, int tid);

}  // namespace rouse::os
