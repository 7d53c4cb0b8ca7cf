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
  std::optional<int64_t> prompt_tokens;
  std::optional<int64_t> concurrency;
  std::optional<std::vector<std::string>> target_args;
  std::optional<std::string> path;
  bool compound = false;
};

struct RawHypothesis {
  results::HypothesisRow row;
  int line = 0;
  int treatment_line = 0;
  int control_line = 0;
  int margin_line = 0;
};

// "FILE:LINE: WHAT", of kUsage. Without a file (a change from the command line) only WHAT.
Error PlanError(std::string_view file, int line, const std::string& what);

std::vector<std::string_view> HypothesisMetrics();

// A TOML basic string, and an array of them.
std::string TomlString(std::string_view text);
std::string TomlArray(const std::vector<std::string>& items);

// "" when NAME = DIR can be a row of the target's paths.
std::string WhyNotAPath(const std::string& name, const std::string& directory);

// The margin is one of the row's metric.
Status CheckMargin(const results::HypothesisRow& row, std::string_view file, int line,
                   std::string_view title);
Status CheckGuard(const std::string& guard, std::string_view file, int line,
                  std::string_view title);

// Without a look at what the plan's target can do: for presets, which are adapted to it.
Result<Plan> ParsePlanForAnyTarget(std::string_view toml, std::string_view file_name);

// Why this condition cannot be had on the plan's target, or "".
std::string WhyNotFeasible(const Plan& plan, const Condition& condition);

// What differs between them, in the order of the tables of layers and of factors.
std::vector<std::string> ChangesFrom(const Condition& condition, const Condition& base);

// --target, --model, --model-file and --path, without a look at the conditions.
Status OverrideTarget(const PlanOverrides& overrides, TargetSpec& target);

// Applies the base, finds what changed, enforces the one-change rule, and appends.
Status AddCondition(const RawCondition& raw, std::string_view file, Plan& plan);
Status AddHypothesis(const RawHypothesis& raw, std::string_view file, Plan& plan);

}  // namespace rouse::lab
