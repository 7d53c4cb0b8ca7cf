// /proc/self/mountinfo: what is mounted where. Readable by everybody. About 20 us.
#pragma once

#include <string>
#include <vector>

#include "os/proc_root.h"

namespace rouse::os {

struct Mount {
  std::string device;       // "254:0"; major 0 for file systems without a device of their own
  std::string root;         // the part of the file system that is mounted: "/"
  std::string mount_point;  // "/home"
  std::string options;      // "rw,relatime"
  std::string type;         // "ext4"
  std::string source;       // "/dev/vda"
  std::string super_options;
};

Result<std::vector<Mount>> ReadMounts(const ProcRoot& root);

}  // namespace rouse::os
