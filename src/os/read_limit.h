// A limit on how fast the processes of a control group may read from one block device: cgroup v1's
// blkio.throttle.read_bps_device or v2's io.max. The kernel delays each read when it is submitted,
// page faults and readahead included; what is in the page cache already is not slowed. Only bytes a
// second: the latency of a slower device is not imitated.
//
// Not for disks as a whole: no process outside of the group is slowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/proc_root.h"

namespace rouse::os {

struct ReadLimit {
  std::string device;  // a whole one: "254:0"; the kernel limits no partition by itself
  int64_t bytes_per_second = 0;
  bool operator==(const ReadLimit&) const = default;
};

// The whole block device under a path. kUnsupported where it has none (memory, network, overlay).
Result<std::string> DeviceUnder(const ProcRoot& root, const std::string& path);

// Where a group with an I/O limit can be made for children of `pid`.
struct LimitParent {
  std::string directory;  // relative to the root: "sys/fs/cgroup/blkio"
  bool unified = false;   // cgroup v2
  bool operator==(const LimitParent&) const = default;
};
// v1: the process's own group of the blkio hierarchy. v2: its own group or the nearest above that
// hands the io controller on. kUnsupported, with what is missing, where there is neither.
Result<LimitParent> FindLimitParent(const ProcRoot& root, int pid);

// Makes a group with this limit; its directory, for SpawnOptions. The caller removes it, or the
// warden of what joins it. Errors: as FindLimitParent, and the kernel's (not permitted).
Result<std::string> MakeReadLimitGroup(const ReadLimit& limit);

// Makes such a group and removes it again: whether this user may. "" for the device: the group
// alone, without a limit.
Status TryReadLimit(const std::string& device);

// The limit that a process's reads of the device are under now; empty for none.
std::optional<int64_t> ReadLimitOf(const ProcRoot& root, int pid, const std::string& device);

// Removes groups of killed tools; returns their directories.
std::vector<std::string> RemoveStaleReadLimits();

}  // namespace rouse::os
