// Sources. Two one-sided tests: Schuirmann 1987. Holm 1979. Power: the signed-rank and rank-sum
// tests need pi / 3 times the sample of the t test for normal data (Hodges and Lehmann 1956), the
// normal-theory sample size being ((z_{1-alpha/2} + z_power) * sd / shift)^2, twice that a side for
// two samples.
#include "stats/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/check.h"
#include "stats/binomial.h"
#include "stats/rank_tests.h"

namespace rouse::stats {
namespace {

constexpr std::array<std::string_view, 3> kExpectNames = {"decrease", "increase", "equal"};
constexpr std::array<std::string_view, 3> kVerdictNames = {"adopt", "reject", "undecided"};

}  // namespace

std::string_view ExpectName(Expect expect) { return kExpectNames[static_cast<size_t>(expect)]; }

std::optional<Expect> ExpectFromName(std::string_view name) {
  for (size_t index = 0; index < kExpectNames.size(); ++index) {
    if (kExpectNames[index] == name) return static_cast<Expect>(index);
  }
  return std::nullopt;
}

std::string_view VerdictName(Verdict verdict) {
  return kVerdictNames[static_cast<size_t>(verdict)];
}

Verdict Judge(Expect expect, double margin, const std::optional<Interval>& interval) {
  CHECK(margin > 0);
  if (!interval) return Verdict::kUndecided;
  const auto [low, high] = *interval;
  switch (expect) {
    case Expect::kDecrease:
      if (high <= -margin) return Verdict::kAdopt;
      return low > -margin ? Verdict::kReject : Verdict::kUndecided;
    case Expect::kIncrease:
      if (low >= margin) return Verdict::kAdopt;
      return high < margin ? Verdict::kReject : Verdict::kUndecided;
    case Expect::kEqual:
      if (low >= -margin && high <= margin) return Verdict::kAdopt;
      return high < -margin || low > margin ? Verdict::kReject : Verdict::kUndecided;
  }
  return Verdict::kUndecided;
}

double IntervalConfidence(Expect expect, double confidence) {
  return expect == Expect::kEqual ? 1 - 2 * (1 - confidence) : confidence;
}

std::vector<double> HolmAdjusted(std::span<const double> p_values) {
  std::vector<size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0;
  for (size_t place = 0; place < order.size(); ++place) {
    const auto remaining = static_cast<double>(order.size() - place);
    largest = std::max(largest, std::min(1.0, remaining * p_values[order[place]]));
    adjusted[order[place]] = largest;
  }
  return adjusted;
}

std::optional<int64_t> NeededN(int64_t n, double estimate, double bound, double boundary) {
  const double half_width = std::abs(bound - estimate);
  const double distance = std::abs(boundary - estimate);
  if (!std::isfinite(half_width) || !std::isfinite(distance) || distance == 0) return std::nullopt;
  const double factor = half_width / distance;
  const double needed = std::ceil(static_cast<double>(n) * factor * factor);
  // Beyond this it is no plan but a way of saying "never".
  if (needed > 1e7) return std::nullopt;
  return std::max<int64_t>(static_cast<int64_t>(needed), n + 1);
}

double SmallestDetectableShift(int64_t n, double standard_deviation, bool paired, double confidence,
                               double power) {
  CHECK(n >= 1);
  const double z = NormalQuantile(1 - (1 - confidence) / 2) + NormalQuantile(power);
  const double inflation = std::numbers::pi / 3;
  const double samples = paired ? 1 : 2;
  return z * standard_deviation * std::sqrt(samples * inflation / static_cast<double>(n));
}

int64_t NForShift(double shift, double standard_deviation, bool paired, double confidence,
                  double power) {
  CHECK(shift > 0);
  const double at_one = SmallestDetectableShift(1, standard_deviation, paired, confidence, power);
  auto n = static_cast<int64_t>(std::ceil(at_one * at_one / (shift * shift) - 1e-9));
  n = std::max<int64_t>(n, 1);
  while (paired ? !SignedRankCritical(n, confidence) : !RankSumCritical(n, n, confidence)) ++n;
  return n;
}

}  // namespace rouse::stats
