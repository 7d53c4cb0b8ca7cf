// Storage tiers of a run (--preset storage): what each gave to the model's load, beside what the
// tier gives by itself (environment tier_NAME_*), as text and as JSON.
#pragma once

#include <span>
#include <string>

#include "results/attempt.h"
#include "results/run.h"

namespace rouse::report {

// Some lines of at most `columns` for each condition with a path whose tier was measured; ""
// without one.
std::string RenderTiers(const results::Run& run, std::span<const results::Attempt> attempts,
                        int columns);

// An array of {"condition", "path", "storage", "how", "simulated": false,
// "limit_bytes_per_second": null, "depths": {"1": ..}, "possible_bytes_per_second",
// "achieved_bytes_per_second", "achieved_ratio"}; "null" for a run without tiers.
std::string TiersJson(const results::Run& run, std::span<const results::Attempt> attempts);

}  // namespace rouse::report
