// A forward-only cursor over a file's bytes through a small window, for the header parser. The
// first failure sticks: later reads return zeros, so that the parser checks once per step. Nothing
// it allocates depends on a number found in the file.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "base/result.h"

namespace rouse::gguf {

// Where the bytes come from.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Bytes from `offset` on, at least one unless the end is reached; the view lives until the next
  // call.
  virtual Result<std::string_view> ReadAt(int64_t offset) = 0;
};

class Cursor {
 public:
  Cursor(ByteSource& source, int64_t file_bytes) : source_(source), file_bytes_(file_bytes) {}

  int64_t offset() const { return offset_; }
  int64_t remaining() const { return file_bytes_ - offset_; }
  bool ok() const { return !failed_; }
  // The source's own error (a failed read); empty when bytes were merely missing.
  const std::optional<Error>& source_error() const { return source_error_; }

  // The next little-endian scalar.
  template <typename T>
    requires std::is_arithmetic_v<T>
  T Read() {
    T value{};
    if (window_.size() >= sizeof(T)) {  // the common case, in the window
      std::memcpy(&value, window_.data(), sizeof(T));
      Advance(sizeof(T));
    } else {
      ReadBytes(reinterpret_cast<char*>(&value), sizeof(T));
    }
    return value;
  }

  // The next `bytes` bytes as text; the caller has bounded them.
  std::string ReadText(int64_t bytes);
  // Moves on; fails when fewer bytes remain.
  void Skip(int64_t bytes);

 private:
  void Advance(size_t bytes) {
    window_.remove_prefix(bytes);
    offset_ += static_cast<int64_t>(bytes);
  }
  bool Refill();
  void ReadBytes(char* out, size_t bytes);

  ByteSource& source_;
  int64_t file_bytes_;
  int64_t offset_ = 0;
  std::string_view window_;  // begins at offset_
  bool failed_ = false;
  std::optional<Error> source_error_;
};

}  // namespace rouse::gguf
