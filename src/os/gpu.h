// Graphics processors: clocks, performance state, memory and who uses it. NVIDIA by NVML, which is
// loaded at run time (no build dependency); AMD and Intel by sysfs. Reading NVML can wake a GPU
// that sleeps, and takes about 10 ms the first time: never while idling or inside an attempt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "os/proc_root.h"

namespace rouse::os {

struct GpuProcess {
  int pid = 0;
  std::optional<int64_t> memory_bytes;  // empty where the driver does not tell (WDDM, MIG)
};

struct Gpu {
  std::string vendor;  // "nvidia", "amd", "intel"
  std::string name;
  std::string bus_id;  // "0000:65:00.0"
  std::optional<std::string> driver_version;
  std::optional<int64_t> memory_total_bytes;
  std::optional<int64_t> memory_used_bytes;
  std::optional<int64_t> clock_hz;  // of the compute units, now
  std::optional<int64_t> clock_max_hz;
  std::optional<int64_t> memory_clock_hz;
  std::optional<int64_t> performance_state;  // NVIDIA: 0 (fastest) to 15
  std::optional<double> celsius;
  std::optional<int64_t> power_mw;
  std::optional<int64_t> busy_percent;        // of the driver's last sampling period
  std::optional<bool> persistence_mode;       // NVIDIA: the driver stays loaded without clients
  std::optional<std::string> runtime_status;  // PCI power management: "active", "suspended"
  std::vector<GpuProcess> processes;          // compute processes; NVIDIA only
};

// kUnsupported when the library or the driver is not there, kPermission when this user may not use
// the GPU; with the reason.
Result<std::vector<Gpu>> ReadNvidiaGpus(const std::string& library = "libnvidia-ml.so.1");

// AMD and Intel, from sys/class/drm; empty when there is none.
std::vector<Gpu> ReadSysfsGpus(const ProcRoot& root);

// PCI display devices of any vendor as "10de:2336 at 0000:65:00.0", whether or not a driver is
// there: tells "no GPU" from "a GPU that we cannot read".
std::vector<std::string> ListDisplayDevices(const ProcRoot& root);

}  // namespace rouse::os
