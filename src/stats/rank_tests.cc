// Sources. Signed rank: Wilcoxon 1945; under symmetry each of the 2^n sign patterns is equally
// likely, so P(W = w) is the share of subsets of {1..n} with sum w. Rank sum: Mann and Whitney
// 1947; each of the C(n+m, n) placements is equally likely. Intervals from them: Hollander, Wolfe
// and Chicken, Nonparametric Statistical Methods, sections 3.3 and 4.3. Large samples: normal with
// continuity correction, the same chapters.
#include "stats/rank_tests.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "stats/binomial.h"

namespace rouse::stats {
namespace {

constexpr int64_t kLargestExactPairs = 200;
constexpr double kLargestExactWork = 5e7;
constexpr double kSlack = 1e-12;

// The largest k with P(statistic <= k - 1) <= tail, given P(statistic = 0), P(= 1), ...
std::optional<int64_t> Critical(const std::vector<double>& probabilities, double tail) {
  double sum = 0;
  int64_t k = 0;
  for (const double probability : probabilities) {
    sum += probability;
    if (sum > tail + kSlack) break;
    ++k;
  }
  return k == 0 ? std::nullopt : std::optional<int64_t>(k);
}

std::optional<int64_t> NormalCritical(double mean, double variance, double tail) {
  const auto k =
      static_cast<int64_t>(std::floor(mean + NormalQuantile(tail) * std::sqrt(variance) + 0.5));
  return k < 1 ? std::nullopt : std::optional<int64_t>(k);
}

std::vector<double> SignedRankProbabilities(int64_t n) {
  const auto largest = static_cast<size_t>(n * (n + 1) / 2);
  std::vector<double> probabilities(largest + 1, 0.0);
  probabilities[0] = 1;
  size_t reach = 0;
  for (auto rank = size_t{1}; rank <= static_cast<size_t>(n); ++rank) {
    reach += rank;
    for (size_t sum = reach + 1; sum-- > 0;) {
      const double with = sum >= rank ? probabilities[sum - rank] : 0;
      probabilities[sum] = 0.5 * (probabilities[sum] + with);
    }
  }
  return probabilities;
}

// Counts subsets of {1..n+m} of size n by their rank sum minus its minimum; n <= m.
std::vector<double> RankSumProbabilities(int64_t n, int64_t m) {
  const auto size = static_cast<size_t>(n);
  const auto largest = static_cast<size_t>(n * m);
  // ways[j][u]: j chosen so far, u times that a chosen one stands behind one not chosen.
  std::vector<std::vector<double>> ways(size + 1, std::vector<double>(largest + 1, 0.0));
  ways[0][0] = 1;
  for (size_t item = 1; item <= static_cast<size_t>(n + m); ++item) {
    for (size_t chosen = std::min(size, item); chosen >= 1; --chosen) {
      // As the chosen-th of them, this item has item - chosen others in front of it.
      const size_t shift = item - chosen;
      if (shift > static_cast<size_t>(m)) continue;
      for (size_t u = shift; u <= largest; ++u) ways[chosen][u] += ways[chosen - 1][u - shift];
    }
  }
  std::vector<double> probabilities = ways[size];
  double total = 0;
  for (const double count : probabilities) total += count;
  for (double& count : probabilities) count /= total;
  return probabilities;
}

}  // namespace

std::optional<CriticalRank> SignedRankCritical(int64_t n, double confidence) {
  CHECK(n >= 0 && confidence > 0 && confidence < 1);
  const double tail = (1 - confidence) / 2;
  if (n == 0) return std::nullopt;
  const bool exact = n <= kLargestExactPairs;
  const auto count = static_cast<double>(n);
  const std::optional<int64_t> rank =
      exact ? Critical(SignedRankProbabilities(n), tail)
            : NormalCritical(count * (count + 1) / 4, count * (count + 1) * (2 * count + 1) / 24,
                             tail);
  if (!rank) return std::nullopt;
  return CriticalRank{*rank, exact};
}

std::optional<CriticalRank> RankSumCritical(int64_t n, int64_t m, double confidence) {
  CHECK(n >= 0 && m >= 0 && confidence > 0 && confidence < 1);
  const double tail = (1 - confidence) / 2;
  if (n == 0 || m == 0) return std::nullopt;
  const auto less = static_cast<double>(std::min(n, m));
  const auto more = static_cast<double>(std::max(n, m));
  const bool exact = (less + more) * less * less * more <= kLargestExactWork;
  const std::optional<int64_t> rank =
      exact ? Critical(RankSumProbabilities(std::min(n, m), std::max(n, m)), tail)
            : NormalCritical(less * more / 2, less * more * (less + more + 1) / 12, tail);
  if (!rank) return std::nullopt;
  return CriticalRank{*rank, exact};
}

}  // namespace rouse::stats
