// /proc/PID/task/*/children: the living children of a process, those that each of its threads has
// forked. Readable by everybody; absent in kernels without CONFIG_PROC_CHILDREN. About 10 us and
// 5 us a thread: much less than the whole process table, which finds orphans as well (process.h).
#pragma once

#include <vector>

#include "os/proc_root.h"

namespace rouse::os {

// In ascending order; empty when there is none, when the process has ended, and where the kernel
// does not tell.
std::vector<int> ReadChildren(const ProcRoot& root, int pid);

}  // namespace rouse::os
