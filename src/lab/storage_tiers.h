// Storage tiers: one condition for each directory or simulated disk that --path names, and what
// each gives by itself at several queue depths, measured before the run. The model's copies and the
// simulated disks are lab/tier_place.h's; here only a file of our own is written, which has no name
// once it is open.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/plan.h"
#include "lab/plan_adapt.h"
#include "lab/tier_place.h"

namespace rouse::lab {

// Adds "cold from NAME" on the plan's first condition for each of the target's paths that no
// condition names yet, "simulated NAME" for a simulated disk; on a memory file system with
// page_cache = "warm", since pages that are the file cannot be dropped. Without any path there are
// tiers that need no second disk: memory, and two simulated disks. What this machine does not
// permit is left out with the reason. kUsage for a server that rouse does not start.
Status AddPathConditions(Plan& plan, std::vector<LeftOut>& left_out);

struct TierDepth {
  int depth = 1;  // reads in flight, a thread each
  int64_t bytes_per_second = 0;
};

struct TierReport {
  std::string storage;                                // "ext4 on /dev/vda", "tmpfs (memory)"
  std::string how;                                    // "O_DIRECT", or why not
  std::optional<int64_t> simulated_bytes_per_second;  // the limit of a simulated disk
  std::vector<TierDepth> depths;
};

// Writes `bytes` (at least 16 MiB) of data that does not compress into the directory, waits for the
// disk, and reads it at random offsets in blocks of 1 MiB with 1, 4 and 16 reads in flight, past
// the page cache; each depth reads everything once or for 2 s. Errors as the kernel says (no space,
// not writable), kInterrupted.
Result<TierReport> ProbeTier(const std::string& directory, int64_t bytes,
                             const std::function<bool()>& interrupted);

// The same for a path as the plan has it. A simulated disk is made for it, and read by a process of
// ours (`rouse worker tier`) in the control group that limits it.
Result<TierReport> ProbePlace(const std::string& place, const std::string& model_file,
                              int64_t bytes, const std::function<bool()>& interrupted);

// What `rouse worker tier` prints, and how it is read.
std::string TierReportJson(const TierReport& report);
Result<TierReport> ParseTierReport(const std::string& json);

// As facts of a run: tier_NAME_storage, tier_NAME_how, tier_NAME_depth4_bytes_per_second, ... and
// of a simulated one tier_NAME_simulated_bytes_per_second.
std::map<std::string, std::string> TierFacts(const std::string& name, const TierReport& report);

}  // namespace rouse::lab
