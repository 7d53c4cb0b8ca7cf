// Runs and comparisons as JSON text: `rouse.report/1` and `rouse.comparison/1`
// (docs/results_format.md).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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

// What came out of a run: the least and the largest median of a condition, both nullopt when none
// has one; how many conditions were measured, and how many of them have no median because too many
// attempts failed.
struct RunResult {
  std::optional<int64_t> fastest_ns;
  std::optional<int64_t> slowest_ns;
  int64_t conditions = 0;
  int64_t without = 0;
};

RunResult ResultOf(const std::vector<results::ConditionTtfts>& conditions);
// The same as one line of JSON, with the names above.
std::string RunResultJson(const RunResult& result);

// {"runs": [...]}, each with its "result" where `results` has one (by the run's number), and one
// element of it without that as one line.
std::string RunListJson(const std::vector<results::RunSummary>& runs,
                        const std::map<int64_t, RunResult>& results);
std::string RunLineJson(const results::RunSummary& run);

}  // namespace rouse::report
