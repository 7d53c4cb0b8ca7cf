#include "base/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace rouse {

void Fd::Reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

Result<Fd> OpenFile(const std::string& path, int flags, unsigned mode) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC, mode);
  if (fd < 0) return Error::FromErrno(errno, "cannot open " + path);
  return Fd(fd);
}

Result<std::string> ReadSmallFile(const std::string& path, size_t limit_bytes) {
  return ReadSmallFileAt(AT_FDCWD, path, limit_bytes);
}

Result<std::string> ReadSmallFileAt(int dir_fd, const std::string& path, size_t limit_bytes) {
  const Fd fd(openat(dir_fd, path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return Error::FromErrno(errno, "cannot open " + path);
  std::string content;
  char buffer[16384];
  while (true) {
    const ssize_t count = read(fd.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error::FromErrno(errno, "cannot read " + path);
    if (count == 0) return content;
    content.append(buffer, static_cast<size_t>(count));
    if (content.size() > limit_bytes) {
      return Error(ErrorCode::kCorrupt,
                   path + " is larger than " + std::to_string(limit_bytes) + " bytes");
    }
  }
}

Status WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error::FromErrno(errno, "cannot write");
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return {};
}

}  // namespace rouse
