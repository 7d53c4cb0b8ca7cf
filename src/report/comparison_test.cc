#include "report/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/comparison_text.h"
#include "report/csv.h"
#include "report/differences.h"
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

std::string PlanOf(const std::string& prompt, const std::string& context) {
  return "[experiment]\nprompt = " + prompt + "\n\n[target]\ncontext = " + context + "\n";
}

struct Two {
  results::Run t;
  results::Run c;
  std::vector<Attempt> ta;
  std::vector<Attempt> ca;

  Two() {
    for (results::Run* const run : {&t, &c}) {
      run->model = "m.gguf";
      run->plan_toml = PlanOf("\"hello\"   # short", "2048");
      run->environment = {{"kernel", "6.1"}, {"boot_id", "x"}, {"model_sha256", "aa"}};
    }
    t.id = 1;
    c.id = 2;
    for (int64_t block = 0; block < 6; ++block) {
      for (std::vector<Attempt>* const attempts : {&ta, &ca}) {
        Attempt attempt;
        attempt.condition = "warm";
        attempt.block = block;
        attempt.api = "openai-chat";
        attempt.ttft_ns = 1'000'000 * (block + 1);
        attempt.tokens.prompt = 40;
        attempts->push_back(attempt);
      }
    }
  }
  Result<Comparison> With(std::optional<stats::Expect> expect,
                          std::vector<std::string> differs = {}) const {
    ComparisonSpec spec;
    spec.expect = expect;
    spec.margin = expect ? "10%" : "";
    spec.differs = std::move(differs);
    return Compare({&t, "warm", ta}, {&c, "warm", ca}, spec);
  }
};

TEST(UndeclaredDifferences, OfEqualRunsAreNone) {
  Two two;
  two.c.environment["boot_id"] = "y";  // a restart alone means nothing
  const Result<Comparison> comparison = two.With(stats::Expect::kEqual);
  ASSERT_TRUE(comparison.ok());
  EXPECT_THAT(comparison->warnings, IsEmpty());
}

TEST(UndeclaredDifferences, InTheMachineAndTheDaysAreWarnings) {
  Two two;
  two.c.environment["kernel"] = "6.6";
  two.c.rouse_version = "0.2.0";
  two.c.environment["memory_bytes"] = "7";  // on one side only
  two.t.started_wall_ns = 90'000'000'000'000;
  const Result<Comparison> comparison = two.With(stats::Expect::kEqual);
  ASSERT_TRUE(comparison.ok());
  ASSERT_EQ(comparison->warnings.size(), 4U);
  EXPECT_EQ(comparison->warnings[1].message, "kernel differs: 6.1 against 6.6");
  EXPECT_EQ(comparison->warnings[3].code, "different_days");
}

TEST(UndeclaredDifferences, InTheWorkRefuseAVerdict) {
  const std::vector<std::pair<std::string, std::function<void(Two&)>>> kinds = {
      {"model", [](Two& two) { two.c.model = "other.gguf"; }},
      {"model_sha256", [](Two& two) { two.c.environment["model_sha256"] = "bb"; }},
      {"prompt", [](Two& two) { two.c.plan_toml = PlanOf("\"bye\"", "2048"); }},
      {"context", [](Two& two) { two.c.plan_toml = PlanOf("\"hello\"", "4096"); }},
      {"api",
       [](Two& two) {
         for (Attempt& a : two.ca) a.api = "openai-completions";
       }},
      {"prompt_tokens",
       [](Two& two) {
         for (Attempt& a : two.ca) a.tokens.prompt = 400;
       }},
  };
  EXPECT_EQ(kinds.size(), DecisiveNames().size());
  for (const auto& [name, change] : kinds) {
    Two two;
    change(two);
    const Result<Comparison> refused = two.With(stats::Expect::kEqual);
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.error().code(), ErrorCode::kUsage);
    EXPECT_THAT(refused.error().message(), HasSubstr("--differs " + name));
    const Result<Comparison> shown = two.With(std::nullopt);
    ASSERT_TRUE(shown.ok()) << name;
    EXPECT_EQ(shown->warnings.size(), 1U) << name;
    const Result<Comparison> declared = two.With(stats::Expect::kEqual, {name});
    ASSERT_TRUE(declared.ok()) << name;
    EXPECT_THAT(declared->warnings, IsEmpty());
  }
}

TEST(UndeclaredDifferences, InAPromptAreFoundHoweverItIsWritten) {
  const std::vector<std::pair<std::string, std::string>> kinds = {
      {R"("say \"a\" then b")", R"("say \"a\" then c")"},
      {"\"\"\"\nOne\ntwo.\n\"\"\"", "\"\"\"\nOne\nthree.\n\"\"\""},
      {"'''One\ntwo'''", "'''One\nthree'''"},
      {"\"\"\"\nOne\ncontext = 1\n\"\"\"", "\"\"\"\nOne\ncontext = 2\n\"\"\""}};
  for (const auto& [t, c] : kinds) {
    Two two;
    two.t.plan_toml = PlanOf(t, "2048");
    two.c.plan_toml = PlanOf(c, "2048");
    const Result<Comparison> refused = two.With(stats::Expect::kEqual);
    ASSERT_FALSE(refused.ok()) << t;
    EXPECT_THAT(refused.error().message(), HasSubstr("prompt differs: \""));
    EXPECT_THAT(refused.error().message(), Not(HasSubstr("context differs")));
  }
  Two same;  // written in another way
  same.t.plan_toml = PlanOf("\"\"\"\nOne\\ttwo\"\"\"", "2_048");
  same.c.plan_toml = PlanOf("'One\ttwo'", "2048  # tokens");
  EXPECT_TRUE(same.With(stats::Expect::kEqual).ok());
}

TEST(UndeclaredDifferences, OfALongPromptAreShownWhereTheyBegin) {
  Two two;
  const std::string alike(500, 'x');
  two.t.plan_toml = PlanOf("\"" + alike + "one\"", "2048");
  two.c.plan_toml = PlanOf("\"" + alike + "two\"", "2048");
  const Result<Comparison> shown = two.With(std::nullopt);
  ASSERT_TRUE(shown.ok());
  const std::string before = "\"..." + alike.substr(0, 20);
  EXPECT_EQ(shown->warnings[0].message,
            "prompt differs: " + before + "one\" against " + before + "two\"");
}

TEST(UndeclaredDifferences, OfAModelAreDeclaredTogether) {
  Two two;
  two.c.model = "other.gguf";
  two.c.environment["model_sha256"] = "bb";
  EXPECT_TRUE(two.With(stats::Expect::kEqual, {"model"}).ok());
}

TEST(UndeclaredDifferences, AgainstARunThatDoesNotTellAreWarnings) {
  Two two;
  two.c.model.clear();
  two.c.plan_toml.clear();
  two.c.environment.clear();
  EXPECT_TRUE(two.With(stats::Expect::kEqual).ok());
}

TEST(UndeclaredDifferences, OfAFewTokensAreASalt) {
  Two two;
  for (Attempt& attempt : two.ca) attempt.tokens.prompt = 45;
  EXPECT_TRUE(two.With(stats::Expect::kEqual).ok());
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
