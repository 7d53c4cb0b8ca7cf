// The claim that a run was to decide (--require-ttft): from its stored attempts to one of three
// words (stats/claim.h), as text and as JSON. Which attempts count is said in docs/presets/idle.md.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "results/attempt.h"
#include "results/run.h"
#include "stats/claim.h"

namespace rouse::report {

// Empty for a run that was not asked for one.
std::optional<stats::Claim> ClaimOfRun(const results::Run& run,
                                       std::span<const results::Attempt> attempts);

// "page_cache 100 %, process running, ..." as read after the idle time and before the request, of
// the attempts of one condition: a range where they differ. "" when nothing was read.
std::string LayersAfterIdle(const std::string& condition,
                            std::span<const results::Attempt> attempts);

// The word first, then why, then a line for each idle time with its layers; wrapped to `columns`.
// "" for a run without a claim.
std::string RenderClaim(const results::Run& run, std::span<const results::Attempt> attempts,
                        int columns);

// One JSON object; "null" for a run without a claim.
std::string ClaimJson(const results::Run& run, std::span<const results::Attempt> attempts);

}  // namespace rouse::report
