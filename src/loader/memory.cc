#include "loader/memory.h"

#include <string>

#include "base/strings.h"

namespace rouse::loader {

// "MemAvailable:   24040352 kB"
std::optional<int64_t> AvailableMemoryBytes(const os::ProcRoot& root) {
  constexpr std::string_view kName = "MemAvailable:";
  const Result<std::string> text = root.Read("proc/meminfo");
  if (!text.ok()) return std::nullopt;
  for (std::string_view line : SplitAt(*text, '\n')) {
    if (!line.starts_with(kName)) continue;
    line.remove_prefix(kName.size());
    if (!line.ends_with(" kB")) return std::nullopt;
    line.remove_suffix(3);
    const std::optional<int64_t> kib = ParseInt64(TrimBlanks(line));
    if (!kib.has_value()) return std::nullopt;
    return *kib * 1024;
  }
  return std::nullopt;
}

}  // namespace rouse::loader
