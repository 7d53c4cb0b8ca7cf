#include "lab/idle_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/fakes.h"
#include "os/fake_root.h"

namespace rouse::lab {
namespace {

using results::Attempt;
using testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20U;

Condition Warm() {
  return Bench::ParseOrDie("[experiment]\nname = \"x\"\n[[condition]]\nname = \"warm\"\n")
      .conditions.front();
}

IdleSnapshot Snapshot(int64_t at_s, std::optional<int64_t> rss_bytes) {
  IdleSnapshot snapshot;
  snapshot.at = MonoTime{at_s * kNsPerSecond};
  snapshot.target.processes = {{.pid = 10, .start_time_ticks = 5}};
  snapshot.target.rss_bytes = rss_bytes;
  snapshot.target.cpu_ns = 0;
  snapshot.target.voluntary_context_switches = 100;
  snapshot.totals = {{"machine_cpu_ns", 0}, {"own_cpu_ns", 0}};
  return snapshot;
}

Attempt Stored(const IdleSnapshot& before, const IdleSnapshot& after) {
  Attempt attempt;
  StoreIdle(before, after, Warm(), attempt);
  return attempt;
}

int64_t Counter(const Attempt& attempt, const std::string& name) {
  return std::get<int64_t>(*attempt.counters.at(name));
}

std::string Word(const Attempt& attempt, const std::string& layer) {
  return std::get<std::string>(attempt.state_at_send.at(layer).value);
}

TEST(IdleWatch, CountsTheServersWakeUpsAndWhatOthersUsed) {
  const IdleSnapshot before = Snapshot(0, 100 * kMiB);
  IdleSnapshot after = Snapshot(60, 100 * kMiB);
  after.target.voluntary_context_switches = 107;
  after.target.cpu_ns = 2 * kNsPerSecond;
  after.totals = {{"machine_cpu_ns", 7 * kNsPerSecond}, {"own_cpu_ns", 1 * kNsPerSecond}};
  const Attempt attempt = Stored(before, after);
  EXPECT_EQ(Counter(attempt, "idle_target_wakeups"), 7);
  EXPECT_EQ(Counter(attempt, "idle_target_cpu_ns"), 2 * kNsPerSecond);
  EXPECT_EQ(Counter(attempt, "idle_others_cpu_ns"), 4 * kNsPerSecond);
  EXPECT_TRUE(attempt.warnings.empty()) << "4 s of 60 s are below a tenth of one CPU";
}

TEST(IdleWatch, WarnsOfOthersThatUsedMoreThanATenthOfACpu) {
  IdleSnapshot after = Snapshot(60, 100 * kMiB);
  after.totals["machine_cpu_ns"] = 6 * kNsPerSecond;
  EXPECT_TRUE(Stored(Snapshot(0, 100 * kMiB), after).warnings.empty());
  after.totals["machine_cpu_ns"] = 6 * kNsPerSecond + 1;
  const Attempt attempt = Stored(Snapshot(0, 100 * kMiB), after);
  ASSERT_EQ(attempt.warnings.size(), 1U);
  EXPECT_EQ(attempt.warnings.front().code, "others_busy");
}

TEST(IdleWatch, TellsAMappedModelByItsMapping) {
  IdleSnapshot before = Snapshot(0, 100 * kMiB);
  before.mappers = {10};
  IdleSnapshot after = Snapshot(60, 5 * kMiB);
  after.mappers = {10};
  Attempt attempt = Stored(before, after);
  EXPECT_EQ(Word(attempt, "model"), "loaded") << "its pages went, its mapping did not";
  EXPECT_EQ(attempt.state_at_send.at("resident_memory").reached, false);
  EXPECT_THAT(AllNotReached(attempt.state_at_send), HasSubstr("resident_memory: wanted kept"));
  after.mappers = {};
  attempt = Stored(before, after);
  EXPECT_EQ(Word(attempt, "model"), "unloaded");
  EXPECT_EQ(attempt.state_at_send.at("model").reached, false);
  EXPECT_THAT(AllNotReached(attempt.state_at_send),
              testing::AllOf(HasSubstr("model: wanted loaded, read unloaded"),
                             HasSubstr("; resident_memory:")));
}

TEST(IdleWatch, TellsAModelThatNobodyMapsByTheServersMemory) {
  const IdleSnapshot before = Snapshot(0, 1000 * kMiB);
  EXPECT_EQ(Word(Stored(before, Snapshot(60, 960 * kMiB)), "model"), "loaded");
  EXPECT_EQ(Stored(before, Snapshot(60, 960 * kMiB)).state_at_send.at("resident_memory").reached,
            true);
  EXPECT_EQ(Stored(before, Snapshot(60, 940 * kMiB)).state_at_send.at("resident_memory").reached,
            false);
  EXPECT_EQ(Word(Stored(before, Snapshot(60, 400 * kMiB)), "model"), "unloaded");
  IdleSnapshot gone = Snapshot(60, 0);
  gone.target.processes.clear();
  EXPECT_EQ(Word(Stored(before, gone), "model"), "unloaded");
}

TEST(IdleWatch, LeavesEmptyWhatCannotBeKnown) {
  IdleSnapshot none = Snapshot(0, std::nullopt);
  none.target.processes.clear();
  const Attempt attempt = Stored(none, none);
  EXPECT_FALSE(attempt.counters.at("idle_target_wakeups").has_value());
  EXPECT_FALSE(attempt.counters.at("idle_others_cpu_ns").has_value());
  EXPECT_FALSE(attempt.null_reasons.at("idle_others_cpu_ns").empty());
  EXPECT_TRUE(std::holds_alternative<std::monostate>(attempt.state_at_send.at("model").value));
  EXPECT_FALSE(attempt.state_at_send.at("model").reached.has_value());
  EXPECT_EQ(AllNotReached(attempt.state_at_send), "");
}

TEST(IdleWatch, ReadsWhatTheKernelTookBackFromFakeFiles) {
  os::FakeRoot fake;
  Bench bench("[experiment]\nname = \"x\"\n[[condition]]\nname = \"warm\"\n");
  AttemptContext context = bench.Context();
  const auto write = [&](int kswapd, int proactive, int damon) {
    fake.Write("proc/vmstat", "pswpin 1\npswpout 2\npgsteal_kswapd " + std::to_string(kswapd) +
                                  "\npgsteal_direct 0\npgsteal_proactive " +
                                  std::to_string(proactive) + "\n");
    fake.Write("sys/module/damon_reclaim/parameters/bytes_reclaimed_regions",
               std::to_string(damon) + "\n");
  };
  write(10, 20, 1000);
  const IdleSnapshot before = ReadIdleSnapshot(fake.Open(), context.states);
  write(11, 23, 5096);
  const Attempt attempt = Stored(before, ReadIdleSnapshot(fake.Open(), context.states));
  EXPECT_EQ(Counter(attempt, "idle_reclaimed_bytes"), 4 * 4096);
  EXPECT_EQ(Counter(attempt, "idle_proactively_reclaimed_bytes"), 3 * 4096);
  EXPECT_EQ(Counter(attempt, "idle_damon_reclaimed_bytes"), 4096);
  EXPECT_EQ(Counter(attempt, "idle_swap_in_bytes"), 0);
  ASSERT_EQ(attempt.warnings.size(), 1U);
  EXPECT_EQ(attempt.warnings.front().code, "proactive_reclaim");
}

TEST(IdleWatch, SaysWhetherTheKernelReclaimsIdlePagesByItself) {
  os::FakeRoot fake;
  EXPECT_EQ(DamonReclaim(fake.Open()), "not in this kernel");
  fake.Write("sys/module/damon_reclaim/parameters/enabled", "N\n");
  EXPECT_EQ(DamonReclaim(fake.Open()), "off");
  fake.Write("sys/module/damon_reclaim/parameters/enabled", "Y\n");
  fake.Write("sys/module/damon_reclaim/parameters/min_age", "120000000\n");
  EXPECT_THAT(DamonReclaim(fake.Open()), HasSubstr("on, after"));
}

}  // namespace
}  // namespace rouse::lab
