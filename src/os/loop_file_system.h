// A small file system of our own on a loop device over a file without a name: it has a block device
// by itself, so its reads can be limited where those of the disk below cannot (os/read_limit.h).
//
// It is mounted nowhere: its files are reached through a descriptor of this process
// ("/proc/4121/fd/9"), also by other processes of this user. Nothing has a name, so nothing stays
// when this process ends, in whatever way: the kernel takes mount, loop device and file back.
//
// Needs root, Linux 5.8 and mkfs.ext4. Blocks for some 100 ms.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace rouse::os {

class LoopFileSystem {
 public:
  // With room for a file of `bytes`, which are reserved in `directory` at once. Errors:
  // kPermission, kUnsupported (no loop devices, no mkfs.ext4, an older kernel), no space, as the
  // kernel says.
  static Result<LoopFileSystem> Make(const std::string& directory, int64_t bytes);

  const std::string& path() const { return path_; }      // a directory; never ends with '/'
  const std::string& device() const { return device_; }  // "7:0"

 private:
  Fd mount_;
  std::string path_;
  std::string device_;
};

// Whether this user may have one here, without making it: "" or what is missing.
std::string WhyNoLoopFileSystem();

}  // namespace rouse::os
