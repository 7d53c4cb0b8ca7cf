// /proc/PID/task/TID/schedstat: time on a CPU and time waiting for one, exact. Readable by
// everybody. About 5 us a thread.
#pragma once

#include <cstdint>
#include <optional>

#include "os/proc_root.h"

namespace rouse::os {

struct Schedstat {
  std::optional<int64_t> cpu_ns;
  std::optional<int64_t> run_queue_wait_ns;  // runnable, and another task had the CPU
  std::optional<int64_t> time_slices;
};

// /proc/PID/schedstat is about the main thread alone: this adds up all living threads. What ended
// threads had used is not in it.
Result<Schedstat> ReadSchedstat(const ProcRoot& root, int pid);

}  // namespace rouse::os
