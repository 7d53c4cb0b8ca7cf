#include "os/kernel_text.h"

#include <limits>

#include "os/proc_root.h"

namespace rouse::os {

Result<int64_t> ParseKernelNumber(std::string_view text, const std::string& path,
                                  std::string_view field) {
  std::string_view digits = TrimBlanks(text);
  int64_t unit = 1;
  if (digits.ends_with(" kB")) {
    digits = TrimBlanks(digits.substr(0, digits.size() - 3));
    unit = 1024;
  }
  const std::optional<int64_t> number = ParseInt64(digits);
  if (!number || *number < 0 || *number > std::numeric_limits<int64_t>::max() / unit) {
    return Error(ErrorCode::kCorrupt, "/" + path + ": " + std::string(field) + " is \"" +
                                          std::string(TrimBlanks(text)) + "\", not a number");
  }
  return *number * unit;
}

std::vector<std::string_view> SplitBlanks(std::string_view line) {
  std::vector<std::string_view> fields;
  size_t start = 0;
  while (true) {
    start = line.find_first_not_of(" \t\n", start);
    if (start == std::string_view::npos) return fields;
    const size_t end = std::min(line.find_first_of(" \t\n", start), line.size());
    fields.push_back(line.substr(start, end - start));
    start = end;
  }
}

std::optional<int64_t> ReadNumberFile(const ProcRoot& root, const std::string& path) {
  const Result<std::string> text = root.Read(path);
  return text.ok() ? ParseInt64(TrimBlanks(*text)) : std::nullopt;
}

std::optional<std::string> ReadTextFile(const ProcRoot& root, const std::string& path) {
  const Result<std::string> text = root.Read(path);
  if (!text.ok()) return std::nullopt;
  const std::string_view trimmed = TrimBlanks(*text);
  if (trimmed.empty()) return std::nullopt;
  return std::string(trimmed);
}

}  // namespace rouse::os
