#include "explain/contrasts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "explain/explain.h"
#include "explain/test_attempts.h"

namespace rouse::explain {
namespace {

using results::Attempt;
using testing::HasSubstr;

struct Data {
  results::Run run;
  std::vector<Attempt> attempts;
};

// "usual" is the loading server, "cold" differs in the page cache only.
Data TwoConditions() {
  Data data;
  data.run.id = 3;
  data.run.target = "builtin";
  data.run.kind = "measure";
  data.run.environment["model_bytes"] = std::to_string(kFileBytes);
  data.run.conditions.push_back(Condition("usual", "", "page_cache", "warm"));
  data.run.conditions.push_back(Condition("cold", "usual", "page_cache", "cold"));
  data.attempts = SixOf(Loading);
  for (Attempt& attempt : SixOf(ColdLoading, "cold")) data.attempts.push_back(std::move(attempt));
  int64_t id = 0;
  for (Attempt& attempt : data.attempts) attempt.id = ++id;
  return data;
}

Contrast OnlyContrast(const Data& data) {
  const std::vector<Contrast> contrasts = FindContrasts(data.run, data.attempts);
  EXPECT_EQ(contrasts.size(), 1U);
  return contrasts.front();
}

TEST(Contrasts, OneLayerThatWasReadBackIsProved) {
  const Contrast contrast = OnlyContrast(TwoConditions());
  EXPECT_EQ(contrast.grade, Grade::kProved) << contrast.why_not_proved;
  EXPECT_NEAR(contrast.cost.value.value(), 180e6, 1e6);
  EXPECT_TRUE(contrast.cost.paired);
  ASSERT_FALSE(contrast.attribution.claims.empty());
  EXPECT_EQ(contrast.attribution.claims.front().cause, CauseId::kPageCacheCold);
}

TEST(Contrasts, AreTitledByWhatTheRequestMet) {
  const auto title_of = [](const std::string& layer, const std::string& value) {
    Data data = TwoConditions();
    data.run.conditions[1] = Condition("other", "usual", layer, value);
    return OnlyContrast(data).title;
  };
  EXPECT_EQ(title_of("page_cache", "cold"), "the model's file was not in the page cache");
  EXPECT_EQ(title_of("page_cache", "0.5"), "only 50 % of the model's file were in the page cache");
  EXPECT_EQ(title_of("page_cache", "locked"), "the file's pages were locked in memory");
  EXPECT_EQ(title_of("model", "unloaded"), "the model was not loaded");
  EXPECT_EQ(title_of("model", "asleep"), "the model was asleep");
}

TEST(Contrasts, ALayerWithoutProofInOneAttemptIsNotProved) {
  Data data = TwoConditions();
  data.attempts[7].state_at_send["page_cache"].reached.reset();
  data.attempts[7].state_before.erase("page_cache");
  const Contrast contrast = OnlyContrast(data);
  EXPECT_EQ(contrast.grade, Grade::kCosts);
  EXPECT_EQ(contrast.why_not_proved, "page_cache was not read back in 1 of 12 attempts");
}

TEST(Contrasts, ACompoundChangeIsNotProved) {
  Data data = TwoConditions();
  data.run.conditions[1].compound = true;
  EXPECT_EQ(OnlyContrast(data).grade, Grade::kCosts);
}

TEST(Contrasts, AnotherLayerThatDiffersAsWellIsNotProved) {
  Data data = TwoConditions();
  for (size_t i = 6; i < 12; ++i) {
    data.attempts[i].state_at_send["process"] = Reading("none", "", "pid and start time");
  }
  const Contrast contrast = OnlyContrast(data);
  EXPECT_EQ(contrast.grade, Grade::kCosts);
  EXPECT_THAT(contrast.why_not_proved, HasSubstr("process none (running in the base)"));
}

TEST(Contrasts, AnIntervalThatHoldsZeroIsNoCost) {
  Data data = TwoConditions();
  for (size_t i = 6; i < 12; ++i) data.attempts[i].ttft_ns = data.attempts[i - 6].ttft_ns;
  data.attempts[6].ttft_ns = 500 * kMs;
  EXPECT_EQ(OnlyContrast(data).grade, Grade::kNoCost);
}

TEST(Contrasts, TooFewAttemptsAreUndecided) {
  Data data = TwoConditions();
  data.attempts.erase(data.attempts.begin() + 8, data.attempts.end());
  const Contrast contrast = OnlyContrast(data);
  EXPECT_EQ(contrast.grade, Grade::kUndecided);
  EXPECT_EQ(contrast.cost.ci, std::nullopt);
}

TEST(Contrasts, AWarmerConditionTellsWhatItsBaseLacks) {
  Data data;
  data.run.conditions.push_back(Condition("usual", "", "prefix_cache", "empty"));
  data.run.conditions.push_back(Condition("hit", "usual", "prefix_cache", "hit"));
  data.attempts = SixOf(Healthy);
  for (Attempt& attempt : SixOf(Healthy, "hit")) {
    attempt.state_after["prefix_cache"] = Reading("hit", "hit", "cached tokens of the answer");
    attempt.tokens.cached = 44;
    AddStage(attempt, results::Stage::kPrefill, -80);
    data.attempts.push_back(std::move(attempt));
  }
  const Contrast contrast = OnlyContrast(data);
  EXPECT_EQ(contrast.condition, "usual");
  EXPECT_EQ(contrast.base, "hit");
  EXPECT_EQ(contrast.grade, Grade::kProved) << contrast.why_not_proved;
  EXPECT_NEAR(contrast.cost.value.value(), 80e6, 1e6);
}

TEST(Contrasts, IdlingNamesTheLayersThatItLostWithoutCallingThemTheCause) {
  Data data;
  data.run.id = 1;
  data.run.conditions.push_back(Condition("usual"));
  data.run.conditions.push_back(Condition("idle 10 min", "usual", "idle", "", 600'000 * kMs));
  data.attempts = SixOf(Healthy);
  for (Attempt& attempt : SixOf(Loading, "idle 10 min")) {
    attempt.idle_ns = 600'000 * kMs;
    data.attempts.push_back(std::move(attempt));
  }
  const Contrast contrast = OnlyContrast(data);
  EXPECT_EQ(contrast.layer, "idle");
  EXPECT_EQ(contrast.grade, Grade::kProved);
  EXPECT_EQ(contrast.title, "nothing was asked for 10 min");
  EXPECT_THAT(contrast.lost_layers, testing::ElementsAre("model unloaded (loaded in the base)"));
}

TEST(Contrasts, AFailureIsLaterThanEveryAnswer) {
  Data data = TwoConditions();
  for (size_t i = 6; i < 12; ++i) {
    data.attempts[i].outcome = results::Outcome::kTimeout;
    data.attempts[i].ttft_ns.reset();
  }
  const Contrast contrast = OnlyContrast(data);
  EXPECT_EQ(contrast.failures, 6);
  EXPECT_TRUE(std::isinf(contrast.cost.value.value()));
  // Prints, and as JSON, without an infinity.
  const Result<RunExplanation> run = ExplainRun(data.run, data.attempts);
  ASSERT_TRUE(run.ok());
  EXPECT_THAT(ExplanationText(*run), HasSubstr("not known"));
  EXPECT_THAT(ExplanationJson(*run), HasSubstr("\"cost_ns\":null"));
}

}  // namespace
}  // namespace rouse::explain
