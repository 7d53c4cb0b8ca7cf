#include "os/machine_cpu.h"

#include <unistd.h>

#include <optional>
#include <vector>

#include "base/strings.h"
#include "base/time.h"

namespace rouse::os {
namespace {

// "cpu  2255 34 2290 22625563 6290 127 456 0 0 0": user nice system idle iowait irq softirq steal
// guest guest_nice, in clock ticks. The double blank belongs there.
enum Column { kUser, kNice, kSystem, kIdle, kIoWait, kIrq, kSoftIrq, kSteal, kColumns };

}  // namespace

Result<MachineCpu> ReadMachineCpu(const ProcRoot& root) {
  ASSIGN_OR_RETURN(const std::string text, root.Read("proc/stat"));
  const std::string_view line = SplitAt(text, '\n').front();
  std::vector<int64_t> ticks;
  bool first = true;
  bool named = false;
  for (const std::string_view word : SplitAt(line, ' ')) {
    if (word.empty()) continue;
    if (first) {
      named = word == "cpu";
      first = false;
      continue;
    }
    const std::optional<int64_t> number = ParseInt64(word);
    if (!number) break;
    ticks.push_back(*number);
  }
  // Kernels before 2.6.11 had no column for stolen time; none of those runs this program.
  if (!named || ticks.size() < kColumns) {
    return Error(ErrorCode::kCorrupt, "/proc/stat does not begin with the line of all CPUs");
  }
  const int64_t tick_ns = kNsPerSecond / sysconf(_SC_CLK_TCK);
  MachineCpu cpu;
  for (const Column column : {kUser, kNice, kSystem, kIrq, kSoftIrq}) {
    cpu.busy_ns += ticks[column] * tick_ns;
  }
  cpu.idle_ns = (ticks[kIdle] + ticks[kIoWait]) * tick_ns;
  cpu.stolen_ns = ticks[kSteal] * tick_ns;
  return cpu;
}

}  // namespace rouse::os
