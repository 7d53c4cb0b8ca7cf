// Whether a server may be called warm: one of three words, from the answers after repeated idle
// times. Pure functions; docs/presets/idle.md has the rules in words.
//
//   warm                the wanted time held in every attempt after every idle time, and the guards
//                       show that no other service was squeezed for it
//   bounded cold start  it did not, or not without cost for others; the worst that was seen is a
//                       bound, and it is told how much such a bound of n attempts is worth
//   not held            not even a bound can be given: an answer never came, or too few were asked
//   for
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stats/summary.h"

namespace rouse::stats {

enum class ClaimWord { kWarm, kBoundedColdStart, kNotHeld };
std::string_view ClaimWordName(ClaimWord word);  // "warm", "bounded cold start", "not held"

// The attempts after one idle time.
struct ClaimSample {
  std::string name;
  int64_t idle_ns = 0;
  Sample sample;  // times to first token in ns, and failures
};

// What others paid, judged against a limit: held when `worst` is at most `limit`.
struct ClaimGuard {
  std::string name;
  std::string unit;             // "bytes", "ratio"
  std::optional<double> worst;  // empty: not measured
  double limit = 0;
  std::string why_not_measured;
};

// What the worst of n attempts is worth: with this confidence at least `least_share` of all first
// answers after this idle time come within it. Source: the probability that n independent answers
// all lie below the q quantile is q^n, so q = (1 - confidence)^(1/n).
struct ClaimBound {
  double worst_ns = 0;
  int64_t n = 0;
  double confidence = 0.95;
  double least_share = 0;
};

struct ClaimRow {
  std::string name;
  int64_t idle_ns = 0;
  int64_t n = 0;
  int64_t failures = 0;
  std::optional<bool> held;         // empty without an attempt
  std::optional<ClaimBound> bound;  // empty with a failure, or with fewer than two attempts
  Quantile median;
};

struct Claim {
  ClaimWord word = ClaimWord::kNotHeld;
  double required_ns = 0;
  std::string reason;               // one sentence, without the word
  std::optional<ClaimBound> bound;  // of the worst row; empty when the word is kNotHeld
  std::string bound_name;           // of that row
  std::vector<ClaimRow> rows;       // as given
  std::vector<ClaimGuard> guards;
};

// Attempts after one idle time that make it a repeated one.
inline constexpr int64_t kClaimRepeats = 2;

// `complete`: whether every attempt of the plan was made.
Claim JudgeClaim(double required_ns, std::span<const ClaimSample> samples, bool complete,
                 std::vector<ClaimGuard> guards, double confidence = 0.95);

}  // namespace rouse::stats
