// What differs between two runs beside what a comparison declares: docs/statistics.md and
// docs/decisions/0014-undeclared-differences.md have the rule. Pure; reads stored facts only.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/attempt.h"
#include "results/run.h"

namespace rouse::report {

struct Difference {
  std::string what;  // "model", "prompt", "kernel": what --differs takes
  // Without it being declared there is no verdict: the two sides did other work.
  bool decisive = false;
  std::string sentence;  // "model differs: a.gguf against b.gguf"
};

struct DifferenceSide {
  const results::Run* run = nullptr;
  std::span<const results::Attempt* const> attempts;  // of the condition that is compared
};

// In the order of their weight. A fact that only one side has is named, but never decisive; facts
// that differ whenever a machine restarts or a file is copied are left out.
std::vector<Difference> FindDifferences(const DifferenceSide& treatment,
                                        const DifferenceSide& control);

// The names that --differs takes; environment facts have their own name.
std::vector<std::string_view> DecisiveNames();

}  // namespace rouse::report
