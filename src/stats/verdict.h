// The verdict table of docs/statistics.md: an interval for a shift, the smallest change worth
// having, and what was expected. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "stats/contrast.h"

namespace rouse::stats {

enum class Expect { kDecrease, kIncrease, kEqual };
std::string_view ExpectName(Expect expect);  // "decrease", ...
std::optional<Expect> ExpectFromName(std::string_view name);

enum class Verdict { kAdopt, kReject, kUndecided };
std::string_view VerdictName(Verdict verdict);  // "adopt", ...

// margin > 0. No interval: undecided.
Verdict Judge(Expect expect, double margin, const std::optional<Interval>& interval);

// The confidence of the interval to judge with: two one-sided tests at level alpha are an interval
// of confidence 1 - 2 alpha, so 0.95 becomes 0.9 for kEqual.
double IntervalConfidence(Expect expect, double confidence);

// Holm's step-down over several hypotheses, each with its own confidence (level alpha_h).
// `judge(h, confidence)` gives hypothesis h's verdict at that confidence. A hypothesis is decided
// when it is decided at level alpha_h / m, m being the number that are not decided yet; so the
// chance of any wrong decision stays at most the largest alpha_h.
template <typename JudgeAt>
std::vector<Verdict> HolmVerdicts(std::span<const double> confidences, const JudgeAt& judge) {
  std::vector<Verdict> verdicts(confidences.size(), Verdict::kUndecided);
  size_t open = confidences.size();
  for (bool progress = true; progress && open > 0;) {
    progress = false;
    for (size_t h = 0; h < confidences.size(); ++h) {
      if (verdicts[h] != Verdict::kUndecided) continue;
      const double alpha = (1 - confidences[h]) / static_cast<double>(open);
      verdicts[h] = judge(h, 1 - alpha);
      if (verdicts[h] == Verdict::kUndecided) continue;
      --open;
      progress = true;
    }
  }
  return verdicts;
}

// Holm-adjusted p-values, in the order given.
std::vector<double> HolmAdjusted(std::span<const double> p_values);

// How many attempts a side (or pairs) it would take to decide, if the estimate stays what it is and
// the interval shrinks with the square root of n. Empty when it would not help: the estimate lies
// on the boundary, or a number is infinite. `bound` is the end of the interval on the boundary's
// side.
std::optional<int64_t> NeededN(int64_t n, double estimate, double bound, double boundary);

// The smallest shift that n pairs (or n a side) show with that power at that two-sided confidence,
// for differences (or values) of that standard deviation; normal theory with the signed-rank
// efficiency 3 / pi.
double SmallestDetectableShift(int64_t n, double standard_deviation, bool paired, double confidence,
                               double power);
// The n for which SmallestDetectableShift is at most `shift`; at least the smallest n that has an
// interval at all.
int64_t NForShift(double shift, double standard_deviation, bool paired, double confidence,
                  double power);

}  // namespace rouse::stats
