#include "lab/inhibit.h"

#include <unistd.h>

#include "base/time.h"

namespace rouse::lab {
namespace {

// As sd_booted(3) does it.
constexpr const char* kSystemd = "/run/systemd/system";
constexpr int64_t kRefusedWithinNs = 300 * kNsPerMs;

}  // namespace

Result<os::Child> InhibitSleep() {
  if (access(kSystemd, F_OK) != 0) {
    return Error(
        ErrorCode::kUnsupported,
        "--inhibit-sleep needs systemd, which does not run here.\nKeep the machine awake by "
        "its own settings; an attempt that a suspend cuts is repeated anyway.");
  }
  os::SpawnOptions options;
  options.argv = {"systemd-inhibit", "--what=sleep:idle",
                  "--who=rouse",     "--why=an idle server is being measured",
                  "--mode=block",    "sleep",
                  "infinity"};
  options.stdout_to = os::OutputTo::Null();
  options.stderr_to = os::OutputTo::Null();
  Result<os::Child> child = os::Spawn(options);
  if (!child.ok()) return child.error().WithContext("--inhibit-sleep");
  // Whoever may not hold the lock is told at once.
  const Result<os::ExitInfo> ended = child->Wait(MonoNow() + kRefusedWithinNs);
  if (!ended.ok()) return child;
  return Error(ErrorCode::kState, "--inhibit-sleep: systemd-inhibit " + ended->Describe() +
                                      "; this user may not keep the machine awake");
}

}  // namespace rouse::lab
