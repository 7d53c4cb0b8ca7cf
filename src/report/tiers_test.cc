#include "report/tiers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rouse::report {
namespace {

using testing::HasSubstr;
using testing::Not;

results::Run RunWithTiers() {
  results::Run run;
  run.environment = {{"tier_hdd_storage", "ext4 on /dev/vdb"},
                     {"tier_hdd_how", "O_DIRECT"},
                     {"tier_hdd_depth1_bytes_per_second", "80000000"},
                     {"tier_hdd_depth16_bytes_per_second", "200000000"}};
  results::ConditionRow here;
  here.name = "cold where it is";
  results::ConditionRow hdd;
  hdd.name = "cold from hdd";
  hdd.state["path"] = "hdd";
  run.conditions = {here, hdd};
  return run;
}

results::Attempt Cold(int64_t read_ms) {
  results::Attempt attempt;
  attempt.condition = "cold from hdd";
  attempt.lanes = {{"weights", 0, 1, 100'000'000},
                   {"reader", 1'000'000, (read_ms + 1) * 1'000'000, 100'000'000}};
  return attempt;
}

TEST(Tiers, SetsWhatTheLoadGotBesideTheBestOfTheTier) {
  // 100 MB in 1 s (the median) of a tier that gives 200 MB/s at its best depth.
  const std::vector<results::Attempt> attempts = {Cold(500), Cold(1000), Cold(4000)};
  const nlohmann::json json = nlohmann::json::parse(TiersJson(RunWithTiers(), attempts));
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0]["possible_bytes_per_second"], 200000000);
  EXPECT_EQ(json[0]["achieved_bytes_per_second"], 100000000);
  EXPECT_EQ(json[0]["achieved_ratio"], 0.5);
  EXPECT_EQ(json[0]["depths"].size(), 2U);
  EXPECT_EQ(json[0]["simulated"], false);
  EXPECT_TRUE(json[0]["limit_bytes_per_second"].is_null());
  EXPECT_THAT(RenderTiers(RunWithTiers(), attempts, 80),
              HasSubstr("the load got 100 MB/s, 50 % of the best of these"));
}

TEST(Tiers, CallASimulatedDiskSimulatedAndFitTheTerminal) {
  results::Run run = RunWithTiers();
  run.environment["tier_hdd_simulated_bytes_per_second"] = "200000000";
  const nlohmann::json json = nlohmann::json::parse(TiersJson(run, {}));
  EXPECT_EQ(json[0]["simulated"], true);
  EXPECT_EQ(json[0]["limit_bytes_per_second"], 200000000);
  EXPECT_THAT(RenderTiers(run, {}, 80), Not(HasSubstr("faster than its limit")));
  run.environment["tier_hdd_depth16_bytes_per_second"] = "260000000";
  EXPECT_THAT(RenderTiers(run, {}, 80), HasSubstr("faster than its limit"));
  const std::string text = RenderTiers(run, {}, 40);
  EXPECT_THAT(text, HasSubstr("hdd (simulated: reads limited to"));
  size_t start = text.find("hdd");  // below the title
  for (size_t end = text.find('\n', start); end != text.npos; end = text.find('\n', start)) {
    EXPECT_LE(end - start, 40U) << text.substr(start, end - start);
    start = end + 1;
  }
}

TEST(Tiers, SaysNothingOfRunsWithoutTiersAndNotKnownWithoutALane) {
  EXPECT_EQ(TiersJson(results::Run(), {}), "null");
  EXPECT_EQ(RenderTiers(results::Run(), {}, 80), "");
  EXPECT_THAT(RenderTiers(RunWithTiers(), {}, 80), HasSubstr("is not known"));
  EXPECT_TRUE(nlohmann::json::parse(TiersJson(RunWithTiers(), {}))[0]["achieved_ratio"].is_null());
}

}  // namespace
}  // namespace rouse::report
