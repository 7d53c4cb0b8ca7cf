#include "os/boot.h"

#include <charconv>
#include <cmath>

#include "base/time.h"
#include "os/kernel_text.h"

namespace rouse::os {

// /proc/uptime: 1570.52 1625.91      (since boot; idle, summed over CPUs)
Result<Boot> ReadBoot(const ProcRoot& root) {
  Boot boot;
  boot.id = ReadTextFile(root, "proc/sys/kernel/random/boot_id");
  const Result<std::string> uptime = root.Read("proc/uptime");
  if (!uptime.ok()) {
    if (boot.id) return boot;
    return uptime.error();
  }
  const std::vector<std::string_view> fields = SplitBlanks(*uptime);
  double seconds = 0;
  const char* const end = fields.empty() ? nullptr : fields[0].data() + fields[0].size();
  if (end == nullptr || std::from_chars(fields[0].data(), end, seconds).ptr != end ||
      !std::isfinite(seconds) || seconds < 0) {
    return Error(ErrorCode::kCorrupt, "/proc/uptime does not begin with a number of seconds");
  }
  boot.uptime_ns = std::llround(seconds * static_cast<double>(kNsPerSecond));
  return boot;
}

}  // namespace rouse::os
