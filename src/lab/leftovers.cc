#include "lab/leftovers.h"

#include "lab/compile_cache.h"
#include "lab/contention.h"
#include "os/leftovers.h"
#include "os/read_limit.h"

namespace rouse::lab {

std::vector<std::string> RemoveLeftovers() {
  std::vector<std::string> removed;
  // Processes first: a control group with members and a folder in use cannot be removed.
  for (const os::Leftover& each : os::EndLeftovers()) {
    removed.push_back(each.comm + " (pid " + std::to_string(each.pid) + ")");
  }
  for (std::string& group : RemoveStaleBallastGroups()) removed.push_back(std::move(group));
  for (const std::string& group : os::RemoveStaleReadLimits()) {
    removed.push_back("control group " + group);
  }
  for (std::string& folder : CompileCache::RemoveStale()) removed.push_back(std::move(folder));
  return removed;
}

}  // namespace rouse::lab
