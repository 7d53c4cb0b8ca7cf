#include "lab/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace rouse::lab {
namespace {

Plan QuickPlan() {
  const Result<Preset> preset = FindPreset("quick");
  CHECK(preset.ok());
  Result<Plan> plan = ParsePlan(preset->toml, "quick");
  CHECK(plan.ok());
  return *std::move(plan);
}

std::vector<size_t> Order(const std::vector<ScheduledAttempt>& schedule) {
  std::vector<size_t> order;
  for (const ScheduledAttempt& attempt : schedule) {
    if (!attempt.prime) order.push_back(attempt.condition);
  }
  return order;
}

DryRun Shown(std::vector<ScheduledAttempt> schedule, int64_t eta_ns) {
  return {
      .seed = 5, .schedule = std::move(schedule), .eta_ns = eta_ns, .effects = {}, .left_out = {}};
}

// Published outputs of SplitMix64 for seed 1234567 (Rosetta Code's task of that name).
TEST(SplitMix64, GivesThePublishedSequence) {
  SplitMix64 random(1234567);
  EXPECT_EQ(random.Next(), 6457827717110365317U);
  EXPECT_EQ(random.Next(), 3203168211198807973U);
  EXPECT_EQ(random.Next(), 9817491932198370423U);
  EXPECT_EQ(random.Next(), 4593380528125082431U);
  EXPECT_EQ(random.Next(), 16408922859458223821U);
}

TEST(SplitMix64, DrawsEveryValueBelowTheBoundAboutEquallyOften) {
  SplitMix64 random(1);
  std::map<uint64_t, int> seen;
  for (int i = 0; i < 60'000; ++i) ++seen[random.Below(6)];
  ASSERT_EQ(seen.size(), 6U);
  // 10,000 expected, standard deviation 91: 500 is more than five of them.
  for (const auto& [value, count] : seen) EXPECT_NEAR(count, 10'000, 500) << value;
}

TEST(Schedule, IsTheSameForTheSameSeedOnEveryMachine) {
  const Plan plan = QuickPlan();
  const std::vector<size_t> order = Order(MakeSchedule(plan, 4711));
  ASSERT_EQ(order.size(), 30U);
  // Frozen, and computed by a second implementation in Python: a change here changes the meaning of
  // every stored seed.
  const std::vector<size_t> first_two_blocks = {1, 2, 4, 0, 3, 0, 1, 3, 4, 2};
  EXPECT_TRUE(std::equal(first_two_blocks.begin(), first_two_blocks.end(), order.begin()))
      << testing::PrintToString(order);
  EXPECT_NE(order, Order(MakeSchedule(plan, 4712)));
}

TEST(Schedule, HoldsEachConditionOnceInEachBlockAfterOnePrime) {
  const std::vector<ScheduledAttempt> schedule = MakeSchedule(QuickPlan(), 7);
  ASSERT_EQ(schedule.size(), 31U);
  EXPECT_TRUE(schedule[0].prime);
  EXPECT_FALSE(schedule[0].position.has_value());
  EXPECT_EQ(schedule[0].condition, 0U);
  std::map<int64_t, std::vector<size_t>> blocks;
  int64_t position = 0;
  for (size_t i = 1; i < schedule.size(); ++i) {
    EXPECT_FALSE(schedule[i].prime);
    EXPECT_EQ(schedule[i].position, position++);
    blocks[schedule[i].block].push_back(schedule[i].condition);
  }
  ASSERT_EQ(blocks.size(), 6U);
  for (auto& [block, conditions] : blocks) {
    std::sort(conditions.begin(), conditions.end());
    EXPECT_EQ(conditions, (std::vector<size_t>{0, 1, 2, 3, 4})) << block;
  }
}

TEST(Schedule, GivesAConditionWithFewerRepeatsPlaceInTheFirstBlocksOnly) {
  Plan plan = QuickPlan();
  plan.conditions[4].repeat = 2;
  std::map<int64_t, size_t> sizes;
  for (const ScheduledAttempt& attempt : MakeSchedule(plan, 7)) {
    if (!attempt.prime) ++sizes[attempt.block];
  }
  EXPECT_EQ(sizes, (std::map<int64_t, size_t>{{0, 5}, {1, 5}, {2, 4}, {3, 4}, {4, 4}, {5, 4}}));
}

TEST(Schedule, PutsEveryConditionAtEveryPlaceOfABlockAboutEquallyOften) {
  Plan plan = QuickPlan();
  plan.repeat = 1;
  std::map<std::pair<size_t, size_t>, int> seen;
  for (uint64_t seed = 0; seed < 5'000; ++seed) {
    const std::vector<size_t> order = Order(MakeSchedule(plan, seed));
    for (size_t place = 0; place < order.size(); ++place) ++seen[{order[place], place}];
  }
  ASSERT_EQ(seen.size(), 25U);
  // 1,000 expected, standard deviation 28.
  for (const auto& [key, count] : seen) EXPECT_NEAR(count, 1'000, 150);
}

TEST(Schedule, AddsIdleTimesToItsEstimate) {
  Plan plan = QuickPlan();
  plan.repeat = 1;
  const std::vector<ScheduledAttempt> schedule = MakeSchedule(plan, 1);
  const int64_t before = EstimateRunNs(plan, schedule, 98'000'000);
  plan.conditions[1].idle_ns = 600'000'000'000;
  EXPECT_EQ(EstimateRunNs(plan, schedule, 98'000'000) - before, 600'000'000'000);
  EXPECT_LT(before, 60'000'000'000);
}

TEST(Schedule, PrintsItselfAsJson) {
  Plan plan = QuickPlan();
  plan.conditions[1].name = "say \"hit\"\n\x01";
  const std::vector<ScheduledAttempt> schedule = MakeSchedule(plan, 5);
  const auto json = nlohmann::json::parse(ScheduleJson(plan, Shown(schedule, 123)));
  EXPECT_EQ(json["schema"], "rouse.schedule/1");
  EXPECT_EQ(json["seed"], 5);
  EXPECT_EQ(json["eta_ns"], 123);
  EXPECT_EQ(json["plan_hash"], PlanHash(plan));
  ASSERT_EQ(json["attempts"].size(), 30U);
  EXPECT_EQ(json["attempts"][0]["block"], 0);
  EXPECT_EQ(json["attempts"][29]["position"], 29);
  const auto hits =
      std::count_if(json["attempts"].begin(), json["attempts"].end(),
                    [&](const auto& each) { return each["condition"] == plan.conditions[1].name; });
  EXPECT_EQ(hits, 6);
}

TEST(Schedule, TellsPeopleEveryStateAndItsProof) {
  const Plan plan = QuickPlan();
  const std::string text = ScheduleText(plan, Shown(MakeSchedule(plan, 5), 40'000'000'000));
  EXPECT_NE(text.find("seed 5"), std::string::npos);
  EXPECT_NE(text.find("page_cache = cold"), std::string::npos);
  EXPECT_NE(text.find("cachestat"), std::string::npos);
  EXPECT_NE(text.find("base process new, changes page_cache"), std::string::npos);
  EXPECT_NE(text.find("Nothing was run."), std::string::npos);
  EXPECT_EQ(text.find("memory_pressure"), std::string::npos);
}

TEST(Schedule, DrawsShortSeedsThatDiffer) {
  const uint64_t first = DrawSeed();
  bool differs = false;
  for (int i = 0; i < 20; ++i) {
    const uint64_t seed = DrawSeed();
    EXPECT_GE(seed, 1U);
    EXPECT_LE(seed, 999'999U);
    differs = differs || seed != first;
  }
  EXPECT_TRUE(differs);
}

}  // namespace
}  // namespace rouse::lab
