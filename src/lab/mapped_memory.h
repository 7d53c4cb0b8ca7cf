// How much of a file a process has in memory through its own mappings of it: what tells a model
// that is mapped and asleep from one that is in use. Not the page cache (lab/page_cache.cc), which
// keeps pages that no process maps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/proc_root.h"

namespace rouse::lab {

// Resident bytes of the mappings of `path` in the text of one /proc/PID/smaps.
int64_t MappedBytesIn(std::string_view smaps, std::string_view path);

// The sum over `pids`; empty when none of them may be read. Walks page tables (about 1 ms per GB):
// never between the send and the first token.
std::optional<int64_t> MappedResidentBytes(const os::ProcRoot& root, const std::vector<int>& pids,
                                           const std::string& path);

}  // namespace rouse::lab
