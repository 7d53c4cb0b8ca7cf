#include "os/thermal.h"

#include "os/kernel_text.h"

namespace rouse::os {

// sys/class/thermal/thermal_zone0/type: x86_pkg_temp
// sys/class/thermal/thermal_zone0/temp: 48000            (thousandths of a degree)
// sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count: 3
Thermal ReadThermal(const ProcRoot& root) {
  Thermal thermal;
  for (const std::string& name : root.List("sys/class/thermal")) {
    if (!name.starts_with("thermal_zone")) continue;
    const std::string base = "sys/class/thermal/" + name + "/";
    const std::optional<std::string> type = ReadTextFile(root, base + "type");
    if (!type) continue;
    const std::optional<int64_t> thousandths = ReadNumberFile(root, base + "temp");
    thermal.zones.push_back(
        {*type, thousandths ? std::optional<double>(static_cast<double>(*thousandths) / 1000.0)
                            : std::nullopt});
  }
  const std::string cpus = "sys/devices/system/cpu/";
  for (const std::string& name : root.List(cpus)) {
    if (!name.starts_with("cpu")) continue;
    const std::optional<int64_t> count =
        ReadNumberFile(root, cpus + name + "/thermal_throttle/core_throttle_count");
    if (count) thermal.core_throttles = thermal.core_throttles.value_or(0) + *count;
  }
  thermal.package_throttles =
      ReadNumberFile(root, cpus + "cpu0/thermal_throttle/package_throttle_count");
  return thermal;
}

}  // namespace rouse::os
