// /proc/diskstats: what a block device has done since boot. Readable by everybody. About 20 us.
// Kernel documentation: Documentation/admin-guide/iostats.rst.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "os/proc_root.h"

namespace rouse::os {

struct Diskstats {
  std::optional<int64_t> reads;         // completed
  std::optional<int64_t> merged_reads;  // joined to another request before it was sent
  std::optional<int64_t> read_bytes;
  std::optional<int64_t> read_ms;  // summed over requests: may exceed the wall time
  std::optional<int64_t> writes;
  std::optional<int64_t> written_bytes;
  std::optional<int64_t> write_ms;
  std::optional<int64_t> in_flight;
  std::optional<int64_t> busy_ms;  // time with at least one request in flight
};

// `device` as in /sys/block ("nvme0n1"), or a partition. kNotFound when it is not listed.
Result<Diskstats> ReadDiskstats(const ProcRoot& root, const std::string& device);

}  // namespace rouse::os
