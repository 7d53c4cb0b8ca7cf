#include "stats/summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "stats/binomial.h"

namespace rouse::stats {
namespace {

std::vector<double> OneTo(int n) {
  std::vector<double> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), 1.0);
  std::reverse(values.begin(), values.end());  // any order must do
  return values;
}

// Pascal's triangle: a second way to the same probabilities.
double SlowBinomialCdf(int k, int n, double p) {
  std::vector<double> mass{1.0};
  for (int trial = 0; trial < n; ++trial) {
    std::vector<double> next(mass.size() + 1, 0.0);
    for (size_t hits = 0; hits < mass.size(); ++hits) {
      next[hits] += mass[hits] * (1 - p);
      next[hits + 1] += mass[hits] * p;
    }
    mass = next;
  }
  double sum = 0;
  for (int hits = 0; hits <= std::min(k, n); ++hits) sum += mass[static_cast<size_t>(hits)];
  return sum;
}

TEST(Binomial, AgreesWithPascalsTriangle) {
  for (const int n : {1, 2, 7, 30, 120}) {
    for (const double p : {0.01, 0.5, 0.9, 0.99}) {
      for (int k = -1; k <= n; ++k) {
        EXPECT_NEAR(BinomialCdf(k, n, p), SlowBinomialCdf(k, n, p), 1e-12) << n << " " << k;
      }
    }
  }
}

TEST(Binomial, StaysAccurateForLargeN) {
  EXPECT_NEAR(BinomialCdf(50'000, 100'000, 0.5), 0.5 + 0.5 * 0.002523126, 1e-7);
  EXPECT_NEAR(BinomialCdf(94'999, 100'000, 0.95), 0.497, 3e-3);
}

TEST(NormalQuantile, InvertsTheDistributionFunction) {
  EXPECT_NEAR(NormalQuantile(0.975), 1.959963984540054, 1e-12);
  EXPECT_NEAR(NormalQuantile(0.5), 0, 1e-12);
  EXPECT_NEAR(NormalQuantile(1e-10), -6.361340902404056, 1e-9);
}

TEST(SmallestN, IsThatOfTheContract) {
  EXPECT_EQ(SmallestNUpper(0.5, 0.95), 5);
  EXPECT_EQ(SmallestNUpper(0.9, 0.95), 29);
  EXPECT_EQ(SmallestNUpper(0.95, 0.95), 59);
  EXPECT_EQ(SmallestNUpper(0.99, 0.95), 299);
  EXPECT_EQ(SmallestNTwoSided(0.5, 0.95), 6);
  EXPECT_EQ(SmallestNTwoSided(0.9, 0.95), 36);
  EXPECT_EQ(SmallestNTwoSided(0.95, 0.95), 72);
  EXPECT_EQ(SmallestNTwoSided(0.99, 0.95), 368);
}

// Tries every pair of ranks that a table of the sign test would allow.
TEST(QuantileRanks, AreTheTightestWithEqualTails) {
  for (const double level : {0.5, 0.9}) {
    for (int n = 1; n <= 80; ++n) {
      int low = 0;
      int high = 0;
      for (int rank = 1; rank <= n; ++rank) {
        if (SlowBinomialCdf(rank - 1, n, level) <= 0.025) low = rank;
        if (high == 0 && 1 - SlowBinomialCdf(rank - 1, n, level) <= 0.025) high = rank;
      }
      const auto ranks = QuantileRanks(n, level, 0.95);
      ASSERT_EQ(ranks.has_value(), low > 0 && high > 0) << n;
      if (!ranks) continue;
      EXPECT_EQ(ranks->low, low) << n;
      EXPECT_EQ(ranks->high, high) << n;
    }
  }
}

TEST(Summarize, TakesTheMidpointForAnEvenN) {
  const SampleSummary even = Summarize({{4, 1, 3, 2}, 0, {}});
  EXPECT_EQ(even.median.value.Value(), 2.5);
  const SampleSummary odd = Summarize({{3, 1, 2}, 0, {}});
  EXPECT_EQ(odd.median.value.Value(), 2);
}

TEST(Summarize, SaysNothingOfAnEmptySample) {
  const SampleSummary summary = Summarize({});
  EXPECT_EQ(summary.n, 0);
  EXPECT_EQ(summary.median.value.kind, Estimate::Kind::kNone);
  EXPECT_EQ(summary.median.value.reason, "n = 0");
  EXPECT_EQ(summary.max.kind, Estimate::Kind::kNone);
  EXPECT_EQ(summary.mean.kind, Estimate::Kind::kNone);
}

