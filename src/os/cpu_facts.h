// The processor: what it is and how it is set up, from /proc/cpuinfo and sysfs. Reading a core's
// frequency does not wake it on current kernels. About 1 ms for everything; not inside an attempt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "os/proc_root.h"

namespace rouse::os {

struct IdleState {
  std::string name;                        // "C6"
  std::optional<int64_t> exit_latency_us;  // what waking from it costs at most
  std::optional<bool> disabled;
};

struct CpuFacts {
  std::optional<std::string> model;
  std::optional<std::string> microcode;
  std::optional<int64_t> online_cpus;
  std::optional<int64_t> physical_cores;
  std::optional<bool> smt_active;
  std::optional<bool> virtual_machine;  // the hypervisor flag
  std::optional<double> cpu0_mhz;       // cpuinfo; what a core ran at lately
  // cpufreq of CPU 0; all empty in most virtual machines.
  std::optional<std::string> frequency_driver;
  std::optional<std::string> governor;
  std::optional<std::string> energy_preference;
  std::optional<int64_t> current_khz;
  std::optional<int64_t> lowest_khz;
  std::optional<int64_t> highest_khz;
  std::optional<bool> boost;
  std::optional<std::string> idle_driver;
  std::optional<std::string> idle_governor;
  std::vector<IdleState> idle_states;     // of CPU 0, shallow to deep
  std::vector<std::string> vector_flags;  // of those that matter for inference: "avx2", "amx_tile"
};

Result<CpuFacts> ReadCpuFacts(const ProcRoot& root);

}  // namespace rouse::os
