// Selection by bisection on the values themselves: "how many of the sums are at most v" takes one
// walk along the sorted arrays, and the bit patterns of doubles are ordered like the doubles, so
// that 64 halvings end at the very double that is the answer. Rounding is monotone, so the walk is
// right for the rounded sums too.
#include "stats/pairwise.h"

#include <bit>
#include <cmath>

#include "base/check.h"

namespace rouse::stats {
namespace {

// Maps doubles to integers that are ordered as they are, and back: the bits of a negative one, but
// for its sign, count downwards.
int64_t Flip(int64_t bits) { return bits >= 0 ? bits : bits ^ INT64_MAX; }
int64_t KeyOf(double value) { return Flip(std::bit_cast<int64_t>(value + 0.0)); }  // -0 becomes 0
double ValueOf(int64_t key) { return std::bit_cast<double>(Flip(key)); }

// The smallest v with count_at_most(v) >= rank, between low and high.
template <typename CountAtMost>
double Select(double low, double high, int64_t rank, const CountAtMost& count_at_most) {
  int64_t below = KeyOf(low);
  int64_t above = KeyOf(high);
  while (below < above) {
    // Halving without overflow: the distance of two keys may exceed an int64_t.
    const auto distance = static_cast<uint64_t>(above) - static_cast<uint64_t>(below);
    const auto middle = static_cast<int64_t>(static_cast<uint64_t>(below) + distance / 2);
    if (count_at_most(ValueOf(middle)) >= rank) {
      above = middle;
    } else {
      below = middle + 1;
    }
  }
  return ValueOf(below);
}

}  // namespace

double ToFinite(double value) {
  if (std::isinf(value)) return value > 0 ? kHuge : -kHuge;
  return value;
}

double FromFinite(double value) {
  if (value > kBeyond) return INFINITY;
  if (value < -kBeyond) return -INFINITY;
  return value;
}

double WalshAverage(std::span<const double> sorted, int64_t rank) {
  const auto n = static_cast<int64_t>(sorted.size());
  CHECK(rank >= 1 && rank <= n * (n + 1) / 2);
  const auto count_at_most = [&](double limit) {
    int64_t count = 0;
    int64_t last = n - 1;  // the largest partner that is not too large, for the current i
    for (int64_t i = 0; i < n; ++i) {
      const double value = sorted[static_cast<size_t>(i)];
      while (last >= i && 0.5 * (value + sorted[static_cast<size_t>(last)]) > limit) --last;
      if (last < i) break;
      count += last - i + 1;
    }
    return count;
  };
  return Select(sorted.front(), sorted.back(), rank, count_at_most);
}

double PairwiseDifference(std::span<const double> t, std::span<const double> c, int64_t rank) {
  const auto n = static_cast<int64_t>(t.size());
  const auto m = static_cast<int64_t>(c.size());
  CHECK(rank >= 1 && rank <= n * m);
  const auto count_at_most = [&](double limit) {
    int64_t count = 0;
    int64_t first = 0;  // the smallest subtrahend that makes the difference small enough
    for (int64_t i = 0; i < n && first < m; ++i) {
      const double value = t[static_cast<size_t>(i)];
      while (first < m && value - c[static_cast<size_t>(first)] > limit) ++first;
      count += m - first;
    }
    return count;
  };
  return Select(t.front() - c.back(), t.back() - c.front(), rank, count_at_most);
}

}  // namespace rouse::stats
