// Storage tiers: one condition for each directory that --path names, and what each directory's
// storage gives by itself at several queue depths, measured before the run. The model's copies are
// lab/model_copy.h's; here only a file of our own is written, which has no name once it is open.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/plan.h"

namespace rouse::lab {

// Adds "cold from NAME" on the plan's first condition for each of the target's paths that no
// condition names yet; on a memory file system with page_cache = "warm", since pages that are the
// file cannot be dropped. kUsage without any path: there would be nothing to compare.
Status AddPathConditions(Plan& plan);

struct TierDepth {
  int depth = 1;  // reads in flight, a thread each
  int64_t bytes_per_second = 0;
};

struct TierReport {
  std::string storage;  // "ext4 on /dev/vda", "tmpfs (memory)"
  std::string how;      // "O_DIRECT", or why not
  std::vector<TierDepth> depths;
};

// Writes `bytes` (at least 16 MiB) of data that does not compress into the directory, waits for the
// disk, and reads it at random offsets in blocks of 1 MiB with 1, 4 and 16 reads in flight, past
// the page cache; each depth reads everything once or for 2 s. Errors as the kernel says (no space,
// not writable), kInterrupted.
Result<TierReport> ProbeTier(const std::string& directory, int64_t bytes,
                             const std::function<bool()>& interrupted);

// As facts of a run: tier_NAME_storage, tier_NAME_how, tier_NAME_depth4_bytes_per_second, ...
std::map<std::string, std::string> TierFacts(const std::string& name, const TierReport& report);

}  // namespace rouse::lab
