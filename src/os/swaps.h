// /proc/swaps: the swap areas in use. Readable by everybody. About 5 us.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "os/proc_root.h"

namespace rouse::os {

struct SwapArea {
  std::string path;  // "/dev/zram0"; blanks are printed as \040 by the kernel
  std::string type;  // "partition" or "file"
  std::optional<int64_t> size_bytes;
  std::optional<int64_t> used_bytes;
};

// Empty when there is no swap.
Result<std::vector<SwapArea>> ReadSwaps(const ProcRoot& root);

}  // namespace rouse::os