TEST(Summarize, CallsTheSpreadOfOneValueUndefined) {
  const SampleSummary summary = Summarize({{7}, 0, {}});
  EXPECT_EQ(summary.median.value.Value(), 7);
  EXPECT_EQ(summary.mean.Value(), 7);
  EXPECT_EQ(summary.standard_deviation.kind, Estimate::Kind::kNone);
  EXPECT_EQ(summary.standard_deviation.reason, "n = 1: undefined");
  EXPECT_EQ(summary.median.low.kind, Estimate::Kind::kNone);
  EXPECT_EQ(summary.median.low.reason, "n = 1, needs 6");
}

TEST(Summarize, GivesTheIntervalOfSixAsTheirRange) {
  const SampleSummary summary = Summarize({OneTo(6), 0, {}});
  EXPECT_EQ(summary.median.value.Value(), 3.5);
  EXPECT_EQ(summary.median.low.Value(), 1);
  EXPECT_EQ(summary.median.high.Value(), 6);
  EXPECT_EQ(summary.p90.value.kind, Estimate::Kind::kNone);
  EXPECT_EQ(summary.p90.value.reason, "n = 6, needs 29");
  EXPECT_EQ(summary.p90.high.reason, "n = 6, needs 36");
}

TEST(Summarize, TakesNearestRankPercentiles) {
  const SampleSummary summary = Summarize({OneTo(400), 0, {}});
  EXPECT_EQ(summary.p90.value.Value(), 360);
  EXPECT_EQ(summary.p95.value.Value(), 380);  // 0.95 * 400 is not quite 380 in floating point
  EXPECT_EQ(summary.p99.value.Value(), 396);
  EXPECT_EQ(summary.max.Value(), 400);
  EXPECT_LE(summary.p90.low.value, 360);
  EXPECT_GE(summary.p90.high.value, 360);
}

TEST(Summarize, RanksFailuresBehindEverySuccess) {
  // 3 of 7 failed: the median is the slowest success.
  const Sample sample{{40, 10, 30, 20}, 3, 900};
  const SampleSummary summary = Summarize(sample);
  EXPECT_EQ(summary.n, 7);
  EXPECT_EQ(summary.censored, 3);
  EXPECT_EQ(summary.median.value.Value(), 40);
  EXPECT_EQ(summary.median.low.Value(), 10);
  EXPECT_EQ(summary.median.high.kind, Estimate::Kind::kAtLeast);
  EXPECT_EQ(summary.median.high.value, 900);
  EXPECT_EQ(summary.max.kind, Estimate::Kind::kAtLeast);
  EXPECT_EQ(summary.mean.kind, Estimate::Kind::kNone);
}

TEST(Summarize, KnowsOnlyALimitWhenTheMedianIsAFailure) {
  const SampleSummary even = Summarize({{10, 20}, 2, 900});  // the upper middle one failed
  EXPECT_EQ(even.median.value.kind, Estimate::Kind::kAtLeast);
  EXPECT_EQ(even.median.value.value, 900);
  const SampleSummary all = Summarize({{}, 3, 900});
  EXPECT_EQ(all.median.value.kind, Estimate::Kind::kAtLeast);
  const SampleSummary unknown = Summarize({{}, 3, {}});
  EXPECT_EQ(unknown.median.value.kind, Estimate::Kind::kNone);
}

TEST(Summarize, KeepsItsDigitsAtLargeOffsets) {
  const double offset = 1e15;
  const SampleSummary summary = Summarize({{offset + 1, offset + 2, offset + 3}, 0, {}});
  EXPECT_EQ(summary.mean.Value(), offset + 2);
  EXPECT_EQ(summary.standard_deviation.Value(), 1);
  EXPECT_EQ(summary.median.value.Value(), offset + 2);
}

TEST(Summarize, HandlesTies) {
  const SampleSummary summary = Summarize({std::vector<double>(40, 5.0), 0, {}});
  EXPECT_EQ(summary.median.low.Value(), 5);
  EXPECT_EQ(summary.median.high.Value(), 5);
  EXPECT_EQ(summary.standard_deviation.Value(), 0);
}

TEST(FlagOutliers, FlagsTheFarValueAndRemovesNone) {
  const OutlierFlags flags = FlagOutliers(std::vector<double>{10, 11, 9, 10, 12, 100});
  EXPECT_EQ(flags.mad, (std::vector<bool>{false, false, false, false, false, true}));
  EXPECT_EQ(flags.tukey, (std::vector<bool>{false, false, false, false, false, true}));
  const OutlierFlags equal = FlagOutliers(std::vector<double>{5, 5, 5, 5, 9});
  EXPECT_EQ(equal.mad, std::vector<bool>(5, false));  // a MAD of 0 says nothing
  EXPECT_EQ(FlagOutliers(std::vector<double>{1, 100}).tukey, std::vector<bool>(2, false));
}

}  // namespace
}  // namespace rouse::stats
