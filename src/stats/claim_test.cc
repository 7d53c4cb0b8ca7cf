#include "stats/claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace rouse::stats {
namespace {

using testing::HasSubstr;

constexpr double kMs = 1e6;

ClaimSample After(const std::string& name, std::vector<double> ms, int64_t failures = 0) {
  ClaimSample sample{.name = name, .idle_ns = 1, .sample = {}};
  for (const double value : ms) sample.sample.values.push_back(value * kMs);
  sample.sample.failures = failures;
  return sample;
}

std::vector<ClaimGuard> Held() {
  return {
      {.name = "swap-in", .unit = "bytes", .worst = 0, .limit = 1048576, .why_not_measured = ""},
      {.name = "sentinel slowdown",
       .unit = "ratio",
       .worst = 0.02,
       .limit = 0.25,
       .why_not_measured = ""}};
}

TEST(Claim, IsWarmWhenEveryAttemptHeldAndNobodyWasSqueezed) {
  const std::vector<ClaimSample> samples = {After("idle 0 s", {100, 110}),
                                            After("idle 60 s", {120, 499.999})};
  const Claim claim = JudgeClaim(500 * kMs, samples, true, Held());
  EXPECT_EQ(claim.word, ClaimWord::kWarm) << claim.reason;
  EXPECT_EQ(ClaimWordName(claim.word), "warm");
  EXPECT_EQ(claim.bound_name, "idle 60 s");
  EXPECT_THAT(claim.reason, HasSubstr("no other service was squeezed"));
}

TEST(Claim, HoldsAtExactlyTheWantedTimeAndNotOneNanosecondAbove) {
  const std::vector<ClaimSample> at = {After("idle 1 s", {500, 500})};
  EXPECT_EQ(JudgeClaim(500 * kMs, at, true, Held()).word, ClaimWord::kWarm);
  const Claim above = JudgeClaim(500 * kMs - 1, at, true, Held());
  EXPECT_EQ(above.word, ClaimWord::kBoundedColdStart);
  EXPECT_EQ(above.rows.front().held, false);
}

TEST(Claim, IsABoundedColdStartWhenOneAttemptOfOneIdleTimeWasSlower) {
  const std::vector<ClaimSample> samples = {After("idle 0 s", {100, 100, 100}),
                                            After("idle 480 min", {100, 7300, 100})};
  const Claim claim = JudgeClaim(500 * kMs, samples, true, Held());
  EXPECT_EQ(claim.word, ClaimWord::kBoundedColdStart);
  ASSERT_TRUE(claim.bound.has_value());
  EXPECT_EQ(claim.bound->worst_ns, 7300 * kMs);
  EXPECT_EQ(claim.bound_name, "idle 480 min");
  EXPECT_EQ(claim.bound->n, 3);
  // 0.05^(1/3): three answers can't promise more than 36.8 % of all.
  EXPECT_NEAR(claim.bound->least_share, 0.36840, 1e-5);
  EXPECT_EQ(claim.rows[0].held, true);
}

TEST(Claim, PromisesNinetyPercentFromTwentyNineAttemptsOn) {
  for (const int n : {28, 29}) {
    const std::vector<ClaimSample> samples = {
        After("idle 1 s", std::vector<double>(static_cast<size_t>(n), 900))};
    const Claim claim = JudgeClaim(500 * kMs, samples, true, Held());
    EXPECT_EQ(claim.bound->least_share >= 0.9, n == 29);
  }
}

TEST(Claim, IsNotHeldWhenAFirstTokenNeverCame) {
  const std::vector<ClaimSample> samples = {After("idle 0 s", {100, 100}),
                                            After("idle 60 s", {100, 100}, 1)};
  const Claim claim = JudgeClaim(500 * kMs, samples, true, Held());
  EXPECT_EQ(claim.word, ClaimWord::kNotHeld);
  EXPECT_THAT(claim.reason, HasSubstr("after idle 60 s the first token never came in 1 of 3"));
  EXPECT_FALSE(claim.bound.has_value());
  EXPECT_TRUE(claim.rows[0].bound.has_value());
  EXPECT_FALSE(claim.rows[1].bound.has_value());
}

TEST(Claim, IsNotHeldWithoutRepeatsWithoutAttemptsAndInACutRun) {
  const std::vector<ClaimSample> once = {After("idle 0 s", {1, 1}), After("idle 60 s", {1})};
  EXPECT_EQ(JudgeClaim(500 * kMs, once, true, Held()).word, ClaimWord::kNotHeld);
  EXPECT_THAT(JudgeClaim(500 * kMs, once, true, Held()).reason,
              HasSubstr("idle 60 s was measured once"));
  const std::vector<ClaimSample> none = {After("idle 0 s", {})};
  EXPECT_EQ(JudgeClaim(500 * kMs, none, true, Held()).word, ClaimWord::kNotHeld);
  EXPECT_FALSE(JudgeClaim(500 * kMs, none, true, Held()).rows.front().held.has_value());
  EXPECT_EQ(JudgeClaim(500 * kMs, {}, true, Held()).word, ClaimWord::kNotHeld);
  const std::vector<ClaimSample> twice = {After("idle 0 s", {1, 1})};
  EXPECT_EQ(JudgeClaim(500 * kMs, twice, true, Held()).word, ClaimWord::kWarm);
  EXPECT_THAT(JudgeClaim(500 * kMs, twice, false, Held()).reason, HasSubstr("not complete"));
}

TEST(Claim, IsNeverWarmWhenOthersPaidOrMayHavePaid) {
  const std::vector<ClaimSample> samples = {After("idle 60 s", {100, 100})};
  std::vector<ClaimGuard> guards = Held();
  guards[0].worst = 1048576;
  guards[1].worst = 0.25;
  EXPECT_EQ(JudgeClaim(500 * kMs, samples, true, guards).word, ClaimWord::kWarm) << "at the limit";
  guards[1].worst = 0.2501;
  Claim claim = JudgeClaim(500 * kMs, samples, true, guards);
  EXPECT_EQ(claim.word, ClaimWord::kBoundedColdStart);
  EXPECT_THAT(claim.reason, HasSubstr("others were squeezed: sentinel slowdown was 25.0 %"));
  guards[1].worst = 0;
  guards[0].worst = 1048577;
  EXPECT_EQ(JudgeClaim(500 * kMs, samples, true, guards).word, ClaimWord::kBoundedColdStart);
  guards[0].worst.reset();
  guards[0].why_not_measured = "no /proc/vmstat";
  claim = JudgeClaim(500 * kMs, samples, true, guards);
  EXPECT_EQ(claim.word, ClaimWord::kBoundedColdStart);
  EXPECT_THAT(claim.reason, HasSubstr("swap-in was not measured (no /proc/vmstat)"));
  EXPECT_EQ(JudgeClaim(500 * kMs, samples, true, {}).word, ClaimWord::kBoundedColdStart);
}

}  // namespace
}  // namespace rouse::stats
