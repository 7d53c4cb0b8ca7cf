// What runs that were killed together with everything that cleans up after them have left on this
// machine: processes (os/leftovers.h), control groups of ballasts and of simulated disks, folders
// of compiled kernels. Called once at the start of a command that starts processes, before the
// first of them.
#pragma once

#include <string>
#include <vector>

namespace rouse::lab {

// Removes it, and says what it was: "llama-server (pid 4121)", "folder ...". Empty is the rule.
// A few ms; up to 2 s more where processes are slow to end.
std::vector<std::string> RemoveLeftovers();

}  // namespace rouse::lab
