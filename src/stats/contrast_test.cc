#include "stats/contrast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "stats/bootstrap.h"
#include "stats/pairwise.h"
#include "stats/rank_tests.h"
#include "stats/summary.h"

namespace rouse::stats {
namespace {

constexpr double kInfinity = INFINITY;

std::vector<double> Walsh(const std::vector<double>& values) {
  std::vector<double> all;
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = i; j < values.size(); ++j) all.push_back(0.5 * (values[i] + values[j]));
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<double> Differences(const std::vector<double>& t, const std::vector<double>& c) {
  std::vector<double> all;
  for (const double a : t) {
    for (const double b : c) all.push_back(a - b);
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<double> Skewed(int n, Random& random, double scale = 1) {
  std::vector<double> values;
  for (int i = 0; i < n; ++i) values.push_back(scale * std::exp(2 * random.Unit()));
  return values;
}

// All 2^n sign patterns: the distribution that the critical rank must come from.
int64_t CriticalByEnumeration(int n, double confidence) {
  std::vector<int64_t> counts(static_cast<size_t>(n * (n + 1) / 2 + 1), 0);
  for (uint32_t pattern = 0; pattern < (1U << static_cast<unsigned>(n)); ++pattern) {
    int sum = 0;
    for (int rank = 1; rank <= n; ++rank) {
      if ((pattern >> static_cast<unsigned>(rank - 1)) & 1U) sum += rank;
    }
    ++counts[static_cast<size_t>(sum)];
  }
  const double all = std::ldexp(1.0, n);
  double sum = 0;
  int64_t rank = 0;
  for (const int64_t count : counts) {
    sum += static_cast<double>(count) / all;
    if (sum > (1 - confidence) / 2) break;
    ++rank;
  }
  return rank;
}

TEST(SignedRankCritical, AgreesWithAllSignPatterns) {
  for (int n = 1; n <= 16; ++n) {
    for (const double confidence : {0.9, 0.95, 0.99}) {
      const auto critical = SignedRankCritical(n, confidence);
      EXPECT_EQ(critical ? critical->rank : 0, CriticalByEnumeration(n, confidence)) << n;
    }
  }
}

TEST(SignedRankCritical, NeedsSixPairsForNinetyFivePercent) {
  EXPECT_FALSE(SignedRankCritical(5, 0.95).has_value());
  EXPECT_EQ(SignedRankCritical(6, 0.95)->rank, 1);
  EXPECT_TRUE(SignedRankCritical(5, 0.90).has_value());
}

TEST(SignedRankCritical, GoesOverIntoTheNormalApproximationWithoutAStep) {
  const auto exact = SignedRankCritical(200, 0.95);
  const auto normal = SignedRankCritical(201, 0.95);
  EXPECT_TRUE(exact->exact);
  EXPECT_FALSE(normal->exact);
  const double grown = static_cast<double>(normal->rank - exact->rank);
  EXPECT_NEAR(
      grown,
      201.0 / 2 - 1.96 * (201.5 * std::sqrt(201.0) - 200.5 * std::sqrt(200.0)) / std::sqrt(12.0),
      5);
}

// All ways to choose which of n + m places are the treatment's.
TEST(RankSumCritical, AgreesWithAllPlacements) {
  for (int n = 1; n <= 6; ++n) {
    for (int m = 1; m <= 7; ++m) {
      std::vector<int64_t> counts(static_cast<size_t>(n * m + 1), 0);
      int64_t all = 0;
      for (uint32_t pattern = 0; pattern < (1U << static_cast<unsigned>(n + m)); ++pattern) {
        if (__builtin_popcount(pattern) != n) continue;
        int u = 0;
        int others = 0;
        for (unsigned place = 0; place < static_cast<unsigned>(n + m); ++place) {
          if ((pattern >> place) & 1U) {
            u += others;
          } else {
            ++others;
          }
        }
        ++counts[static_cast<size_t>(u)];
        ++all;
      }
      int64_t rank = 0;
      double sum = 0;
      for (const int64_t count : counts) {
        sum += static_cast<double>(count) / static_cast<double>(all);
        if (sum > 0.025 + 1e-12) break;
        ++rank;
      }
      const auto critical = RankSumCritical(n, m, 0.95);
      EXPECT_EQ(critical ? critical->rank : 0, rank) << n << " " << m;
    }
  }
}

TEST(Pairwise, SelectsWhatSortingAllPairsGives) {
  Random random(5);
  for (const int n : {1, 2, 3, 7, 40}) {
    std::vector<double> t = Skewed(n, random);
    std::vector<double> c = Skewed(n + 3, random, -1.5);
    t[0] = 0;
    c[0] = c[1];  // a tie
    std::sort(t.begin(), t.end());
    std::sort(c.begin(), c.end());
    const std::vector<double> walsh = Walsh(c);
    for (size_t rank = 1; rank <= walsh.size(); ++rank) {
      ASSERT_EQ(WalshAverage(c, static_cast<int64_t>(rank)), walsh[rank - 1]);
    }
    const std::vector<double> differences = Differences(t, c);
    for (size_t rank = 1; rank <= differences.size(); ++rank) {
      ASSERT_EQ(PairwiseDifference(t, c, static_cast<int64_t>(rank)), differences[rank - 1]);
    }
  }
}

TEST(PairedShift, IsTheMedianWalshAverageWithItsExactInterval) {
  const std::vector<double> t = {125, 115, 130, 140, 140, 115, 140, 125, 140, 135};
  const std::vector<double> c = {110, 122, 125, 120, 140, 124, 123, 137, 135, 145};
  const Shift shift = PairedShift(t, c, 0.95);
  std::vector<double> differences;
  for (size_t i = 0; i < t.size(); ++i) differences.push_back(t[i] - c[i]);
  const std::vector<double> walsh = Walsh(differences);
  EXPECT_EQ(shift.value, walsh[27]);  // 55 averages, the 28th
  // Tables of the signed-rank test: for n = 10 and 95 %, the 9th smallest and largest.
  ASSERT_TRUE(shift.ci.has_value());
  EXPECT_EQ(shift.ci->low, walsh[8]);
  EXPECT_EQ(shift.ci->high, walsh[46]);
  EXPECT_EQ(shift.method, "exact signed-rank");
  EXPECT_TRUE(shift.paired);
}

TEST(PairedShift, HasNoIntervalBelowSixPairs) {
  const Shift five =
      PairedShift(std::vector<double>{1, 2, 3, 4, 5}, std::vector<double>{0, 0, 0, 0, 0}, 0.95);
  EXPECT_EQ(five.value, 3);
  EXPECT_FALSE(five.ci.has_value());
  EXPECT_EQ(five.reason, "5 pairs; a 95 % interval needs 6");
  const Shift none = PairedShift({}, {}, 0.95);
  EXPECT_FALSE(none.value.has_value());
  EXPECT_EQ(none.reason, "no pair of attempts");
}

TEST(PairedShift, TakesTheRangeOfSixDifferences) {
  const Shift six = PairedShift(std::vector<double>{11, 12, 13, 14, 15, 16},
                                std::vector<double>{10, 10, 10, 10, 10, 10}, 0.95);
  EXPECT_EQ(six.value, 3.5);
  EXPECT_EQ(six.ci->low, 1);
  EXPECT_EQ(six.ci->high, 6);
}

TEST(PairedShift, TreatsFailuresAsInfiniteAndTwoInAPairAsATie) {
  const std::vector<double> c = {1, 1, 1, 1, 1, kInfinity};
  const Shift both = PairedShift(std::vector<double>{2, 2, 2, 2, 2, kInfinity}, c, 0.95);
  EXPECT_EQ(both.value, 1);
  EXPECT_EQ(both.ci->low, 0);
  EXPECT_EQ(both.ci->high, 1);
  const std::vector<double> ones(6, 1.0);
  const Shift one = PairedShift(std::vector<double>{2, 2, 2, 2, 2, kInfinity}, ones, 0.95);
  EXPECT_EQ(one.value, 1);
  EXPECT_EQ(one.ci->high, kInfinity);
  const Shift all = PairedShift(std::vector<double>(6, kInfinity), ones, 0.95);
  EXPECT_EQ(all.value, kInfinity);
  EXPECT_EQ(all.ci->low, kInfinity);
  const Shift none_came = PairedShift(ones, std::vector<double>(6, kInfinity), 0.95);
  EXPECT_EQ(none_came.ci->high, -kInfinity);
}

TEST(PairedShift, KeepsItsDigitsAtLargeOffsets) {
  const double offset = 4e15;
  std::vector<double> t;
  std::vector<double> c;
  for (int i = 0; i < 7; ++i) {
    c.push_back(offset + i);
    t.push_back(offset + i + 3);
  }
  const Shift shift = PairedShift(t, c, 0.95);
  EXPECT_EQ(shift.value, 3);
  EXPECT_EQ(shift.ci->low, 3);
  EXPECT_EQ(shift.ci->high, 3);
}

TEST(TwoSampleShift, IsTheMedianDifferenceWithItsExactInterval) {
  // Hollander and Wolfe's layout: small samples of unequal size.
  const std::vector<double> t = {1.15, 0.88, 0.90, 0.74, 1.21};
  const std::vector<double> c = {0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46};
  const Shift shift = TwoSampleShift(t, c, 0.95);
  const std::vector<double> differences = Differences(t, c);
  EXPECT_DOUBLE_EQ(*shift.value, 0.5 * (differences[24] + differences[25]));
  // P(U <= 8) = 0.0200, P(U <= 9) = 0.0276 for sizes 5 and 10: the 9th smallest and largest.
  EXPECT_EQ(shift.ci->low, differences[8]);
  EXPECT_EQ(shift.ci->high, differences[41]);
  EXPECT_FALSE(shift.paired);
}

TEST(TwoSampleShift, NeedsFourOnEachSide) {
  const std::vector<double> three = {1, 2, 3};
  const std::vector<double> four = {1, 2, 3, 4};
  EXPECT_FALSE(TwoSampleShift(three, three, 0.95).ci.has_value());
  EXPECT_TRUE(TwoSampleShift(four, four, 0.95).ci.has_value());
  EXPECT_FALSE(TwoSampleShift({}, four, 0.95).value.has_value());
}

TEST(TwoSampleShift, TreatsFailuresAsInfinite) {
  const std::vector<double> c = {1, 2, 3, 4, 5, 6};
  const std::vector<double> t = {1, 2, 3, kInfinity, kInfinity, kInfinity};
  const Shift shift = TwoSampleShift(t, c, 0.95);
  EXPECT_EQ(shift.ci->high, kInfinity);
  EXPECT_TRUE(std::isfinite(shift.ci->low));
  const Shift reverse = TwoSampleShift(c, t, 0.95);
  EXPECT_EQ(reverse.ci->low, -kInfinity);
}

TEST(TwoSampleShift, NeedsNoSquareOfMemoryForLargeSamples) {
  Random random(3);
  const std::vector<double> c = Skewed(100'000, random);
  std::vector<double> t = Skewed(100'000, random);
  for (double& value : t) value += 0.25;
  const Shift shift = TwoSampleShift(t, c, 0.95);
  EXPECT_NEAR(*shift.value, 0.25, 0.02);
  EXPECT_EQ(shift.method, "rank-sum, normal approximation");
}

TEST(Ratio, IsTheShiftOfTheLogarithms) {
  const std::vector<double> c = {10, 20, 40, 15, 25, 35};
  std::vector<double> t;
  for (const double value : c) t.push_back(1.5 * value);
  const Shift paired = PairedRatio(t, c, 0.95);
  EXPECT_NEAR(*paired.value, 1.5, 1e-12);
  EXPECT_NEAR(paired.ci->low, 1.5, 1e-12);
  const std::vector<double> zero = {0, 1, 2, 3, 4, 5};
  EXPECT_FALSE(TwoSampleRatio(zero, c, 0.95).value.has_value());
  EXPECT_EQ(TwoSampleRatio(zero, c, 0.95).reason, "a value is not above 0");
  const std::vector<double> failed(6, kInfinity);
  EXPECT_EQ(PairedRatio(failed, c, 0.95).value, kInfinity);
  EXPECT_EQ(PairedRatio(c, failed, 0.95).value, 0);
}

TEST(QuantileShift, RefusesSamplesThatAreTooSmall) {
  Random random(1);
  const std::vector<double> small = Skewed(28, random);
  const Shift refused = QuantileShift(small, small, 0.9, true, 0.95, {});
  EXPECT_FALSE(refused.value.has_value());
  EXPECT_EQ(refused.reason, "n = 28, a p90 needs 29");
  const std::vector<double> middle = Skewed(30, random);
  const Shift no_interval = QuantileShift(middle, middle, 0.9, true, 0.95, {});
  EXPECT_TRUE(no_interval.value.has_value());
  EXPECT_EQ(no_interval.reason, "n = 30, an interval for a p90 needs 36");
}

TEST(QuantileShift, FindsAShiftAndRepeatsItselfForASeed) {
  Random random(2);
  const std::vector<double> c = Skewed(200, random);
  std::vector<double> t = c;
  for (double& value : t) value += 3;
  const Shift shift = QuantileShift(t, c, 0.9, true, 0.95, {7, 2000});
  EXPECT_NEAR(*shift.value, 3, 1e-12);
  EXPECT_NEAR(shift.ci->low, 3, 1e-12);  // each pair shifts by 3, and whole pairs are redrawn
  EXPECT_NEAR(shift.ci->high, 3, 1e-12);
  EXPECT_EQ(shift.seed, 7);
  const Shift unpaired = QuantileShift(t, c, 0.9, false, 0.95, {7, 2000});
  const Shift again = QuantileShift(t, c, 0.9, false, 0.95, {7, 2000});
  EXPECT_EQ(unpaired.ci->low, again.ci->low);
  EXPECT_LT(unpaired.ci->low, 3);
  EXPECT_GT(unpaired.ci->high, 3);
}

TEST(QuantileShift, IsInfiniteWhenThePercentileFallsAmongFailures) {
  std::vector<double> c(40, 1.0);
  std::vector<double> t = c;
  for (size_t i = 0; i < 10; ++i) t[i] = kInfinity;
  const Shift shift = QuantileShift(t, c, 0.9, true, 0.95, {1, 500});
  EXPECT_EQ(shift.value, kInfinity);
  EXPECT_EQ(shift.ci->high, kInfinity);
}

TEST(MeanShift, RefusesFailuresAndSmallSamples) {
  const std::vector<double> six = {1, 2, 3, 4, 5, 6};
  std::vector<double> failed = six;
  failed[2] = kInfinity;
  EXPECT_FALSE(MeanShift(failed, six, true, 0.95, {}).value.has_value());
  const std::vector<double> five = {1, 2, 3, 4, 5};
  const Shift small = MeanShift(five, five, true, 0.95, {});
  EXPECT_EQ(small.value, 0);
  EXPECT_EQ(small.reason, "n = 5, an interval for a mean needs 6");
}

TEST(MeanShift, IsExactForAConstantDifference) {
  const double offset = 1e15;
  std::vector<double> c;
  std::vector<double> t;
  for (int i = 0; i < 8; ++i) {
    c.push_back(offset + i * i);
    t.push_back(offset + i * i + 2);
  }
  const Shift paired = MeanShift(t, c, true, 0.95, {1, 500});
  EXPECT_EQ(paired.value, 2);
  EXPECT_EQ(paired.ci->low, 2);
  EXPECT_EQ(paired.ci->high, 2);
  const Shift unpaired = MeanShift(t, c, false, 0.95, {1, 2000});
  EXPECT_EQ(unpaired.value, 2);
  EXPECT_LT(unpaired.ci->low, 2);
  EXPECT_GT(unpaired.ci->high, 2);
}

TEST(MeanRatio, IsTheRatioOfTheMeans) {
  const std::vector<double> c = {1, 2, 3, 4, 5, 6};
  const std::vector<double> t = {2, 4, 6, 8, 10, 12};
  const Shift ratio = MeanRatio(t, c, true, 0.95, {1, 500});
  EXPECT_EQ(ratio.value, 2);
  EXPECT_EQ(ratio.ci->low, 2);
  EXPECT_EQ(ratio.ci->high, 2);
}

}  // namespace
}  // namespace rouse::stats
