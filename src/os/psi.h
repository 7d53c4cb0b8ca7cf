// /proc/pressure/{cpu,memory,io} and a cgroup's *.pressure: the share of time in which tasks waited
// for a resource. Readable by everybody. About 10 us a file, 25 us for three.
// Kernel documentation: Documentation/accounting/psi.rst.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "os/proc_root.h"

namespace rouse::os {

struct PsiLine {
  // Percent of the last 10, 60 and 300 seconds; the kernel updates them every 2 s.
  std::optional<double> avg10;
  std::optional<double> avg60;
  std::optional<double> avg300;
  // Microseconds in all since boot (of a cgroup: since it was made). The exact one.
  std::optional<int64_t> total_us;
};

struct Psi {
  PsiLine some;  // at least one task waited
  PsiLine full;  // all non-idle tasks waited; empty for cpu before Linux 5.13
};

enum class PsiResource { kCpu, kMemory, kIo };

// Errors: kNotFound when the kernel was built without PSI, kUnsupported when it is switched off
// (psi=1 on the kernel's command line switches it on).
Result<Psi> ReadPsi(const ProcRoot& root, PsiResource resource);
// `path` relative to the root: "sys/fs/cgroup/rouse/memory.pressure".
Result<Psi> ReadPsiFile(const ProcRoot& root, const std::string& path);

}  // namespace rouse::os
