#include "os/loadavg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::HasSubstr;

TEST(Loadavg, ReadsEveryField) {
  FakeRoot fake;
  fake.Write("proc/loadavg", "6.47 3.65 1.86 7/138 17323\n");
  const Result<Loadavg> loadavg = ReadLoadavg(fake.Open());
  ASSERT_TRUE(loadavg.ok()) << loadavg.error().message();
  EXPECT_DOUBLE_EQ(*loadavg->load1, 6.47);
  EXPECT_DOUBLE_EQ(*loadavg->load5, 3.65);
  EXPECT_DOUBLE_EQ(*loadavg->load15, 1.86);
  EXPECT_EQ(loadavg->runnable_tasks, 7);
  EXPECT_EQ(loadavg->tasks, 138);
}

TEST(Loadavg, RefusesMissingMalformedAndEmptyFiles) {
  FakeRoot fake;
  EXPECT_EQ(ReadLoadavg(fake.Open()).error().code(), ErrorCode::kNotFound);
  for (const char* const bad : {"", "6.47 3.65\n", "6.47 high 1.86 7/138 1\n",
                                "6.47 3.65 1.86 7 1\n", "6.47 3.65 1.86 x/138 1\n"}) {
    fake.Write("proc/loadavg", bad);
    const Result<Loadavg> loadavg = ReadLoadavg(fake.Open());
    ASSERT_FALSE(loadavg.ok()) << bad;
    EXPECT_EQ(loadavg.error().code(), ErrorCode::kCorrupt) << bad;
    EXPECT_THAT(loadavg.error().message(), HasSubstr("/proc/loadavg"));
  }
}

TEST(Loadavg, LeavesTaskCountsEmptyWhenThereAreNone) {
  FakeRoot fake;
  fake.Write("proc/loadavg", "6.47 3.65 1.86\n");
  EXPECT_EQ(ReadLoadavg(fake.Open())->tasks, std::nullopt);
}

}  // namespace
}  // namespace rouse::os
