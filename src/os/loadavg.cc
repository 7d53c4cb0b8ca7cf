#include "os/loadavg.h"

#include <charconv>

#include "os/kernel_text.h"

namespace rouse::os {

// 6.47 3.65 1.86 7/138 17323
Result<Loadavg> ReadLoadavg(const ProcRoot& root) {
  const std::string path = "proc/loadavg";
  ASSIGN_OR_RETURN(const std::string text, root.Read(path));
  const std::vector<std::string_view> fields = SplitBlanks(text);
  if (fields.size() < 3) return Error(ErrorCode::kCorrupt, "/proc/loadavg is cut");
  double loads[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    const char* const end = fields[i].data() + fields[i].size();
    const auto [rest, error] = std::from_chars(fields[i].data(), end, loads[i]);
    if (error != std::errc() || rest != end || !(loads[i] >= 0)) {
      return Error(ErrorCode::kCorrupt,
                   "/proc/loadavg: \"" + std::string(fields[i]) + "\" is not a number");
    }
  }
  Loadavg loadavg;
  loadavg.load1 = loads[0];
  loadavg.load5 = loads[1];
  loadavg.load15 = loads[2];
  if (fields.size() < 4) return loadavg;
  const std::vector<std::string_view> counts = SplitAt(fields[3], '/');
  if (counts.size() != 2) return Error(ErrorCode::kCorrupt, "/proc/loadavg: no task counts");
  ASSIGN_OR_RETURN(loadavg.runnable_tasks, ParseKernelNumber(counts[0], path, "runnable tasks"));
  ASSIGN_OR_RETURN(loadavg.tasks, ParseKernelNumber(counts[1], path, "tasks"));
  return loadavg;
}

}  // namespace rouse::os
