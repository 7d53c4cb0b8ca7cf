// Runs and comparisons as JSON text: `rouse.report/1` and `rouse.comparison/1`
// (docs/results_format.md).
#pragma once

#include <map>
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

// What came out of a run, in one line: {"fastest_ns", "slowest_ns": the least and the largest
// median of a condition, "conditions": that were measured, "without": of those, how many have no
// median because too many attempts failed}. Both times are null when no condition has one.
std::string RunResultJson(const std::vector<results::ConditionTtfts>& conditions);

// {"runs": [...]}, each with its "result" where `results` has one (RunResultJson(), by the run's
// number), and one element of it without that as one line.
std::string RunListJson(const std::vector<results::RunSummary>& runs,
                        const std::map<int64_t, std::string>& results);
std::string RunLineJson(const results::RunSummary& run);

}  // namespace rouse::report
