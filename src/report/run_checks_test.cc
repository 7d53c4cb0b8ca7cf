#include "report/run_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rouse::report {
namespace {

using results::Attempt;
using results::Outcome;
using results::Run;
using testing::HasSubstr;
using testing::IsEmpty;

stats::SampleSummary Sound() {
  stats::Sample sample;
  for (int i = 1; i <= 400; ++i) sample.values.push_back(i * 1e6);
  return stats::Summarize(sample);
}

TEST(Percentiles, AreSoundWhenTheyCome) {
  EXPECT_THAT(CheckPercentiles("warm", Sound()), IsEmpty());
}

TEST(Percentiles, BelowTheirNeighbourAreFlagged) {
  stats::SampleSummary summary = Sound();
  summary.p95.value = stats::Estimate::Of(*summary.p90.value.Value() - 1e6);
  summary.p95.low = stats::Estimate::None("");
  const auto warnings = CheckPercentiles("warm", summary);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].code, "percentile_out_of_order");
  EXPECT_THAT(warnings[0].message, HasSubstr("warm: the p95 (359"));
}

TEST(Percentiles, OutsideOfTheirIntervalAreFlagged) {
  stats::SampleSummary summary = Sound();
  summary.median.high = stats::Estimate::Of(*summary.median.value.Value() - 1);
  EXPECT_EQ(CheckPercentiles("warm", summary).size(), 1U);
  summary = Sound();
  summary.max = stats::Estimate::Of(*summary.p99.value.Value() - 1);
  EXPECT_EQ(CheckPercentiles("warm", summary).size(), 1U);
}

TEST(Percentiles, AmongFailuresAreNotCompared) {
  stats::Sample sample;
  for (int i = 1; i <= 350; ++i) sample.values.push_back(i * 1e6);
  sample.failures = 50;
  sample.longest_wait = 1e6;  // shorter than the median: a limit, and no value
  EXPECT_THAT(CheckPercentiles("warm", stats::Summarize(sample)), IsEmpty());
}

Attempt Of(const std::string& condition, int64_t prompt, int64_t ttft_ms) {
  Attempt attempt;
  attempt.condition = condition;
  attempt.outcome = Outcome::kOk;
  attempt.tokens.prompt = prompt;
  attempt.tokens.cached = 0;
  attempt.ttft_ns = ttft_ms * 1'000'000;
  return attempt;
}

std::vector<Attempt> Attempts(const std::string& short_condition, int64_t short_ms,
                              const std::string& long_condition, int64_t long_ms,
                              int64_t long_prompt = 800, int count = 3) {
  std::vector<Attempt> attempts;
  for (int i = 0; i < count; ++i) {
    attempts.push_back(Of(short_condition, 100 + i, short_ms));
    attempts.push_back(Of(long_condition, long_prompt + i, long_ms));
  }
  return attempts;
}

Run TwoConditions(const std::string& page_cache) {
  Run run;
  run.conditions.resize(2);
  run.conditions[0].name = "short";
  run.conditions[0].state = {{"page_cache", "warm"}};
  run.conditions[1].name = "long";
  run.conditions[1].state = {{"page_cache", page_cache}};
  return run;
}

TEST(PromptLength, ThatChangesNothingIsFlagged) {
  const auto warnings = CheckPromptLength(TwoConditions("warm"), Attempts("short", 50, "long", 52));
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].code, "ttft_ignores_prompt");
  EXPECT_THAT(warnings[0].message, HasSubstr("answers before the prompt is read"));
}

TEST(PromptLength, ThatCostsTimeIsNot) {
  EXPECT_THAT(CheckPromptLength(TwoConditions("warm"), Attempts("short", 50, "long", 53)),
              IsEmpty());
}

TEST(PromptLength, IsComparedUnderTheSameStatesOnly) {
  EXPECT_THAT(CheckPromptLength(TwoConditions("cold"), Attempts("short", 50, "long", 40)),
              IsEmpty());
  // Without states, as in an import, within one condition.
  EXPECT_THAT(CheckPromptLength(results::Run(), Attempts("short", 50, "long", 40)), IsEmpty());
  EXPECT_EQ(CheckPromptLength(results::Run(), Attempts("a", 50, "a", 40)).size(), 1U);
}

TEST(PromptLength, NeedsThreeOfEachAndTwiceTheTokens) {
  const results::Run run = TwoConditions("warm");
  EXPECT_THAT(CheckPromptLength(run, Attempts("short", 50, "long", 50, 800, 2)), IsEmpty());
  EXPECT_THAT(CheckPromptLength(run, Attempts("short", 50, "long", 50, 190)), IsEmpty());
  EXPECT_THAT(CheckPromptLength(run, Attempts("short", 50, "long", 50, 225)), IsEmpty());
  EXPECT_EQ(CheckPromptLength(run, Attempts("short", 50, "long", 50, 228)).size(), 1U);
}

TEST(PromptLength, CountsTokensThatWereComputedAndAttemptsThatSucceeded) {
  const results::Run run = TwoConditions("warm");
  std::vector<Attempt> attempts = Attempts("short", 50, "long", 50);
  for (Attempt& attempt : attempts) {
    if (attempt.condition == "long") attempt.tokens.cached = 700;  // so that few are left
  }
  EXPECT_THAT(CheckPromptLength(run, attempts), IsEmpty());
  attempts = Attempts("short", 50, "long", 50);
  attempts[1].outcome = Outcome::kTruncated;
  EXPECT_THAT(CheckPromptLength(run, attempts), IsEmpty());
  attempts = Attempts("short", 50, "long", 50);
  attempts[1].tokens.prompt.reset();
  EXPECT_THAT(CheckPromptLength(run, attempts), IsEmpty());
}

TEST(RunWarnings, HoldWhatTheRunShows) {
  EXPECT_EQ(RunWarnings(TwoConditions("warm"), Attempts("short", 50, "long", 50)).size(), 1U);
  EXPECT_THAT(RunWarnings(TwoConditions("warm"), Attempts("short", 50, "long", 90)), IsEmpty());
}

}  // namespace
}  // namespace rouse::report
