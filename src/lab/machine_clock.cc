#include "lab/machine_clock.h"

#include <cstdlib>

#include "base/time.h"
#include "base/units.h"
#include "os/boot.h"

namespace rouse::lab {
namespace {

// The clocks are read one after the other: a difference below this is being taken off the CPU
// between two readings.
constexpr int64_t kSuspendNs = 10 * kNsPerMs;
constexpr int64_t kStepNs = 100 * kNsPerMs;

}  // namespace

MachineClocks ReadMachineClocks(const os::ProcRoot& root) {
  MachineClocks clocks;
  const Result<os::Boot> boot = os::ReadBoot(root);
  if (boot.ok()) clocks.boot_id = boot->id.value_or("");
  clocks.suspended_ns = SuspendedNs();
  clocks.wall_offset_ns = WallNowNs() - MonoNow().ns - clocks.suspended_ns;
  return clocks;
}

std::vector<results::Warning> ClockWarnings(const MachineClocks& before, const MachineClocks& now) {
  std::vector<results::Warning> warnings;
  if (before.boot_id != now.boot_id && !before.boot_id.empty() && !now.boot_id.empty()) {
    warnings.push_back({"rebooted", "the machine was started anew since the attempt before"});
    return warnings;
  }
  const int64_t suspended_ns = SuspendedBetween(before, now);
  if (suspended_ns > 0) {
    warnings.push_back({"suspended", "the machine was suspended for " +
                                         FormatDuration(suspended_ns) +
                                         " since the attempt before"});
  }
  const int64_t step_ns = now.wall_offset_ns - before.wall_offset_ns;
  if (std::llabs(step_ns) > kStepNs) {
    warnings.push_back({"clock_stepped", "the wall clock was set " +
                                             std::string(step_ns > 0 ? "forward" : "back") +
                                             " by " + FormatDuration(std::llabs(step_ns)) +
                                             " since the attempt before"});
  }
  return warnings;
}

int64_t SuspendedBetween(const MachineClocks& before, const MachineClocks& now) {
  const int64_t suspended_ns = now.suspended_ns - before.suspended_ns;
  return suspended_ns > kSuspendNs ? suspended_ns : 0;
}

}  // namespace rouse::lab
