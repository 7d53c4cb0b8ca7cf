#include "lab/storage_tiers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace rouse::lab {
namespace {

using testing::HasSubstr;

Result<Plan> StoragePlan(const std::vector<std::string>& paths) {
  Result<Plan> plan = ParsePlan(FindPreset("storage")->toml, "preset storage");
  if (!plan.ok()) return plan;
  PlanOverrides overrides;
  overrides.paths = paths;
  RETURN_IF_ERROR(ApplyOverrides(overrides, *plan));
  RETURN_IF_ERROR(AddPathConditions(*plan));
  return plan;
}

TEST(StorageTiers, AddsOneConditionForEachPathOnTheSameBase) {
  const Result<Plan> plan = StoragePlan({"disk=/var/tmp", "ram=/dev/shm"});
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  ASSERT_EQ(plan->conditions.size(), 3U);
  EXPECT_EQ(plan->conditions[1].name, "cold from disk");
  EXPECT_EQ(plan->conditions[1].base, "cold where it is");
  EXPECT_EQ(plan->conditions[1].changed, "path");
  EXPECT_EQ(plan->conditions[2].path, "ram");
  EXPECT_EQ(plan->conditions[1].Value(Layer::kPageCache), "cold");
  EXPECT_EQ(plan->conditions[2].Value(Layer::kPageCache), "warm") << "/dev/shm is memory";
  EXPECT_TRUE(plan->conditions[2].compound);
  const Result<Plan> again = ParsePlan(plan->toml, "stored");
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(PlanHash(*again), PlanHash(*plan));
}

TEST(StorageTiers, AsksForAPathWhenThereIsNone) {
  const Result<Plan> plan = StoragePlan({});
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(plan.error().message(), HasSubstr("--path NAME=DIR"));
}

TEST(StorageTiers, MeasuresEveryDepthAndLeavesNothingBehind) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("rouse-tier-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const Result<TierReport> report = ProbeTier(folder.string(), 1, {});
  ASSERT_TRUE(report.ok()) << report.error().message();
  ASSERT_EQ(report->depths.size(), 3U);
  for (const TierDepth& each : report->depths) EXPECT_GT(each.bytes_per_second, 0) << each.depth;
  EXPECT_FALSE(report->storage.empty());
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_EQ(TierFacts("x", *report).size(), 5U);
  int asked = 0;
  const Result<TierReport> cut = ProbeTier(folder.string(), 1, [&] { return ++asked > 3; });
  EXPECT_EQ(cut.error().code(), ErrorCode::kInterrupted);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(ProbeTier(folder.string(), 1, {}).ok()) << "no such directory";
}

}  // namespace
}  // namespace rouse::lab
