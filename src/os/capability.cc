#include "os/capability.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rouse::os {

bool HasCapability(Capability capability) {
  __user_cap_header_struct header{};
  header.version = _LINUX_CAPABILITY_VERSION_3;
  __user_cap_data_struct data[2] = {};
  // No wrapper in glibc; libcap would be a dependency for one call.
  if (syscall(SYS_capget, &header, data) != 0) return false;
  const int number = static_cast<int>(capability);
  return ((data[number / 32].effective >> (number % 32)) & 1U) != 0;
}

}  // namespace rouse::os
