// A run or comparisons as Markdown tables (GitHub's flavour), for a pull request or a message.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/comparison.h"
#include "results/attempt.h"
#include "results/run.h"

namespace rouse::report {

// The answer's table, the ladder of lost layers, hypotheses, and how it was measured. Names cannot
// break the table or bring markup of their own.
std::string RunMarkdown(const results::Run& run, std::span<const results::Attempt> attempts);

// One row per comparison, and what was noted about the two sides.
std::string ComparisonsMarkdown(const std::vector<Comparison>& comparisons);

}  // namespace rouse::report
