// The bounded wait for a target's processes to do nothing, before an attempt (lab/states.h).
#include <optional>
#include <vector>

#include "base/time.h"
#include "lab/states.h"
#include "os/process_tree_counters.h"

namespace rouse::lab {
namespace {

constexpr int64_t kQuietWindowNs = 20 * kNsPerMs;

}  // namespace

bool WaitForQuiet(StateContext& context, int64_t limit_ns) {
  const std::vector<int> tree = context.target.Tree();
  if (tree.empty()) return true;
  const os::ProcRoot& root = os::ProcRoot::Real();
  const MonoTime deadline = context.clock.Now() + limit_ns;
  std::optional<int64_t> before = os::ReadProcessTreeCounters(root, tree).cpu_ns;
  while (before) {
    const MonoTime from = context.clock.Now();
    context.clock.SleepFor(kQuietWindowNs);
    const std::optional<int64_t> now = os::ReadProcessTreeCounters(root, tree).cpu_ns;
    if (!now) return true;
    if ((*now - *before) * 10 < context.clock.Now() - from) return true;
    if (context.clock.Now() >= deadline) return false;
    before = now;
  }
  return true;
}

}  // namespace rouse::lab
