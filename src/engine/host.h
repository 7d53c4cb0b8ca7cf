// What this machine lets the engine use: cores and memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rouse::engine {

// Physical cores that this process may run on: its affinity mask, hardware threads of one core
// counted once, and not more than the cgroup's CPU quota (rounded up). At least 1. `system_root`
// is "" except in tests, which have their own sys and proc folders below it.
int UsableCores(const std::string& system_root = "");

// Memory that can still be allocated without swapping: MemAvailable, and not more than what is
// left below the limits of this process's control group and those above it. Page cache counts as
// left, since the kernel gives it up first. nullopt when the kernel tells neither. About 200 us.
std::optional<int64_t> AvailableMemoryBytes(const std::string& system_root = "");

}  // namespace rouse::engine
