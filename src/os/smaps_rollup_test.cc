#include "os/smaps_rollup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::HasSubstr;

TEST(SmapsRollup, ReadsEveryField) {
  FakeRoot fake;
  fake.Write("proc/71/smaps_rollup",
             "55907de26000-7fffa555d000 ---p 00000000 00:00 0    [rollup]\nRss:  11 kB\n"
             "Pss:  12 kB\nPss_Dirty:  99 kB\nPss_Anon:  13 kB\nPss_File:  14 kB\n"
             "Anonymous:  15 kB\nSwap:  16 kB\nSwapPss:  98 kB\nLocked:  17 kB\n");
  const Result<SmapsRollup> rollup = ReadSmapsRollup(fake.Open(), 71);
  ASSERT_TRUE(rollup.ok()) << rollup.error().message();
  EXPECT_EQ(rollup->rss_bytes, 11 * 1024);
  EXPECT_EQ(rollup->pss_bytes, 12 * 1024);
  EXPECT_EQ(rollup->pss_anon_bytes, 13 * 1024);
  EXPECT_EQ(rollup->pss_file_bytes, 14 * 1024);
  EXPECT_EQ(rollup->anonymous_bytes, 15 * 1024);
  EXPECT_EQ(rollup->swap_bytes, 16 * 1024);
  EXPECT_EQ(rollup->locked_bytes, 17 * 1024);
}

TEST(SmapsRollup, SaysWhichFileIsMissing) {
  const FakeRoot fake;
  const Result<SmapsRollup> rollup = ReadSmapsRollup(fake.Open(), 71);
  EXPECT_EQ(rollup.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(rollup.error().message(), HasSubstr("/proc/71/smaps_rollup"));
}

TEST(SmapsRollup, RefusesMalformedAndEmptyFiles) {
  for (const char* const bad : {"", "Pss: x kB\n", "Pss:\n"}) {
    FakeRoot fake;
    fake.Write("proc/71/smaps_rollup", bad);
    EXPECT_EQ(ReadSmapsRollup(fake.Open(), 71).error().code(), ErrorCode::kCorrupt) << bad;
  }
}

TEST(SmapsRollup, LeavesFieldsEmptyThatAnOlderKernelLacks) {
  FakeRoot fake;
  fake.Write("proc/71/smaps_rollup", "Rss:  11 kB\nPss:  12 kB\n");
  const Result<SmapsRollup> rollup = ReadSmapsRollup(fake.Open(), 71);
  ASSERT_TRUE(rollup.ok());
  EXPECT_EQ(rollup->pss_bytes, 12 * 1024);
  EXPECT_EQ(rollup->pss_file_bytes, std::nullopt);
}

}  // namespace
}  // namespace rouse::os
