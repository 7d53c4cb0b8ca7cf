#include "gguf/cursor.h"

#include <algorithm>

namespace rouse::gguf {

bool Cursor::Refill() {
  if (failed_) return false;
  Result<std::string_view> bytes = source_.ReadAt(offset_);
  if (!bytes.ok()) {
    source_error_ = bytes.error();
    failed_ = true;
    return false;
  }
  window_ = *bytes;
  if (window_.empty()) failed_ = true;
  return !failed_;
}

void Cursor::ReadBytes(char* out, size_t bytes) {
  char* const begin = out;
  size_t missing = bytes;
  while (missing > 0) {
    if (window_.empty() && !Refill()) {
      std::fill(begin, begin + bytes, '\0');
      return;
    }
    const size_t count = std::min(missing, window_.size());
    std::memcpy(out, window_.data(), count);
    Advance(count);
    out += count;
    missing -= count;
  }
}

std::string Cursor::ReadText(int64_t bytes) {
  if (failed_ || bytes < 0 || bytes > remaining()) {
    failed_ = true;
    return {};
  }
  std::string text(static_cast<size_t>(bytes), '\0');
  ReadBytes(text.data(), text.size());
  return text;
}

void Cursor::Skip(int64_t bytes) {
  if (failed_ || bytes < 0 || bytes > remaining()) {
    failed_ = true;
    return;
  }
  const auto count = static_cast<size_t>(bytes);
  if (count <= window_.size()) {
    Advance(count);
    return;
  }
  offset_ += bytes;
  window_ = {};
}

}  // namespace rouse::gguf
