// /proc/loadavg: how many tasks run or wait. Readable by everybody. About 4 us.
#pragma once

#include <cstdint>
#include <optional>

#include "os/proc_root.h"

namespace rouse::os {

struct Loadavg {
  std::optional<double> load1;
  std::optional<double> load5;
  std::optional<double> load15;
  std::optional<int64_t> runnable_tasks;  // now, the reader included
  std::optional<int64_t> tasks;
};

Result<Loadavg> ReadLoadavg(const ProcRoot& root);

}  // namespace rouse::os
