#include "os/loop_file_system.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>

#include "base/strings.h"
#include "base/time.h"
#include "os/capability.h"
#include "os/process.h"

namespace rouse::os {
namespace {

constexpr int64_t kLeastBytes = int64_t{8} << 20U;
constexpr int64_t kMakeLimitNs = 60 * kNsPerSecond;
constexpr int kTries = 8;  // another process may take the device that was free

std::string PathOf(const Fd& fd) {
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd.get());
}

// ext4 keeps 1.6 % for inodes at its defaults, and some MiB for itself.
int64_t WithRoom(int64_t bytes) {
  constexpr int64_t kMiB = int64_t{1} << 20U;
  return (kLeastBytes + bytes + bytes / 32 + kMiB - 1) / kMiB * kMiB;
}

Result<Fd> MakeImage(const std::string& directory, int64_t bytes) {
  Fd image(open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!image.valid()) return Error::FromErrno(errno, "cannot make a file in " + directory);
  // Reserved now: a loop device over a file that can't grow gives I/O errors later.
  const int failed = posix_fallocate(image.get(), 0, WithRoom(bytes));
  if (failed == 0) return image;
  return Error::FromErrno(failed, "cannot reserve space in " + directory);
}

Status MakeExt4(const Fd& image) {
  SpawnOptions options;
  // No journal, no reserve: it lives as long as one run. discard would give the space back.
  options.argv = {"mkfs.ext4", "-q", "-F",           "-b", "4096",      "-m",
                  "0",         "-O", "^has_journal", "-E", "nodiscard", PathOf(image)};
  options.stdout_to = OutputTo::Null();
  options.stderr_to = OutputTo::Null();
  Result<Child> child = Spawn(options);
  if (!child.ok() && child.error().code() == ErrorCode::kNotFound) {
    options.argv[0] = "/usr/sbin/mkfs.ext4";  // not in every user's PATH
    child = Spawn(options);
  }
  if (!child.ok()) return child.error().WithContext("a loop device needs mkfs.ext4 (e2fsprogs)");
  ASSIGN_OR_RETURN(const ExitInfo exit, child->Wait(MonoNow() + kMakeLimitNs));
  if (exit.status == 0) return {};
  return Error(ErrorCode::kIo, "mkfs.ext4 " + exit.Describe());
}

struct Loop {
  Fd fd;
  std::string path;    // "/dev/loop0"
  std::string number;  // "7:0"
};

// Let go by its last user (autoclear). Direct reads, so that nothing is in memory twice; a memory
// file system that has none is read as it is.
Result<Loop> Attach(const Fd& image) {
  const Fd control(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  if (!control.valid()) return Error::FromErrno(errno, "cannot open /dev/loop-control");
  for (int i = 0; i < kTries; ++i) {
    const int number = ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) return Error::FromErrno(errno, "no loop device is free");
    Loop loop;
    loop.path = "/dev/loop" + std::to_string(number);
    loop.fd.Reset(open(loop.path.c_str(), O_RDWR | O_CLOEXEC));
    if (!loop.fd.valid()) return Error::FromErrno(errno, "cannot open " + loop.path);
    struct stat facts{};
    if (fstat(loop.fd.get(), &facts) != 0) return Error::FromErrno(errno, loop.path);
    loop.number = std::to_string(major(facts.st_rdev)) + ":" + std::to_string(minor(facts.st_rdev));
    for (const unsigned direct : {unsigned{LO_FLAGS_DIRECT_IO}, 0U}) {
      loop_config config{};
      config.fd = static_cast<unsigned>(image.get());
      config.info.lo_flags = LO_FLAGS_AUTOCLEAR | direct;
      if (ioctl(loop.fd.get(), LOOP_CONFIGURE, &config) == 0) return loop;
      if (errno != EINVAL) break;
    }
    if (errno != EBUSY) return Error::FromErrno(errno, "cannot set up " + loop.path);
  }
  return Error(ErrorCode::kState, "every free loop device was taken by another process");
}

Result<Fd> MountDetached(const std::string& device) {
  const Fd context(fsopen("ext4", FSOPEN_CLOEXEC));
  const std::string what = "cannot mount a file system on " + device;
  if (!context.valid()) return Error::FromErrno(errno, what);
  if (fsconfig(context.get(), FSCONFIG_SET_STRING, "source", device.c_str(), 0) != 0 ||
      fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return Error::FromErrno(errno, what);
  }
  Fd mount(fsmount(context.get(), FSMOUNT_CLOEXEC,
                   MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC));
  if (mount.valid()) return mount;
  return Error::FromErrno(errno, what);
}

}  // namespace

Result<LoopFileSystem> LoopFileSystem::Make(const std::string& directory, int64_t bytes) {
  ASSIGN_OR_RETURN(const Fd image, MakeImage(directory, bytes));
  RETURN_IF_ERROR(MakeExt4(image));
  ASSIGN_OR_RETURN(const Loop loop, Attach(image));
  LoopFileSystem made;
  ASSIGN_OR_RETURN(made.mount_, MountDetached(loop.path));
  made.path_ = PathOf(made.mount_);
  made.device_ = loop.number;
  return made;
}

std::string WhyNoLoopFileSystem() {
  if (!HasCapability(Capability::kSysAdmin)) {
    return "a loop device needs the capability CAP_SYS_ADMIN (root)";
  }
  const Fd control(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  if (!control.valid()) return Error::FromErrno(errno, "cannot open /dev/loop-control").message();
  for (const char* const program : {"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"}) {
    if (access(program, X_OK) == 0) return "";
  }
  return "a loop device needs mkfs.ext4 (package e2fsprogs)";
}

}  // namespace rouse::os
