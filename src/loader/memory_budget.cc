#include "loader/memory_budget.h"

#include <unistd.h>

#include <algorithm>

#include "base/strings.h"
#include "os/cgroup.h"
#include "os/meminfo.h"
#include "os/proc_status.h"

namespace rouse::loader {
namespace {

// memory.limit_in_bytes of v1 without a limit is the largest number of whole pages.
constexpr int64_t kNoLimitV1 = int64_t{1} << 62U;

std::optional<int64_t> NumberIn(const os::ProcRoot& root, const std::string& path) {
  const Result<std::string> text = root.Read(path);
  return text.ok() ? ParseInt64(TrimBlanks(*text)) : std::nullopt;
}

// A line "name 4096" of memory.stat; 0 when it is not there.
int64_t StatLine(const std::string& text, std::string_view name) {
  for (const std::string_view line : SplitAt(text, '\n')) {
    if (line.size() <= name.size() || !line.starts_with(name) || line[name.size()] != ' ') continue;
    return ParseInt64(TrimBlanks(line.substr(name.size()))).value_or(0);
  }
  return 0;
}

struct GroupLeft {
  int64_t bytes = 0;
  int64_t file_bytes = 0;
};

// What one group has left; nullopt when it has no limit.
std::optional<GroupLeft> LeftInGroup(const os::ProcRoot& root, const std::string& folder, bool v2) {
  const auto limit = NumberIn(root, folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
  const auto used = NumberIn(root, folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
  if (!limit || !used || *limit >= kNoLimitV1) return std::nullopt;
  int64_t reclaimable = 0;
  if (const Result<std::string> stat = root.Read(folder + "/memory.stat"); stat.ok()) {
    const std::string total = v2 ? "" : "total_";
    reclaimable = StatLine(*stat, total + "active_file") + StatLine(*stat, total + "inactive_file");
  }
  return GroupLeft{std::max<int64_t>(0, *limit - *used + reclaimable), reclaimable};
}

}  // namespace

std::optional<int64_t> MemoryBudget::Left(int64_t reserve_bytes) const {
  if (!machine_bytes && !group_bytes) return std::nullopt;
  const int64_t least =
      std::min(machine_bytes.value_or(INT64_MAX), group_bytes.value_or(INT64_MAX));
  return std::max<int64_t>(0, least - reserve_bytes);
}

MemoryBudget ReadMemoryBudget(const os::ProcRoot& root, int pid) {
  MemoryBudget budget;
  if (const Result<os::Meminfo> memory = os::ReadMeminfo(root); memory.ok()) {
    budget.machine_bytes = memory->available_bytes;
    if (memory->active_file_bytes && memory->inactive_file_bytes) {
      budget.machine_file_bytes = *memory->active_file_bytes + *memory->inactive_file_bytes;
    }
  }
  if (const Result<os::ProcStatus> status = os::ReadProcStatus(root, pid); status.ok()) {
    budget.locked_bytes = status->locked_bytes.value_or(0);
  }
  const Result<os::CgroupPaths> paths = os::FindCgroup(root, pid);
  if (!paths.ok() || paths->memory.empty()) return budget;
  // Upwards from our own group: each one above may have a tighter limit. The mount itself has no
  // limit file in v2 and an unlimited one in v1, so going too far does no harm.
  const bool v2 = paths->memory == paths->unified;
  std::string folder = paths->memory;
  std::string name = paths->name;
  while (true) {
    const std::optional<GroupLeft> left = LeftInGroup(root, folder, v2);
    if (left && (!budget.group_bytes || left->bytes < *budget.group_bytes)) {
      budget.group_bytes = left->bytes;
      budget.group_file_bytes = left->file_bytes;
      budget.group = name.empty() ? "/" : name;
    }
    const size_t slash = name.rfind('/');
    const size_t folder_slash = folder.rfind('/');
    if (slash == std::string::npos || folder_slash == std::string::npos || name == "/") break;
    name.resize(slash);
    folder.resize(folder_slash);
  }
  return budget;
}

MemoryBudget ReadOwnMemoryBudget(const std::string& system_root) {
  if (system_root.empty()) return ReadMemoryBudget(os::ProcRoot::Real(), getpid());
  const Result<os::ProcRoot> root = os::ProcRoot::Open(system_root);
  return root.ok() ? ReadMemoryBudget(*root, getpid()) : MemoryBudget();
}

}  // namespace rouse::loader
