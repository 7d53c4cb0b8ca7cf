// Fd: a file descriptor that is closed exactly once.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace rouse {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { Reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) Reset(std::exchange(other.fd_, -1));
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd = -1);

 private:
  int fd_ = -1;
};

// open(2) with O_CLOEXEC added. The error names `path`.
Result<Fd> OpenFile(const std::string& path, int flags, unsigned mode = 0644);

// The whole of a small file (procfs and sysfs included, whose sizes read as 0), at most
// `limit_bytes`; a longer one is kCorrupt. Relative paths are relative to `dir_fd`.
Result<std::string> ReadSmallFile(const std::string& path, size_t limit_bytes = 16U << 20U);
Result<std::string> ReadSmallFileAt(int dir_fd, const std::string& path,
                                    size_t limit_bytes = 16U << 20U);

// Writes all of `bytes`, through short writes and EINTR.
Status WriteAll(int fd, std::string_view bytes);

}  // namespace rouse
