// The control group that a process is in, of cgroup v2 and of v1's hierarchies: its memory, I/O and
// CPU use and its own pressure. Readable by everybody as a rule. About 150 us for everything.
// A process in the root group shares it with the whole machine: the numbers are the machine's then.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "os/proc_root.h"
#include "os/psi.h"

namespace rouse::os {

// Directories relative to the ProcRoot ("sys/fs/cgroup/rouse"), "" where there is none.
struct CgroupPaths {
  std::string unified;  // v2
  std::string memory;   // v1, or the same as `unified` where v2 has the controller
  std::string io;       // v1: blkio
  std::string cpu;      // v1: cpuacct
  std::string name;     // as the kernel names the memory group: "/user.slice/rouse"
};

struct CgroupCounters {
  CgroupPaths paths;
  std::optional<int64_t> memory_bytes;        // charged now, page cache included
  std::optional<int64_t> memory_limit_bytes;  // empty when there is no limit
  std::optional<int64_t> memory_peak_bytes;
  std::optional<int64_t> swap_bytes;
  std::optional<int64_t> anonymous_bytes;
  std::optional<int64_t> file_bytes;  // page cache charged to it: the first toucher pays
  std::optional<int64_t> major_faults;
  std::optional<int64_t> refaulted_file_pages;
  std::optional<int64_t> read_bytes;  // from block devices
  std::optional<int64_t> written_bytes;
  std::optional<int64_t> cpu_ns;
  std::optional<int64_t> throttled_ns;  // by a CPU quota
  // v2 only.
  std::optional<Psi> memory_pressure;
  std::optional<Psi> io_pressure;
  std::optional<Psi> cpu_pressure;
};

// Errors: kNotFound when the process is gone or no cgroup file system is mounted.
Result<CgroupPaths> FindCgroup(const ProcRoot& root, int pid);
Result<CgroupCounters> ReadCgroupCounters(const ProcRoot& root, int pid);

}  // namespace rouse::os
