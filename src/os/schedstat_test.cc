#include "os/schedstat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::HasSubstr;

TEST(Schedstat, AddsUpAllThreads) {
  FakeRoot fake;
  fake.Write("proc/71/task/71/schedstat", "1000 20 3\n");
  fake.Write("proc/71/task/73/schedstat", "4000 50 6\n");
  const Result<Schedstat> schedstat = ReadSchedstat(fake.Open(), 71);
  ASSERT_TRUE(schedstat.ok()) << schedstat.error().message();
  EXPECT_EQ(schedstat->cpu_ns, 5000);
  EXPECT_EQ(schedstat->run_queue_wait_ns, 70);
  EXPECT_EQ(schedstat->time_slices, 9);
}

TEST(Schedstat, PassesOverAThreadThatEndsMeanwhile) {
  FakeRoot fake;
  fake.Write("proc/71/task/71/schedstat", "1000 20 3\n");
  fake.Write("proc/71/task/73/comm", "gone");
  EXPECT_EQ(ReadSchedstat(fake.Open(), 71)->cpu_ns, 1000);
}

TEST(Schedstat, SaysThatTheProcessOrTheFileIsMissing) {
  FakeRoot fake;
  EXPECT_EQ(ReadSchedstat(fake.Open(), 71).error().code(), ErrorCode::kNotFound);
  fake.Write("proc/71/task/71/comm", "server");  // a kernel without schedstats
  const Result<Schedstat> schedstat = ReadSchedstat(fake.Open(), 71);
  EXPECT_EQ(schedstat.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(schedstat.error().message(), HasSubstr("/proc/71/task/71/schedstat"));
}

TEST(Schedstat, RefusesMalformedAndEmptyFiles) {
  for (const char* const bad : {"", "1000", "1000 x 3", "x 20 3", "1000 20 -3"}) {
    FakeRoot fake;
    fake.Write("proc/71/task/71/schedstat", bad);
    EXPECT_EQ(ReadSchedstat(fake.Open(), 71).error().code(), ErrorCode::kCorrupt) << bad;
  }
}

TEST(Schedstat, LeavesTimeSlicesEmptyWhenThereAreNone) {
  FakeRoot fake;
  fake.Write("proc/71/task/71/schedstat", "1000 20\n");
  EXPECT_EQ(ReadSchedstat(fake.Open(), 71)->time_slices, std::nullopt);
}

}  // namespace
}  // namespace rouse::os
