#include "os/block_device.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "os/kernel_text.h"
#include "os/mounts.h"

namespace rouse::os {
namespace {

constexpr int64_t kSectorBytes = 512;  // of sysfs, whatever the device's own

// The last component of what a symbolic link points to, "" when it is none.
std::string LinkName(const ProcRoot& root, const std::string& path) {
  char target[PATH_MAX];
  const ssize_t length = readlinkat(root.fd(), path.c_str(), target, sizeof target);
  if (length <= 0) return "";
  const std::string_view text(target, static_cast<size_t>(length));
  return std::string(text.substr(text.rfind('/') + 1));
}

// As the kernel links it: sys/dev/block/254:1 -> ../../devices/.../block/vda/vda1
std::string ParentName(const ProcRoot& root, const std::string& path) {
  char target[PATH_MAX];
  const ssize_t length = readlinkat(root.fd(), path.c_str(), target, sizeof target);
  if (length <= 0) return "";
  std::string_view text(target, static_cast<size_t>(length));
  text = text.substr(0, text.rfind('/'));
  return std::string(text.substr(text.rfind('/') + 1));
}

// none [mq-deadline] kyber bfq
std::optional<std::string> Scheduler(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  const size_t start = text->find('[');
  const size_t end = text->find(']');
  if (start == std::string::npos || end == std::string::npos || end < start) return text;
  return text->substr(start + 1, end - start - 1);
}

std::optional<int64_t> Times(std::optional<int64_t> value, int64_t unit) {
  if (!value) return std::nullopt;
  return *value * unit;
}

bool LiesBelow(const std::string& path, const std::string& directory) {
  return directory == "/" || (path.starts_with(directory) &&
                              (path.size() == directory.size() || path[directory.size()] == '/'));
}

// The mount under which a path lies: the longest mount point above it, the later one of two on the
// same point. Mounts of the path's own device come first; but btrfs gives each subvolume a device
// number that no mount has, and overlayfs gives files the number of a layer.
const Mount* MountOf(const std::vector<Mount>& mounts, const std::string& device,
                     const std::string& canonical) {
  for (const bool same_device : {true, false}) {
    const Mount* best = nullptr;
    for (const Mount& mount : mounts) {
      if (same_device && mount.device != device) continue;
      if (!LiesBelow(canonical, mount.mount_point)) continue;
      if (best == nullptr || mount.mount_point.size() >= best->mount_point.size()) best = &mount;
    }
    if (best != nullptr) return best;
  }
  return nullptr;
}

}  // namespace

Result<BlockDevice> ReadBlockDevice(const ProcRoot& root, unsigned major_number,
                                    unsigned minor_number) {
  const std::string link =
      "sys/dev/block/" + std::to_string(major_number) + ":" + std::to_string(minor_number);
  BlockDevice device;
  device.name = LinkName(root, link);
  if (device.name.empty()) {
    return Error(ErrorCode::kNotFound, "/" + link + ": no such block device");
  }
  std::string base = link;
  if (ReadTextFile(root, link + "/partition")) {
    device.partition = device.name;
    device.name = ParentName(root, link);
    base += "/..";
  }
  const auto text = [&root, &base](const char* file) {
    return ReadTextFile(root, base + "/" + file);
  };
  const auto number = [&root, &base](const char* file) {
    return ReadNumberFile(root, base + "/" + file);
  };
  device.model = text("device/model");
  device.size_bytes = Times(number("size"), kSectorBytes);
  const std::optional<int64_t> rotational = number("queue/rotational");
  if (rotational) device.rotational = *rotational != 0;
  device.scheduler = Scheduler(text("queue/scheduler"));
  device.read_ahead_bytes = Times(number("queue/read_ahead_kb"), 1024);
  device.largest_request_bytes = Times(number("queue/max_sectors_kb"), 1024);
  device.queue_depth = number("queue/nr_requests");
  const std::vector<std::string> queues = root.List(base + "/mq");
  if (!queues.empty()) device.hardware_queues = static_cast<int64_t>(queues.size());
  device.runtime_status = text("device/power/runtime_status");
  device.runtime_control = text("device/power/control");
  device.below = root.List(base + "/slaves");
  return device;
}

Result<Storage> ReadStorage(const ProcRoot& root, const std::string& path) {
  struct stat facts{};
  if (stat(path.c_str(), &facts) != 0) return Error::FromErrno(errno, "cannot look at " + path);
  Storage storage;
  storage.path = path;
  char* const resolved = realpath(path.c_str(), nullptr);
  const std::string canonical = resolved != nullptr ? resolved : path;
  std::free(resolved);

  const std::string number =
      std::to_string(major(facts.st_dev)) + ":" + std::to_string(minor(facts.st_dev));
  const Result<std::vector<Mount>> mounts = ReadMounts(root);
  const Mount* const mount = mounts.ok() ? MountOf(*mounts, number, canonical) : nullptr;
  if (mount != nullptr) {
    storage.file_system = mount->type;
    storage.mount_point = mount->mount_point;
    storage.mount_options = mount->options;
    storage.source = mount->source;
  }
  dev_t block = facts.st_dev;
  if (major(block) == 0) {
    // Without a device of its own: btrfs names one as its source, overlay and tmpfs have none.
    struct stat source{};
    if (stat(storage.source.c_str(), &source) != 0 || !S_ISBLK(source.st_mode)) {
      storage.no_device_reason =
          (storage.file_system.empty() ? "this file system" : storage.file_system) +
          " has no block device of its own";
      return storage;
    }
    block = source.st_rdev;
  }
  Result<BlockDevice> device = ReadBlockDevice(root, major(block), minor(block));
  if (device.ok()) {
    storage.device = std::move(device).value();
  } else {
    storage.no_device_reason = device.error().message();
  }
  return storage;
}

}  // namespace rouse::os
