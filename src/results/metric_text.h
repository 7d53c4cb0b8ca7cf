// Values of metrics as people write them, in plans and on the command line: "50ms", "10%",
// "failure_rate<=0.05". What is refused here is refused before anything is measured.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "results/metrics.h"

namespace rouse::results {

inline constexpr std::string_view kFailureRate = "failure_rate";

// A number with the metric's unit: durations for ns and us, sizes for bytes, plain numbers
// otherwise. At least 0.
Result<double> ParseMetricValue(const std::string& text, const Metric& metric);

// The smallest change worth having.
struct Margin {
  bool relative = false;
  double value = 0;  // a share of the control's statistic, or in the metric's unit; above 0
};
Result<Margin> ParseMargin(const std::string& text, const Metric& metric);

enum class GuardRelation { kAtMost, kBelow, kAtLeast, kAbove };

// The boundary that must hold beside a gain, on the treatment's value: "failure_rate<=0.05",
// "cotenant_slowdown<=0.10", "p95(ttft)<=2s".
struct Guard {
  std::string text;       // as written
  std::string statistic;  // "median" (where none is written), "max", "min", "mean", "p90", "p95"
  std::string metric;     // a name of the catalogue, or kFailureRate
  GuardRelation relation = GuardRelation::kAtMost;
  double limit = 0;
};

// kUsage, with the text and the nearest metric's name, for what is no guard.
Result<Guard> ParseGuard(const std::string& text);

}  // namespace rouse::results
