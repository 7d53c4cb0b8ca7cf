// How much memory a reader may fill with pages.
#pragma once

#include <cstdint>
#include <optional>

#include "os/proc_root.h"

namespace rouse::loader {

// MemAvailable of /proc/meminfo in bytes; empty where the kernel does not say.
std::optional<int64_t> AvailableMemoryBytes(const os::ProcRoot& root);

}  // namespace rouse::loader
