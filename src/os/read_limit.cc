#include "os/read_limit.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"
#include "base/strings.h"
#include "os/block_device.h"
#include "os/cgroup.h"
#include "os/kernel_text.h"
#include "os/own_cgroup.h"

namespace rouse::os {
namespace {

constexpr std::string_view kPrefix = "rouse-tier";
constexpr std::string_view kFileV1 = "blkio.throttle.read_bps_device";
constexpr std::string_view kFileV2 = "io.max";

std::string LimitLine(const ReadLimit& limit, bool unified) {
  return limit.device + (unified ? " rbps=" : " ") + std::to_string(limit.bytes_per_second) + "\n";
}

// One write: the kernel takes each as a whole command.
Status WriteLimit(const std::string& file, const std::string& line) {
  const Fd fd(open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid() && errno == ENOENT) {
    return Error(ErrorCode::kUnsupported, "this kernel limits no reads: there is no " + file +
                                              " (CONFIG_BLK_DEV_THROTTLING)");
  }
  if (!fd.valid()) return Error::FromErrno(errno, "cannot write " + file);
  const ssize_t count = write(fd.get(), line.data(), line.size());
  if (count == static_cast<ssize_t>(line.size())) return {};
  return Error::FromErrno(errno, "cannot limit reads by " + file);
}

// v1: 254:0 100000000
// v2: 254:0 rbps=100000000 wbps=max riops=max wiops=max
std::optional<int64_t> LimitIn(const std::string& text, const std::string& device, bool unified) {
  for (const std::string_view line : SplitAt(text, '\n')) {
    const std::vector<std::string_view> fields = SplitBlanks(line);
    if (fields.size() < 2 || fields[0] != device) continue;
    if (!unified) return ParseInt64(fields[1]);
    constexpr std::string_view kKey = "rbps=";
    for (const std::string_view field : fields) {
      if (field.starts_with(kKey)) return ParseInt64(field.substr(kKey.size()));
    }
  }
  return std::nullopt;
}

bool HandsOnIo(const ProcRoot& root, const std::string& directory) {
  const Result<std::string> text = root.Read(directory + "/cgroup.subtree_control");
  if (!text.ok()) return false;
  const std::vector<std::string_view> words = SplitBlanks(*text);
  return std::find(words.begin(), words.end(), "io") != words.end();
}

}  // namespace

Result<std::string> DeviceUnder(const ProcRoot& root, const std::string& path) {
  ASSIGN_OR_RETURN(const Storage storage, ReadStorage(root, path));
  if (!storage.device) {
    return Error(ErrorCode::kUnsupported, path + ": " + storage.no_device_reason);
  }
  const std::string file = "sys/class/block/" + storage.device->name + "/dev";
  const std::optional<std::string> number = ReadTextFile(root, file);
  if (number) return *number;
  return Error(ErrorCode::kUnsupported, "/" + file + " cannot be read");
}

Result<LimitParent> FindLimitParent(const ProcRoot& root, int pid) {
  ASSIGN_OR_RETURN(const CgroupPaths paths, FindCgroup(root, pid));
  if (!paths.io.empty() && paths.io != paths.unified) return LimitParent{paths.io, false};
  // v2 gives a controller to the children of a group that names it in its subtree_control.
  for (std::string each = paths.unified; !each.empty();) {
    if (HandsOnIo(root, each)) return LimitParent{each, true};
    if (!root.Read(each + "/cgroup.controllers").ok()) break;  // above the mount point
    const size_t slash = each.rfind('/');
    each = slash == std::string::npos ? "" : each.substr(0, slash);
  }
  return Error(ErrorCode::kUnsupported,
               "no control group above this process hands on the io controller (as root: echo +io "
               "> /sys/fs/cgroup/cgroup.subtree_control)");
}

Result<std::string> MakeReadLimitGroup(const ReadLimit& limit) {
  ASSIGN_OR_RETURN(const LimitParent parent, FindLimitParent(ProcRoot::Real(), getpid()));
  ASSIGN_OR_RETURN(std::string group, MakeCgroup("/" + parent.directory, kPrefix));
  if (limit.device.empty()) return group;
  const std::string file = group + "/" + std::string(parent.unified ? kFileV2 : kFileV1);
  const Status limited = WriteLimit(file, LimitLine(limit, parent.unified));
  if (limited.ok()) return group;
  rmdir(group.c_str());
  return limited.error();
}

Status TryReadLimit(const std::string& device) {
  constexpr int64_t kAnyRate = 1'000'000'000;
  ASSIGN_OR_RETURN(const std::string group,
                   MakeReadLimitGroup({.device = device, .bytes_per_second = kAnyRate}));
  if (rmdir(group.c_str()) == 0) return {};
  return Error::FromErrno(errno, "cannot remove " + group);
}

std::optional<int64_t> ReadLimitOf(const ProcRoot& root, int pid, const std::string& device) {
  const Result<CgroupPaths> paths = FindCgroup(root, pid);
  if (!paths.ok() || paths->io.empty()) return std::nullopt;
  const bool unified = paths->io == paths->unified;
  const Result<std::string> text =
      root.Read(paths->io + "/" + std::string(unified ? kFileV2 : kFileV1));
  return text.ok() ? LimitIn(*text, device, unified) : std::nullopt;
}

std::vector<std::string> RemoveStaleReadLimits() {
  const Result<LimitParent> parent = FindLimitParent(ProcRoot::Real(), getpid());
  if (!parent.ok()) return {};
  return RemoveStaleCgroups("/" + parent->directory, kPrefix);
}

}  // namespace rouse::os
