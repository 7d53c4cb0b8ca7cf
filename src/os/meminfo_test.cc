#include "os/meminfo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::HasSubstr;

TEST(Meminfo, ReadsEveryField) {
  FakeRoot fake;
  fake.Write("proc/meminfo",
             "MemTotal:       11 kB\nMemFree:  12 kB\nMemAvailable:  13 kB\nBuffers:  14 kB\n"
             "Cached:  15 kB\nSwapCached:  99 kB\nDirty:  16 kB\nWriteback:  17 kB\n"
             "AnonPages:  18 kB\nMapped:  19 kB\nShmem:  20 kB\nMlocked:  21 kB\n"
             "Unevictable:  22 kB\nSwapTotal:  23 kB\nSwapFree:  24 kB\nHugePages_Total:  5\n");
  const Result<Meminfo> meminfo = ReadMeminfo(fake.Open());
  ASSERT_TRUE(meminfo.ok()) << meminfo.error().message();
  EXPECT_EQ(meminfo->total_bytes, 11 * 1024);
  EXPECT_EQ(meminfo->free_bytes, 12 * 1024);
  EXPECT_EQ(meminfo->available_bytes, 13 * 1024);
  EXPECT_EQ(meminfo->buffers_bytes, 14 * 1024);
  EXPECT_EQ(meminfo->cached_bytes, 15 * 1024);
  EXPECT_EQ(meminfo->dirty_bytes, 16 * 1024);
  EXPECT_EQ(meminfo->writeback_bytes, 17 * 1024);
  EXPECT_EQ(meminfo->anonymous_bytes, 18 * 1024);
  EXPECT_EQ(meminfo->mapped_bytes, 19 * 1024);
  EXPECT_EQ(meminfo->shmem_bytes, 20 * 1024);
  EXPECT_EQ(meminfo->locked_bytes, 21 * 1024);
  EXPECT_EQ(meminfo->unevictable_bytes, 22 * 1024);
  EXPECT_EQ(meminfo->swap_total_bytes, 23 * 1024);
  EXPECT_EQ(meminfo->swap_free_bytes, 24 * 1024);
}

TEST(Meminfo, RefusesMissingMalformedAndEmptyFiles) {
  FakeRoot fake;
  EXPECT_EQ(ReadMeminfo(fake.Open()).error().code(), ErrorCode::kNotFound);
  for (const char* const bad : {"", "MemTotal: lots kB\n", "nothing of ours\n"}) {
    fake.Write("proc/meminfo", bad);
    const Result<Meminfo> meminfo = ReadMeminfo(fake.Open());
    ASSERT_FALSE(meminfo.ok()) << bad;
    EXPECT_EQ(meminfo.error().code(), ErrorCode::kCorrupt) << bad;
    EXPECT_THAT(meminfo.error().message(), HasSubstr("/proc/meminfo"));
  }
}

TEST(Meminfo, LeavesAnAbsentFieldEmpty) {
  FakeRoot fake;
  fake.Write("proc/meminfo", "MemTotal: 11 kB\nMemFree: 12 kB\n");  // before Linux 3.14
  EXPECT_EQ(ReadMeminfo(fake.Open())->available_bytes, std::nullopt);
}

}  // namespace
}  // namespace rouse::os
