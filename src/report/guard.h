// Guards: the boundary that must hold beside a gain, judged on the treatment's value
// ("failure_rate<=0.05", "cotenant_slowdown<=0.10", "p95(ttft)<=2s").
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "report/sample.h"

namespace rouse::report {

enum class GuardRelation { kAtMost, kBelow, kAtLeast, kAbove };

struct Guard {
  std::string text;       // as written
  std::string statistic;  // "median" (where none is written), "max", "min", "mean", "p90", "p95"
  std::string metric;     // a name of the catalogue, or "failure_rate"
  GuardRelation relation = GuardRelation::kAtMost;
  double limit = 0;
};

// kUsage, with the nearest metric's name, for what is no guard.
Result<Guard> ParseGuard(const std::string& text);

struct GuardResult {
  Guard guard;
  std::optional<double> value;
  std::optional<bool> held;  // empty when it was not measured
  std::string reason;        // when not measured
};

GuardResult JudgeGuard(const Guard& guard, const ConditionAttempts& treatment);

// A number with the metric's unit as a plan writes it: durations for ns and us, sizes for bytes,
// plain numbers otherwise. At least 0.
Result<double> ParseMetricValue(const std::string& text, const results::Metric& metric);

}  // namespace rouse::report
