#include "os/own_cgroup.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <optional>

#include "base/strings.h"

namespace rouse::os {

Result<std::string> MakeCgroup(const std::string& parent, std::string_view prefix) {
  static std::atomic<int> count{0};
  std::string directory = parent + "/" + std::string(prefix) + "-" + std::to_string(getpid()) +
                          "-" + std::to_string(++count);
  if (mkdir(directory.c_str(), 0755) == 0) return directory;
  return Error::FromErrno(errno, "cannot make " + directory);
}

std::vector<std::string> RemoveStaleCgroups(const std::string& parent, std::string_view prefix) {
  std::vector<std::string> removed;
  std::error_code ignored;
  std::vector<std::string> candidates;
  for (std::filesystem::directory_iterator each(parent, ignored), end; !ignored && each != end;
       each.increment(ignored)) {
    const std::string name = each->path().filename().string();
    if (!name.starts_with(std::string(prefix) + "-")) continue;
    const std::string rest = name.substr(prefix.size() + 1);
    const std::optional<int64_t> pid = ParseInt64(rest.substr(0, rest.find('-')));
    // A living tool may be about to use it; one with members cannot be removed anyway.
    if (!pid || kill(static_cast<pid_t>(*pid), 0) == 0 || errno != ESRCH) continue;
    candidates.push_back(each->path().string());
  }
  for (const std::string& each : candidates) {
    if (rmdir(each.c_str()) == 0) removed.push_back(each);
  }
  return removed;
}

}  // namespace rouse::os
