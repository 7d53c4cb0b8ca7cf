#include "stats/verdict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "stats/bootstrap.h"
#include "stats/sequence.h"

namespace rouse::stats {
namespace {

Verdict Of(Expect expect, double low, double high) {
  return Judge(expect, 10, Interval{low, high});
}

TEST(Judge, AdoptsADecreaseOnlyWhenTheWholeIntervalIsAtOrBelowTheMargin) {
  EXPECT_EQ(Of(Expect::kDecrease, -30, -10), Verdict::kAdopt);
  EXPECT_EQ(Of(Expect::kDecrease, -30, -9.9), Verdict::kUndecided);
  EXPECT_EQ(Of(Expect::kDecrease, -10, 5), Verdict::kUndecided);
  EXPECT_EQ(Of(Expect::kDecrease, -9.9, 5), Verdict::kReject);
  EXPECT_EQ(Of(Expect::kDecrease, -INFINITY, -20), Verdict::kAdopt);
  EXPECT_EQ(Of(Expect::kDecrease, -20, INFINITY), Verdict::kUndecided);
}

TEST(Judge, AdoptsAnIncreaseOnlyWhenTheWholeIntervalIsAtOrAboveTheMargin) {
  EXPECT_EQ(Of(Expect::kIncrease, 10, 30), Verdict::kAdopt);
  EXPECT_EQ(Of(Expect::kIncrease, 9.9, 30), Verdict::kUndecided);
  EXPECT_EQ(Of(Expect::kIncrease, -5, 10), Verdict::kUndecided);
  EXPECT_EQ(Of(Expect::kIncrease, -5, 9.9), Verdict::kReject);
  EXPECT_EQ(Of(Expect::kIncrease, INFINITY, INFINITY), Verdict::kAdopt);
}

TEST(Judge, CallsTwoEqualOnlyWhenTheWholeIntervalIsWithinTheMargins) {
  EXPECT_EQ(Of(Expect::kEqual, -10, 10), Verdict::kAdopt);
  EXPECT_EQ(Of(Expect::kEqual, -10.1, 10), Verdict::kUndecided);
  EXPECT_EQ(Of(Expect::kEqual, 0, 11), Verdict::kUndecided);
  EXPECT_EQ(Of(Expect::kEqual, 10.1, 11), Verdict::kReject);
  EXPECT_EQ(Of(Expect::kEqual, -12, -10.1), Verdict::kReject);
  EXPECT_EQ(Of(Expect::kEqual, -30, 30), Verdict::kUndecided);
}

TEST(Judge, DecidesNothingWithoutAnInterval) {
  EXPECT_EQ(Judge(Expect::kDecrease, 1, std::nullopt), Verdict::kUndecided);
}

TEST(IntervalConfidence, IsThatOfTwoOneSidedTestsForEquality) {
  EXPECT_DOUBLE_EQ(IntervalConfidence(Expect::kEqual, 0.95), 0.90);
  EXPECT_DOUBLE_EQ(IntervalConfidence(Expect::kDecrease, 0.95), 0.95);
}

TEST(HolmAdjusted, StepsDown) {
  const std::vector<double> adjusted = HolmAdjusted(std::vector<double>{0.01, 0.04, 0.03});
  EXPECT_NEAR(adjusted[0], 0.03, 1e-15);
  EXPECT_NEAR(adjusted[2], 0.06, 1e-15);
  EXPECT_NEAR(adjusted[1], 0.06, 1e-15);  // never below the one before it
  EXPECT_EQ(HolmAdjusted(std::vector<double>{0.9, 0.8})[0], 1);
}

// A hypothesis with p-value p is decided at confidence c when p <= 1 - c: the verdicts must then be
// those of the adjusted p-values.
TEST(HolmVerdicts, AgreeWithTheAdjustedPValues) {
  Random random(11);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> p_values;
    for (int h = 0; h < 5; ++h) p_values.push_back(0.08 * random.Unit());
    const auto verdicts =
        HolmVerdicts(std::vector<double>(5, 0.95), [&](size_t h, double confidence) {
          return p_values[h] <= 1 - confidence ? Verdict::kAdopt : Verdict::kUndecided;
        });
    const std::vector<double> adjusted = HolmAdjusted(p_values);
    for (size_t h = 0; h < 5; ++h) {
      EXPECT_EQ(verdicts[h] == Verdict::kAdopt, adjusted[h] <= 0.05) << adjusted[h];
    }
  }
}

TEST(NeededN, GrowsWithTheSquareOfTheWidthOverTheDistance) {
  // Half width 8 at n = 12, distance 4: twice too wide, four times the attempts.
  EXPECT_EQ(NeededN(12, -6, 2, -10), 48);
  EXPECT_EQ(NeededN(12, -10, 2, -10), std::nullopt);
  EXPECT_EQ(NeededN(12, -6, INFINITY, -10), std::nullopt);
  EXPECT_EQ(NeededN(12, -6, -6, -10), 13);
}

TEST(Power, AgreesWithTheNormalTheory) {
  // (1.959964 + 0.841621)^2 * pi / 3 = 8.2196
  EXPECT_EQ(NForShift(1, 1, true, 0.95, 0.8), 9);
  EXPECT_EQ(NForShift(1, 1, false, 0.95, 0.8), 17);
  EXPECT_NEAR(SmallestDetectableShift(9, 1, true, 0.95, 0.8), std::sqrt(8.2196 / 9), 1e-4);
  EXPECT_EQ(NForShift(1000, 1, true, 0.95, 0.8), 6);  // no interval below 6 pairs
}

TEST(ExamineSequence, SeesADriftAndNeighboursThatDepend) {
  std::vector<double> rising;
  for (int i = 0; i < 20; ++i) rising.push_back(i);
  const SequenceFindings drift = ExamineSequence(rising);
  EXPECT_TRUE(drift.drifts);
  EXPECT_TRUE(drift.depends);
  EXPECT_NEAR(*drift.lag1, 0.85, 0.01);
  const std::vector<double> alternating = {1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2};
  const SequenceFindings zigzag = ExamineSequence(alternating);
  EXPECT_FALSE(zigzag.drifts);
  EXPECT_LT(*zigzag.lag1, 0);
}

TEST(ExamineSequence, SaysNothingOfTooFewOrEqualValues) {
  EXPECT_EQ(ExamineSequence({}).lag1, std::nullopt);
  EXPECT_EQ(ExamineSequence(std::vector<double>{1, 2, 3}).lag1, std::nullopt);
  const SequenceFindings equal = ExamineSequence(std::vector<double>(10, 4.0));
  EXPECT_EQ(equal.lag1, std::nullopt);
  EXPECT_FALSE(equal.drifts);
}

}  // namespace
}  // namespace rouse::stats
