// How much of a model's files is in the page cache, for /state, /metrics and the estimate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/page_cache.h"

namespace rouse::server {

// All files together, exactly as os::ReadResidency can tell; about 10 ns a resident page. Never on
// the I/O thread.
Result<os::Residency> ModelResidency(const std::vector<std::string>& parts);

// An estimate from 32 pieces of 256 KiB over all files: about 0.1 ms, so that a load can afford it.
// Empty where the kernel counts no pages for this user.
std::optional<double> QuickResidentRatio(const std::vector<std::string>& parts);

}  // namespace rouse::server
