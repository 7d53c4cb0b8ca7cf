#include "lab/mapped_memory.h"

#include <filesystem>

#include "base/strings.h"

namespace rouse::lab {
namespace {

// "7f31c4000000-7f31c9dcf000 r--s 00000000 fe:00 10035419   /home/me/model.gguf": a mapping's first
// line. Its other lines begin with a name and a colon.
bool IsHeader(std::string_view line) {
  const std::string_view first = line.substr(0, line.find(' '));
  return first.find('-') != std::string_view::npos && !first.ends_with(":");
}

}  // namespace

int64_t MappedBytesIn(std::string_view smaps, std::string_view path) {
  int64_t bytes = 0;
  bool ours = false;
  for (const std::string_view line : SplitAt(smaps, '\n')) {
    if (IsHeader(line)) {
      const size_t name = line.find('/');
      ours = name != std::string_view::npos && line.substr(name) == path;
    } else if (ours && line.starts_with("Rss:")) {
      // "Rss:               27340 kB"
      std::string_view number = TrimBlanks(line.substr(4));
      number = number.substr(0, number.find(' '));
      bytes += ParseInt64(number).value_or(0) * 1024;
    }
  }
  return bytes;
}

std::optional<int64_t> MappedResidentBytes(const os::ProcRoot& root, const std::vector<int>& pids,
                                           const std::string& path) {
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::canonical(path, failed);
  if (failed) return std::nullopt;
  std::optional<int64_t> bytes;
  for (const int pid : pids) {
    const Result<std::string> smaps = root.ReadOf(pid, "smaps");
    if (smaps.ok()) bytes = bytes.value_or(0) + MappedBytesIn(*smaps, real.string());
  }
  return bytes;
}

}  // namespace rouse::lab
