// What each changed layer costs, as sentences: "losing the page cache costs +310 ms: 297 ms of it
// weights, 98.4 MB read at 331 MB/s". For this folder only.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/attempt.h"
#include "results/run.h"

namespace rouse::report {

// One sentence for each condition that has a base in this run, in the run's order, not wrapped.
std::vector<std::string> ContrastSentences(const results::Run& run,
                                           std::span<const results::Attempt> attempts);

}  // namespace rouse::report
