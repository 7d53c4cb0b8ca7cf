// Who is whose parent, from /proc/*/stat. Internal to os: process.h has what others use.
#pragma once

#include <vector>

#include "os/proc_root.h"

namespace rouse::os::internal {

struct ProcessLink {
  int pid = 0;
  int parent_pid = 0;
  bool zombie = false;
};

// Every process that can be seen, in ascending order of pid. About 8 us a process.
std::vector<ProcessLink> ReadProcessLinks(const ProcRoot& root);

// Field 22 of /proc/PID/stat.
Result<int64_t> StartTicks(const ProcRoot& root, int pid);

// `root` first, then its descendants, parents before children.
std::vector<int> DescendantsOf(const std::vector<ProcessLink>& links, int root);

}  // namespace rouse::os::internal
