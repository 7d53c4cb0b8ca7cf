// The storage under a file: which block device, what kind of device, how it is set up. Reads sysfs
// and mountinfo only and never touches the device, so it neither wakes nor warms. About 200 us.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "os/proc_root.h"

namespace rouse::os {

struct BlockDevice {
  std::string name;       // whole device: "nvme0n1", "dm-0"
  std::string partition;  // "nvme0n1p2", "" when the whole device is used
  std::optional<std::string> model;
  std::optional<int64_t> size_bytes;
  // Virtual disks claim to be rotational: a hint, not a fact.
  std::optional<bool> rotational;
  std::optional<std::string> scheduler;  // "mq-deadline", "none"
  std::optional<int64_t> read_ahead_bytes;
  std::optional<int64_t> largest_request_bytes;  // max_sectors_kb
  std::optional<int64_t> queue_depth;            // nr_requests
  std::optional<int64_t> hardware_queues;
  std::optional<std::string> runtime_status;   // "active", "suspended", "unsupported"
  std::optional<std::string> runtime_control;  // "on" (never suspended) or "auto"
  // Devices below a mapped or RAID device ("nvme0n1" under "dm-0").
  std::vector<std::string> below;
};

struct Storage {
  std::string path;
  std::string file_system;  // "ext4"
  std::string mount_point;
  std::string mount_options;
  std::string source;  // "/dev/vda", "overlay", "server:/export"
  std::optional<BlockDevice> device;
  std::string no_device_reason;  // why `device` is empty
};

// kNotFound for a path that does not exist.
Result<Storage> ReadStorage(const ProcRoot& root, const std::string& path);

// By device number; kNotFound when there is no such block device.
Result<BlockDevice> ReadBlockDevice(const ProcRoot& root, unsigned major_number,
                                    unsigned minor_number);

}  // namespace rouse::os
