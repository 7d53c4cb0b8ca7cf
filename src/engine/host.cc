// Cores from sched_getaffinity, /sys/devices/system/cpu and cpu.max (control groups of version 2
// only); memory from loader/memory_budget.h.
#include "engine/host.h"

#include <sched.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/fd.h"
#include "base/strings.h"
#include "loader/memory_budget.h"

namespace rouse::engine {
namespace {

// The folder of our own control group, by the line "0::/path" of /proc/self/cgroup.
std::optional<std::string> CgroupFolder(const std::string& root) {
  const Result<std::string> own = ReadSmallFile(root + "/proc/self/cgroup");
  if (!own.ok()) return std::nullopt;
  for (std::string_view line : SplitAt(own.value(), '\n')) {
    if (line.starts_with("0::")) return root + "/sys/fs/cgroup" + std::string(line.substr(3));
  }
  return std::nullopt;
}

// "max 100000" or "150000 100000": quota and period in microseconds.
std::optional<int64_t> QuotaCores(const std::string& root) {
  const std::optional<std::string> folder = CgroupFolder(root);
  if (!folder) return std::nullopt;
  const Result<std::string> text = ReadSmallFile(*folder + "/cpu.max");
  if (!text.ok()) return std::nullopt;
  const auto fields = SplitAt(TrimBlanks(text.value()), ' ');
  if (fields.size() != 2) return std::nullopt;
  const std::optional<int64_t> quota = ParseInt64(fields[0]);
  const std::optional<int64_t> period = ParseInt64(fields[1]);
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return (*quota - 1) / *period + 1;
}

}  // namespace

int UsableCores(const std::string& system_root) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  int64_t cores = 0;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
    // Hardware threads of one core name the same siblings ("0,4" or "0-1").
    std::set<std::string> seen;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &mask)) continue;
      const Result<std::string> siblings =
          ReadSmallFile(system_root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                        "/topology/thread_siblings_list");
      seen.insert(siblings.ok() ? siblings.value() : "cpu" + std::to_string(cpu));
    }
    cores = static_cast<int64_t>(seen.size());
  }
  if (const std::optional<int64_t> quota = QuotaCores(system_root)) cores = std::min(cores, *quota);
  return static_cast<int>(std::max<int64_t>(cores, 1));
}

std::optional<int64_t> AvailableMemoryBytes(const std::string& system_root) {
  return loader::ReadOwnMemoryBudget(system_root).Left(0);
}

}  // namespace rouse::engine
