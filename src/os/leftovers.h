// Processes that a killed rouse has left. Normally there are none: wardens end a tool's tree when
// the tool is gone (os/process.h). But where tool, keeper and warden were all killed at once (a
// SIGKILL to a whole control group or session), the children of its children survive. Each process
// that rouse starts carries, in its environment, who started it; a process whose starter is no more
// is a leftover, and the next start of rouse ends it.
//
// Not a way to find a tree that still has its tool: that is Child::Tree. A process that has written
// over its own environment is not found.
//
// Safe from any thread; blocks. About 10 us for each process of this user.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/proc_root.h"

namespace rouse::os {

// In the environment of every process that Spawn starts; its descendants inherit it.
inline constexpr const char* kOwnerVariable = "ROUSE_STARTED_BY";

// Which process starts: its pid namespace, pid and start time, so that neither a reused pid nor the
// same pid in another container is taken for it. "4026531836:4121:887612".
Result<std::string> OwnerToken(const ProcRoot& root, int pid);

struct Leftover {
  int pid = 0;
  std::string comm;
  int owner_pid = 0;  // of the rouse that is no more
};

// Processes whose owner has ended, except ourselves and those above us. Only of this pid namespace,
// and only those whose environment this user may read.
std::vector<Leftover> FindLeftovers(const ProcRoot& root);

// SIGKILL for each of them, and for what they fork meanwhile; waits up to 2 s for their end.
// Returns what was ended.
std::vector<Leftover> EndLeftovers();

}  // namespace rouse::os
