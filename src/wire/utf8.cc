#include "wire/utf8.h"

#include <algorithm>

#include "base/strings.h"

namespace rouse::wire {

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size() + 8);
  while (!text.empty()) {
    if (static_cast<unsigned char>(text[0]) < 0x80) {
      valid += text[0];
      text.remove_prefix(1);
      continue;
    }
    size_t length = 2;
    while (length <= 4 && length <= text.size() && !IsValidUtf8(text.substr(0, length))) ++length;
    if (length <= 4 && length <= text.size()) {
      valid.append(text.substr(0, length));
      text.remove_prefix(length);
    } else {
      valid += "\xEF\xBF\xBD";
      text.remove_prefix(1);
      // The rest of a cut character belongs to the same replacement.
      while (!text.empty() && (static_cast<unsigned char>(text[0]) & 0xC0U) == 0x80U) {
        text.remove_prefix(1);
      }
    }
  }
  return valid;
}

std::string_view Utf8Prefix(std::string_view text, size_t limit_bytes) {
  size_t end = std::min(limit_bytes, text.size());
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
    --end;
  }
  return text.substr(0, end);
}

}  // namespace rouse::wire
