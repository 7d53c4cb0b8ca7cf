// What this thread may do, asked of the kernel instead of guessed from the user id: inside a
// container root may lack a capability, and outside a plain user may have been given one.
#pragma once

namespace rouse::os {

// The numbers of linux/capability.h that rouse asks about.
enum class Capability : int {
  kDacOverride = 1,
  kFowner = 3,
  kNetAdmin = 12,
  kIpcLock = 14,
  kSysPtrace = 19,
  kSysAdmin = 21,
  kSysNice = 23,
  kSysResource = 24,
};

// Whether it is in the effective set of the calling thread.
bool HasCapability(Capability capability);

}  // namespace rouse::os
