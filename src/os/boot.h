// Which boot this is and how long ago it was: /proc/sys/kernel/random/boot_id and /proc/uptime. A
// run that goes on after a reboot sees another id. Time spent suspended is base/time.h's
// SuspendedNs(). Readable by everybody. About 8 us.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "os/proc_root.h"

namespace rouse::os {

struct Boot {
  std::optional<std::string> id;     // a UUID, new at every boot
  std::optional<int64_t> uptime_ns;  // suspended time included; in steps of 10 ms
};

Result<Boot> ReadBoot(const ProcRoot& root);

}  // namespace rouse::os
