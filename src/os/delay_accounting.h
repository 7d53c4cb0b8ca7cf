// Delay accounting: how long a process's threads waited for block I/O, swap-in, reclaim and
// thrashing, exact to the nanosecond. From the kernel's taskstats interface (generic netlink),
// which needs CAP_NET_ADMIN; about 30 us a reading. Kernel documentation:
// Documentation/accounting/delay-accounting.rst.
//
// Trap: kernel.task_delayacct must have been on when the thread started. Switched on later, the
// kernel reports 0 for it, which looks like "never waited". Only whoever started the target knows;
// these functions can only tell that it is off now.
#pragma once

#include <cstdint>
#include <optional>

#include "os/proc_root.h"

namespace rouse::os {

struct DelayAccounting {
  // Sums over all threads, ended ones included, in nanoseconds.
  std::optional<int64_t> block_io_ns;
  std::optional<int64_t> swap_in_ns;
  std::optional<int64_t> thrashing_ns;   // waiting for a page that was evicted moments before
  std::optional<int64_t> reclaim_ns;     // freeing memory for an allocation of its own
  std::optional<int64_t> compaction_ns;  // Linux 5.17 and later
  std::optional<int64_t> write_copy_ns;  // write-protect copies; 6.0 and later
  std::optional<int64_t> run_queue_ns;   // counted with delay accounting off as well
};

// kernel.task_delayacct is 1 now. False where the kernel lacks it.
bool DelayAccountingIsOn(const ProcRoot& root);

// kUnsupported when the kernel lacks it or it is off, kPermission without CAP_NET_ADMIN, kNotFound
// when there is no such process.
Result<DelayAccounting> ReadDelayAccounting(int pid);

}  // namespace rouse::os
