#include "lab/storage_tiers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace rouse::lab {
namespace {

using testing::HasSubstr;

Result<Plan> StoragePlan(const std::vector<std::string>& paths, std::vector<LeftOut>& left_out) {
  Result<Plan> plan = ParsePlan(FindPreset("storage")->toml, "preset storage");
  if (!plan.ok()) return plan;
  PlanOverrides overrides;
  overrides.paths = paths;
  RETURN_IF_ERROR(ApplyOverrides(overrides, *plan));
  RETURN_IF_ERROR(AddPathConditions(*plan, left_out));
  return plan;
}

TEST(StorageTiers, AddsOneConditionForEachPathOnTheSameBase) {
  std::vector<LeftOut> left_out;
  const Result<Plan> plan = StoragePlan({"disk=/var/tmp", "ram=/dev/shm"}, left_out);
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

TEST(StorageTiers, WithoutAPathAreMemoryAndSimulatedDisksOrTheReasonWhyNot) {
  std::vector<LeftOut> left_out;
  const Result<Plan> plan = StoragePlan({}, left_out);
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  ASSERT_GE(plan->conditions.size() + left_out.size(), 3U);
  for (const Condition& each : plan->conditions) {
    if (each.path.empty()) continue;
    const bool simulated = plan->target.paths.at(each.path).starts_with(kSimulatedPrefix);
    EXPECT_EQ(each.name.starts_with("simulated "), simulated) << each.name;
    EXPECT_EQ(each.Value(Layer::kPageCache), simulated ? "cold" : "warm") << each.name;
  }
  for (const LeftOut& each : left_out) EXPECT_FALSE(each.reason.empty()) << each.name;
  EXPECT_EQ(plan->target.paths.size() + 1, plan->conditions.size());
}

TEST(StorageTiers, ASimulatedDiskThatIsNotPermittedIsLeftOutAndTheOthersStay) {
  std::vector<LeftOut> left_out;
  const Result<Plan> plan =
      StoragePlan({"disk=/var/tmp", "slow=simulated:20MB/s@/nonexistent"}, left_out);
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  ASSERT_EQ(plan->conditions.size(), 2U);
  EXPECT_EQ(plan->conditions[1].path, "disk");
  ASSERT_EQ(left_out.size(), 1U);
  EXPECT_EQ(left_out[0].name, "simulated slow");
  EXPECT_THAT(left_out[0].reason, HasSubstr("/nonexistent"));
  EXPECT_FALSE(plan->target.paths.contains("slow"));
}

TEST(StorageTiers, AreRefusedOnAServerThatRouseDoesNotStart) {
  std::vector<LeftOut> left_out;
  Plan plan;
  plan.target.kind = TargetKind::kUrl;
  plan.conditions.emplace_back();
  const Status status = AddPathConditions(plan, left_out);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("let rouse start it"));
}

TEST(StorageTiers, AReportOfAnotherProcessIsReadAsItWasWritten) {
  TierReport report;
  report.storage = "ext4";
  report.how = "O_DIRECT";
  report.depths = {{1, 5}, {4, 6}};
  const Result<TierReport> read = ParseTierReport(TierReportJson(report));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->how, "O_DIRECT");
  ASSERT_EQ(read->depths.size(), 2U);
  EXPECT_EQ(read->depths[1].bytes_per_second, 6);
  EXPECT_EQ(ParseTierReport("{\"error\": \"no space\"}").error().message(), "no space");
  EXPECT_FALSE(ParseTierReport("").ok());
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
