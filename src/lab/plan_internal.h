// What the plan's parser and its checks share; nobody else includes it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/plan.h"

namespace rouse::lab {

inline constexpr int64_t kRepeatLimit = 100'000;

// A condition as it stands in the file, before its base is applied.
struct RawCondition {
  std::string name;
  std::string base;
  int line = 0;
  int base_line = 0;
  std::map<Layer, std::string> state;
  std::optional<int64_t> idle_ns;
  std::optional<int64_t> repeat;
  std::optional<std::vector<std::string>> target_args;
  bool compound = false;
};

struct RawHypothesis {
  results::HypothesisRow row;
  int line = 0;
  int treatment_line = 0;
  int control_line = 0;
};

// "FILE:LINE: WHAT", of kUsage. Without a file (a change from the command line) only WHAT.
Error PlanError(std::string_view file, int line, const std::string& what);

std::vector<std::string_view> HypothesisMetrics();

Status CheckMargin(const std::string& margin, std::string_view file, int line,
                   std::string_view title);
Status CheckGuard(const std::string& guard, std::string_view file, int line,
                  std::string_view title);

// Applies the base, finds what changed, enforces the one-change rule, and appends.
Status AddCondition(const RawCondition& raw, std::string_view file, Plan& plan);
Status AddHypothesis(const RawHypothesis& raw, std::string_view file, Plan& plan);

}  // namespace rouse::lab
