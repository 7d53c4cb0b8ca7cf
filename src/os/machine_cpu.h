// /proc/stat, its first line: the CPU time of all processes of the machine since boot. Readable by
// everybody. About 100 us on a machine with many interrupts. With a process's own time subtracted
// it tells what everybody else used.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "os/proc_root.h"

namespace rouse::os {

struct MachineCpu {
  int64_t busy_ns = 0;    // user, nice, system, irq, softirq; guests are part of user
  int64_t idle_ns = 0;    // idle and waiting for I/O
  int64_t stolen_ns = 0;  // by the hypervisor
};

// In a container it is the whole machine's, unless a file system stands in for /proc/stat.
// kCorrupt when the line is not as the kernel writes it.
Result<MachineCpu> ReadMachineCpu(const ProcRoot& root);

}  // namespace rouse::os
