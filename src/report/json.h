// Runs and comparisons as JSON text: `rouse.report/1` and `rouse.comparison/1`
// (docs/results_format.md).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/comparison.h"
#include "results/attempt.h"
#include "results/run.h"
#include "results/store.h"

namespace rouse::report {

// `with_attempts` adds "attempts": [...], each as `rouse.attempt/1`. Attempts that were loaded with
// Detail::kSummary give a report without counters.
std::string ReportJson(const results::Run& run, const std::vector<results::Attempt>& attempts,
                       bool with_attempts);

std::string ComparisonJson(const Comparison& comparison);

// Two whole runs: {"comparisons": [...], "only_treatment": [names], "only_control": [names]}.
std::string ComparisonsJson(const std::vector<Comparison>& comparisons,
                            const std::vector<std::string>& only_treatment,
                            const std::vector<std::string>& only_control);

// {"runs": [...]}, and one element of it as one line.
std::string RunListJson(const std::vector<results::RunSummary>& runs);
std::string RunLineJson(const results::RunSummary& run);

}  // namespace rouse::report
