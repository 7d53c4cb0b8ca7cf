// Two conditions against each other: shift, ratio, verdict, and what would change it. The rules are
// docs/statistics.md; returns data, json.h and comparison_text.h put it into words.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "report/guard.h"
#include "report/sample.h"
#include "results/attempt.h"
#include "results/run.h"
#include "stats/contrast.h"
#include "stats/summary.h"
#include "stats/verdict.h"

namespace rouse::report {

struct ComparisonSpec {
  std::string metric = "ttft";
  std::string statistic = "median";  // median, p90, p95, mean
  std::optional<stats::Expect> expect;
  std::string margin;  // "10%" or in the metric's unit: "50ms"; needed with `expect`
  double confidence = 0.95;
  std::vector<std::string> guards;
  std::vector<std::string> differs;  // what the two runs are meant to differ in: "model", "context"
  stats::BootstrapOptions bootstrap;
};

// Checks everything that can be checked without data (kUsage): metric, statistic, margin, guards,
// `expect` without a margin.
Status CheckSpec(const ComparisonSpec& spec);

struct Side {
  const results::Run* run = nullptr;
  std::string condition;
  std::span<const results::Attempt> attempts;  // all of the run
};

struct SideSummary {
  int64_t run = 0;
  std::string condition;
  std::map<results::Outcome, int64_t> outcomes;
  stats::SampleSummary summary;
  int64_t not_measured = 0;
};

struct Comparison {
  std::string name;  // of the hypothesis, else of the condition
  ComparisonSpec spec;
  const results::Metric* metric = nullptr;
  SideSummary treatment;
  SideSummary control;
  std::optional<double> margin;  // in the metric's unit
  stats::Shift shift;
  stats::Shift ratio;
  std::string why_unpaired;
  std::vector<int64_t> only_treatment;  // blocks without a partner
  std::vector<int64_t> only_control;
  std::optional<stats::Verdict> verdict;  // empty without `expect`
  std::string reason;
  std::string would_change;
  std::vector<GuardResult> guards;
  std::vector<results::Warning> warnings;
};

// kUsage: an unknown condition, a side compared with itself, or, with `expect`, two runs that were
// asked for different work without `differs` (differences.h). kState: no attempt on a side that
// counts and has the metric.
Result<Comparison> Compare(const Side& treatment, const Side& control, const ComparisonSpec& spec);

// The run's declared hypotheses, judged together (Holm), in their order.
Result<std::vector<Comparison>> JudgeHypotheses(const results::Run& run,
                                                std::span<const results::Attempt> attempts);

}  // namespace rouse::report
