#include "os/swaps.h"

#include "os/kernel_text.h"

namespace rouse::os {

// Filename				Type		Size		Used		Priority
// /dev/zram0                              partition	2097148		51200		100
Result<std::vector<SwapArea>> ReadSwaps(const ProcRoot& root) {
  const std::string path = "proc/swaps";
  ASSIGN_OR_RETURN(const std::string text, root.Read(path));
  const std::vector<std::string_view> lines = SplitAt(text, '\n');
  if (!lines[0].starts_with("Filename")) {
    return Error(ErrorCode::kCorrupt, "/proc/swaps does not begin with its header");
  }
  std::vector<SwapArea> areas;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string_view> fields = SplitBlanks(lines[i]);
    if (fields.empty()) continue;
    if (fields.size() < 4) return Error(ErrorCode::kCorrupt, "/proc/swaps: a line is cut");
    SwapArea area;
    area.path = fields[0];
    area.type = fields[1];
    ASSIGN_OR_RETURN(const int64_t size_kib, ParseKernelNumber(fields[2], path, "Size"));
    ASSIGN_OR_RETURN(const int64_t used_kib, ParseKernelNumber(fields[3], path, "Used"));
    area.size_bytes = size_kib * 1024;
    area.used_bytes = used_kib * 1024;
    areas.push_back(std::move(area));
  }
  return areas;
}

}  // namespace rouse::os
