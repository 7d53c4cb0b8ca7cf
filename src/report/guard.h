// Guards: the boundary that must hold beside a gain, judged on the treatment's value
// ("failure_rate<=0.05", "cotenant_slowdown<=0.10", "p95(ttft)<=2s").
#pragma once

#include <optional>
#include <string>

#include "report/sample.h"
#include "results/metric_text.h"

namespace rouse::report {

using results::Guard;

struct GuardResult {
  Guard guard;
  std::optional<double> value;
  std::optional<bool> held;  // empty when it was not measured
  std::string reason;        // when not measured
};

GuardResult JudgeGuard(const Guard& guard, const ConditionAttempts& treatment);

}  // namespace rouse::report
