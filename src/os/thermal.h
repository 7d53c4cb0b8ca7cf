// Temperatures and throttling, from sysfs. Some sensors take milliseconds to answer: not inside an
// attempt. Absent in most virtual machines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "os/proc_root.h"

namespace rouse::os {

struct ThermalZone {
  std::string type;  // "x86_pkg_temp"
  std::optional<double> celsius;
};

struct Thermal {
  std::vector<ThermalZone> zones;
  // How often CPUs were slowed down because they were too hot, since boot, summed over CPUs
  // (Intel).
  std::optional<int64_t> core_throttles;
  std::optional<int64_t> package_throttles;  // of CPU 0's package
};

// A machine that tells nothing gives an empty struct: that is no error.
Thermal ReadThermal(const ProcRoot& root);

}  // namespace rouse::os
