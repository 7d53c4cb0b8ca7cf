// Free page reporting: a virtual machine tells its host which pages are free, and the host takes
// their memory away until they are used again (virtio balloon, Linux 5.7 and later). Whoever gets
// such a page then waits for the host, which no counter of the guest shows.
#pragma once

#include <optional>

#include "os/proc_root.h"

namespace rouse::os {

// Whether a virtio balloon agreed with its host to report free pages. Empty where that can't be
// told: without virtio devices (another hypervisor may do the same by other means).
std::optional<bool> ReadFreePageReporting(const ProcRoot& root);

}  // namespace rouse::os
