// The two shapes that most kernel files have: "key value" lines and blank-separated numbers. What
// cannot be parsed is kCorrupt with file and field; what is absent stays empty.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/strings.h"

namespace rouse::os {

// A number as the kernel prints it, at least 0: "98304", "98304 kB" (then in bytes).
Result<int64_t> ParseKernelNumber(std::string_view text, const std::string& path,
                                  std::string_view field);

// The blank-separated fields of a line, without empty ones.
std::vector<std::string_view> SplitBlanks(std::string_view line);

template <typename T>
struct KeyedField {
  std::string_view key;
  std::optional<int64_t> T::* field;
};

// Fills `out` from lines "KEY<separator> VALUE". Other lines are passed over, for kernels add some
// with each release; a file in which no line is ours (an empty one, for instance) is kCorrupt.
template <typename T, size_t kCount>
Status FillKeyed(std::string_view text, const std::string& path, char separator,
                 const KeyedField<T> (&fields)[kCount], T& out) {
  bool any = false;
  for (const std::string_view line : SplitAt(text, '\n')) {
    const size_t key_end = line.find(separator);
    if (key_end == std::string_view::npos) continue;
    const std::string_view key = TrimBlanks(line.substr(0, key_end));
    for (const KeyedField<T>& field : fields) {
      if (field.key != key) continue;
      ASSIGN_OR_RETURN(out.*field.field,
                       ParseKernelNumber(line.substr(key_end + 1), path, field.key));
      any = true;
    }
  }
  if (any) return {};
  return Error(ErrorCode::kCorrupt, "/" + path + " has none of the lines that it should have");
}

// A small file that holds one number, as most of sysfs does; empty when the file is not there.
class ProcRoot;
std::optional<int64_t> ReadNumberFile(const ProcRoot& root, const std::string& path);
// One line of text without blanks around it; empty when the file is not there or is blank.
std::optional<std::string> ReadTextFile(const ProcRoot& root, const std::string& path);

}  // namespace rouse::os
