#include "lab/effect.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/check.h"
#include "lab/plan_adapt.h"

namespace rouse::lab {
namespace {

Plan TwoConditions(const std::string& more = "") {
  Result<Plan> plan = ParsePlan(
      "[experiment]\nname = \"x\"\nrepeat = 12\n[[condition]]\nname = \"a\"\n"
      "[[condition]]\nname = \"b\"\nbase = \"a\"\nidle = \"1s\"\n" +
          more,
      "plan.toml");
  CHECK(plan.ok());
  return *std::move(plan);
}

results::Attempt Of(const std::string& condition, int64_t block, int64_t ttft_ms) {
  results::Attempt attempt;
  attempt.condition = condition;
  attempt.block = block;
  attempt.ttft_ns = ttft_ms * 1'000'000;
  return attempt;
}

// Differences 10, 20, 30, 40 ms (standard deviation 12.91), controls around 100 ms.
Pilot FourPairs() {
  Pilot pilot{.run = 7, .attempts = {}};
  for (int64_t block = 0; block < 4; ++block) {
    pilot.attempts.push_back(Of("a", block, 100));
    pilot.attempts.push_back(Of("b", block, 110 + 10 * block));
  }
  return pilot;
}

TEST(SmallestEffects, ComeFromThePairsOfAPilot) {
  const auto effects = SmallestEffects(TwoConditions(), FourPairs(), std::nullopt);
  ASSERT_EQ(effects.size(), 1U);
  EXPECT_EQ(effects[0].treatment, "b");
  EXPECT_EQ(effects[0].control, "a");
  EXPECT_EQ(effects[0].n, 12);
  // (1.95996 + 0.84162) * 12.90994 ms * sqrt(pi / 3 / 12), by hand.
  EXPECT_NEAR(static_cast<double>(effects[0].ns.value_or(0)), 10.6845e6, 1e4);
  EXPECT_NEAR(effects[0].ratio.value_or(0), 0.106845, 1e-4);
  EXPECT_EQ(effects[0].source, "run 7, 4 pairs");
}

TEST(SmallestEffects, LeaveOutPrimesAndFailures) {
  Pilot pilot = FourPairs();
  pilot.attempts[0].prime = true;
  pilot.attempts[3].outcome = results::Outcome::kTimeout;
  const auto effects = SmallestEffects(TwoConditions(), pilot, std::nullopt);
  EXPECT_FALSE(effects[0].ratio.has_value());
  EXPECT_EQ(effects[0].why_not, "run 7 has 2 pairs of them, at least 3 are needed");
}

TEST(SmallestEffects, ComeFromAStatedSpreadFirst) {
  const auto effects = SmallestEffects(TwoConditions(), FourPairs(), 0.1);
  // (1.95996 + 0.84162) * 0.1 * sqrt(2) * sqrt(pi / 3 / 12), by hand.
  EXPECT_NEAR(effects[0].ratio.value_or(0), 0.117041, 1e-5);
  EXPECT_FALSE(effects[0].ns.has_value());
  EXPECT_EQ(effects[0].source, "a stated spread of 10 %");
}

TEST(SmallestEffects, SayWhatIsMissing) {
  Plan plan = TwoConditions();
  EXPECT_NE(SmallestEffects(plan, std::nullopt, std::nullopt)[0].why_not.find("--spread 10%"),
            std::string::npos);
  plan.conditions[1].repeat = 5;
  EXPECT_EQ(SmallestEffects(plan, FourPairs(), 0.1)[0].why_not,
            "n = 5 has no interval: at least 6 are needed");
}

TEST(SmallestEffects, AreOfTheHypothesesWhereThereAreAny) {
  const Plan plan = TwoConditions(
      "[[hypothesis]]\nname = \"h\"\ntreatment = \"a\"\ncontrol = \"b\"\nexpect = \"decrease\"\n"
      "margin = \"10%\"\n[[hypothesis]]\nname = \"bytes\"\nmetric = \"target_read_bytes\"\n"
      "treatment = \"a\"\ncontrol = \"b\"\nexpect = \"decrease\"\nmargin = \"10%\"\n");
  const auto effects = SmallestEffects(plan, std::nullopt, 0.1);
  ASSERT_EQ(effects.size(), 1U);
  EXPECT_EQ(effects[0].treatment, "a");
  EXPECT_DOUBLE_EQ(effects[0].confidence, 0.975);  // the two are judged together
}

// Those of one night are few on purpose; the others are meant to decide.
TEST(SmallestEffects, CanBeSeenByTheNumberOfAttemptsOfPresetsThatDecide) {
  for (const char* const name : {"quick", "layers", "prompt", "load", "kv"}) {
    const Preset preset = *FindPreset(name);
    const Result<AdaptedPlan> adapted = PlanFromPreset(preset, {});
    ASSERT_TRUE(adapted.ok());
    for (const SmallestEffect& effect : SmallestEffects(adapted->plan, std::nullopt, 0.1)) {
      EXPECT_TRUE(effect.ratio.has_value()) << preset.name << ": " << effect.why_not;
    }
  }
}

}  // namespace
}  // namespace rouse::lab
