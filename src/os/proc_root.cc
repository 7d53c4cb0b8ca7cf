#include "os/proc_root.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "base/check.h"
#include "base/strings.h"

namespace rouse::os {
namespace {

constexpr size_t kLimitBytes = size_t{64} << 20U;  // a mapping list of a very large process

Error ReadError(int error_number, const std::string& path) {
  Error error = Error::FromErrno(error_number, "cannot read /" + path);
  // A process that ends between open and read gives ESRCH: no different from one that ended before.
  // ENOTDIR: an entry of the path that is no directory, so what is below it is not there.
  if (error_number == ESRCH || error_number == ENOTDIR) {
    return Error(ErrorCode::kNotFound, error.message());
  }
  return error;
}

}  // namespace

Result<ProcRoot> ProcRoot::Open(const std::string& directory) {
  ASSIGN_OR_RETURN(Fd fd, OpenFile(directory, O_RDONLY | O_DIRECTORY | O_PATH));
  return ProcRoot(std::move(fd));
}

const ProcRoot& ProcRoot::Real() {
  static const ProcRoot* const root = [] {
    Result<ProcRoot> opened = Open("/");
    CHECK(opened.ok());
    return new ProcRoot(std::move(opened).value());
  }();
  return *root;
}

Result<std::string> ProcRoot::Read(const std::string& path) const {
  const Fd file(openat(fd(), path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return ReadError(errno, path);
  std::string content;
  char buffer[8192];
  while (true) {
    const ssize_t count = read(file.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ReadError(errno, path);
    if (count == 0) return content;
    content.append(buffer, static_cast<size_t>(count));
    if (content.size() > kLimitBytes) {
      return Error(ErrorCode::kCorrupt, "/" + path + " is larger than 64 MiB");
    }
  }
}

Result<std::string> ProcRoot::ReadOf(int pid, std::string_view file) const {
  return Read("proc/" + std::to_string(pid) + "/" + std::string(file));
}

std::vector<std::string> ProcRoot::List(const std::string& path) const {
  std::vector<std::string> names;
  const int directory = openat(fd(), path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return names;
  DIR* const stream = fdopendir(directory);
  if (stream == nullptr) {
    close(directory);
    return names;
  }
  while (const dirent* const entry = readdir(stream)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<int> ProcRoot::Pids() const {
  std::vector<int> pids;
  for (const std::string& name : List("proc")) {
    if (name[0] < '1' || name[0] > '9') continue;
    const std::optional<int64_t> pid = ParseInt64(name);
    if (pid && *pid <= std::numeric_limits<int>::max()) pids.push_back(static_cast<int>(*pid));
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

}  // namespace rouse::os
