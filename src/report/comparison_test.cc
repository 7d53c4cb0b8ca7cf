#include "report/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/comparison_text.h"
#include "report/csv.h"
#include "report/json.h"
#include "report/terminal.h"
#include "report/trace.h"

namespace rouse::report {
namespace {

using results::Attempt;
using results::Outcome;
using stats::Verdict;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kMs = 1'000'000;

void Add(std::vector<Attempt>& attempts, const std::string& condition,
         const std::vector<int>& times_ms) {
  int64_t block = 0;
  for (const int time_ms : times_ms) {
    Attempt attempt;
    attempt.id = static_cast<int64_t>(attempts.size() + 1);
    attempt.condition = condition;
    attempt.block = block++;
    if (time_ms < 0) {
      attempt.outcome = Outcome::kTimeout;
      attempt.marks.end = -time_ms * kMs;
    } else {
      attempt.ttft_ns = time_ms * kMs;
    }
    attempts.push_back(attempt);
  }
}

results::Run RunOf(const std::vector<std::string>& conditions) {
  results::Run run;
  run.id = 1;
  for (const std::string& name : conditions) {
    run.conditions.emplace_back();
    run.conditions.back().name = name;
  }
  return run;
}

results::HypothesisRow Hypothesis(const std::string& name, const std::string& treatment,
                                  const std::string& expect, const std::string& margin) {
  return {name, "ttft", "median", treatment, "warm", expect, margin, 0.95, {}};
}

TEST(SampleOf, LeavesOutPrimesAndAttemptsThatWereNeverSent) {
  std::vector<Attempt> attempts;
  Add(attempts, "a", {1, 2, -9, 3, 4});
  attempts[0].prime = true;
  attempts[3].outcome = Outcome::kStateNotReached;
  attempts[4].ttft_ns.reset();
  const auto conditions = ByCondition(RunOf({"a"}), attempts);
  ASSERT_EQ(conditions.size(), 1);
  EXPECT_EQ(conditions[0].attempts.size(), 4);
  const MetricSample sample = SampleOf(conditions[0], *results::FindMetric("ttft"));
  EXPECT_EQ(sample.counted, 3);
  EXPECT_EQ(sample.not_measured, 1);
  EXPECT_EQ(sample.sample.failures, 1);
  EXPECT_THAT(sample.sample.values, ElementsAre(2.0 * kMs));
  EXPECT_EQ(sample.sample.longest_wait, 9.0 * kMs);
}

TEST(SampleOf, CountsWhatAFailedAttemptHasMeasured) {
  std::vector<Attempt> attempts;
  Add(attempts, "a", {-9});
  attempts[0].counters["target_read_bytes"] = results::MetricValue(int64_t{42});
  const auto conditions = ByCondition(RunOf({}), attempts);
  const MetricSample sample = SampleOf(conditions[0], *results::FindMetric("target_read_bytes"));
  EXPECT_THAT(sample.sample.values, ElementsAre(42));
  EXPECT_EQ(sample.sample.failures, 0);
}

TEST(PairUp, RefusesABlockThatHoldsAConditionTwice) {
  std::vector<Attempt> attempts;
  Add(attempts, "a", {1, 2});
  Add(attempts, "b", {3, 4});
  attempts[1].block = 0;
  const auto conditions = ByCondition(RunOf({}), attempts);
  const auto& metric = *results::FindMetric("ttft");
  const Pairs pairs =
      PairUp(SampleOf(conditions[0], metric), SampleOf(conditions[1], metric), true);
  EXPECT_FALSE(pairs.paired);
  EXPECT_EQ(pairs.why_not, "block 0 holds a condition twice");
  EXPECT_EQ(pairs.treatment.size(), 2);
}

TEST(ParseGuard, TakesStatisticsUnitsAndBlanks) {
  const auto guard = ParseGuard("p95(ttft) <= 2s");
  ASSERT_TRUE(guard.ok()) << guard.error().message();
  EXPECT_EQ(guard->metric, "ttft_ns");
  EXPECT_EQ(guard->statistic, "p95");
  EXPECT_EQ(guard->limit, 2e9);
  EXPECT_EQ(ParseGuard("psi_io_full_us<5ms")->limit, 5000);
  EXPECT_EQ(ParseGuard("page_cache_resident>=0.99")->relation, GuardRelation::kAtLeast);
  for (const char* const bad : {"", "ttft", "ttft<=", "ttft<=5", "x<=5", "p42(ttft)<=1s",
                                "failure_rate<=-1", "failure_rate<=nan"}) {
    EXPECT_FALSE(ParseGuard(bad).ok()) << bad;
  }
}

TEST(JudgeHypotheses, AdoptsOneAloneButNotTwoOfSixPairs) {
  // Six pairs attain 0.03125 two-sided, which is below 0.05 but not below half of it.
  std::vector<Attempt> attempts;
  Add(attempts, "warm", {100, 100, 100, 100, 100, 100});
  Add(attempts, "cold", {201, 202, 203, 204, 205, 206});
  Add(attempts, "colder", {301, 302, 303, 304, 305, 306});
  results::Run run = RunOf({"warm", "cold", "colder"});
  run.hypotheses = {Hypothesis("one", "cold", "increase", "50ms")};
  const auto alone = JudgeHypotheses(run, attempts);
  ASSERT_TRUE(alone.ok()) << alone.error().message();
  EXPECT_EQ(alone->front().verdict, Verdict::kAdopt);
  EXPECT_EQ(alone->front().name, "one");
  run.hypotheses.push_back(Hypothesis("two", "colder", "increase", "50ms"));
  const auto both = JudgeHypotheses(run, attempts);
  ASSERT_TRUE(both.ok());
  EXPECT_EQ((*both)[0].verdict, Verdict::kUndecided);
  EXPECT_EQ((*both)[1].verdict, Verdict::kUndecided);
  EXPECT_THAT((*both)[0].reason, HasSubstr("needs 7"));
}

TEST(JudgeHypotheses, LeavesOneUndecidedWhoseSideHoldsNothing) {
  std::vector<Attempt> attempts;
  Add(attempts, "warm", {100, 100, 100, 100, 100, 100});
  Add(attempts, "cold", {201, 202, 203, 204, 205, 206, 207});
  results::Run run = RunOf({"warm", "cold", "empty"});
  run.hypotheses = {Hypothesis("nothing", "empty", "increase", "50ms")};
  const auto judged = JudgeHypotheses(run, attempts);
  ASSERT_TRUE(judged.ok()) << judged.error().message();
  EXPECT_EQ(judged->front().verdict, Verdict::kUndecided);
  EXPECT_THAT(judged->front().reason, HasSubstr("no attempt of \"empty\""));
  run.hypotheses = {Hypothesis("typo", "wrm", "increase", "50ms")};
  EXPECT_EQ(JudgeHypotheses(run, attempts).error().code(), ErrorCode::kUsage);
}

TEST(Compare, WarnsAboutSeveralLayersAtOnce) {
  std::vector<Attempt> attempts;
  Add(attempts, "warm", {1, 2, 3, 4, 5, 6});
  Add(attempts, "cold", {2, 3, 4, 5, 6, 7});
  results::Run run = RunOf({"warm", "cold"});
  run.conditions[0].state = {{"process", "running"}, {"page_cache", "warm"}};
  run.conditions[1].state = {{"process", "new"}, {"page_cache", "cold"}};
  const auto comparison = Compare({&run, "cold", attempts}, {&run, "warm", attempts}, {});
  ASSERT_TRUE(comparison.ok());
  ASSERT_EQ(comparison->warnings.size(), 1);
  EXPECT_EQ(comparison->warnings[0].code, "several_layers_differ");
  run.conditions[1].state["process"] = "running";
  EXPECT_THAT(Compare({&run, "cold", attempts}, {&run, "warm", attempts}, {})->warnings, IsEmpty());
}

TEST(Compare, SaysAtWhichMarginARejectedClaimWouldNotBeRejected) {
  std::vector<Attempt> attempts;
  Add(attempts, "t", {90, 110, 120, 130, 140, 150});
  Add(attempts, "c", {100, 100, 100, 100, 100, 100});
  const results::Run run = RunOf({"t", "c"});
  ComparisonSpec spec;
  spec.expect = stats::Expect::kIncrease;
  spec.margin = "200ms";
  const auto comparison = Compare({&run, "t", attempts}, {&run, "c", attempts}, spec);
  ASSERT_TRUE(comparison.ok());
  EXPECT_EQ(comparison->verdict, Verdict::kReject);
  EXPECT_EQ(comparison->would_change,
            "At a margin of 50.0 ms or less it would no longer be a reject.");
}

TEST(UndeclaredDifferences, NamesWhatDiffersAndTheDaysBetween) {
  results::Run a = RunOf({});
  results::Run b = RunOf({});
  EXPECT_THAT(UndeclaredDifferences(a, b), IsEmpty());
  a.environment = {{"kernel", "6.1"}, {"cpu", "x"}};
  b.environment = {{"kernel", "6.5"}, {"cpu", "x"}};
  b.model = "other";
  b.started_wall_ns = int64_t{3} * 86'400 * 1'000'000'000;
  const auto warnings = UndeclaredDifferences(a, b);
  ASSERT_EQ(warnings.size(), 3);
  EXPECT_THAT(warnings[0].message, HasSubstr("model"));
  EXPECT_THAT(warnings[1].message, HasSubstr("kernel differs: 6.1 against 6.5"));
  EXPECT_EQ(warnings[2].code, "different_days");
}

TEST(ReportJson, IsValidWithAndWithoutAttempts) {
  std::vector<Attempt> attempts;
  Add(attempts, "warm", {100, 110, 120, 130, 140, 150});
  Add(attempts, "cold", {200, 210, 220, 230, -900, 250});
  results::Run run = RunOf({"warm", "cold"});
  run.conditions[1].base = "warm";
  run.seed = 0xffff'ffff'ffff'ffffU;
  for (const bool with_attempts : {false, true}) {
    const auto json = nlohmann::json::parse(ReportJson(run, attempts, with_attempts));
    EXPECT_EQ(json.at("schema"), "rouse.report/1");
    EXPECT_EQ(json.at("seed"), 0xffff'ffff'ffff'ffffU);
    EXPECT_EQ(json.at("conditions").size(), 2);
    EXPECT_EQ(json.at("contrasts").at(0).at("shift").at("n_treatment"), 6);
    EXPECT_EQ(json.contains("attempts"), with_attempts);
    if (with_attempts) {
      EXPECT_EQ(json.at("attempts").size(), 12);
    }
  }
  EXPECT_TRUE(nlohmann::json::accept(ReportJson(RunOf({}), {}, true)));
}

TEST(ComparisonText, LetsNoNameReachTheTerminalRaw) {
  std::vector<Attempt> attempts;
  const std::string evil = "\x1b]0;owned\x07";
  Add(attempts, evil, {1, 2, 3, 4, 5, 6});
  Add(attempts, "b", {1, 2, 3, 4, 5, 6});
  const results::Run run = RunOf({});
  const auto comparison = Compare({&run, evil, attempts}, {&run, "b", attempts}, {});
  ASSERT_TRUE(comparison.ok());
  EXPECT_THAT(ComparisonText(*comparison, {}), Not(HasSubstr("\x1b")));
}

TEST(FitText, CutsToColumnsAndDisarmsWhatIsHarmful) {
  EXPECT_EQ(FitText("abcdef", 6), "abcdef");
  EXPECT_EQ(FitText("abcdefg", 6), "abc...");
  EXPECT_EQ(FitText("a\x1b[31m\n", 10), "a?[31m?");
  EXPECT_EQ(FitText("a\xff\xc3", 10), "a??");
  EXPECT_EQ(FitText("a\xe2\x80\xae"
                    "b",
                    10),
            "a?b");  // right-to-left override
  EXPECT_EQ(FitText("\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", 5),
            "\xe6\x97\xa5...");  // 2 columns each
  EXPECT_EQ(FitText("abc", 2), "ab");
  EXPECT_EQ(FitText("", 5), "");
}

TEST(TraceJson, IsValidForAnAttemptWithoutAnything) {
  EXPECT_TRUE(nlohmann::json::accept(TraceJson(std::vector<Attempt>(1))));
  EXPECT_TRUE(nlohmann::json::accept(TraceJson({})));
}

TEST(AttemptsCsv, AddsCountersThatOnlyAnImportKnows) {
  std::vector<Attempt> attempts;
  Add(attempts, "a", {1, 2});
  attempts[1].counters["my_counter"] = results::MetricValue(1.5);
  const std::string text = AttemptsCsv(attempts);
  EXPECT_THAT(text, HasSubstr("page_cache_resident_ratio,my_counter\r\n"));
  EXPECT_THAT(text, HasSubstr(",1.5\r\n"));
}

}  // namespace
}  // namespace rouse::report
