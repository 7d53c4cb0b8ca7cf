#include "os/proc_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::HasSubstr;

constexpr char kRight[] =
    "Name:\tserver\nUid:\t1000\t1001\t1002\t1003\nVmHWM:\t  11 kB\nVmRSS:\t  12 kB\n"
    "RssAnon:\t  13 kB\nRssFile:\t  14 kB\nRssShmem:\t  15 kB\nVmSwap:\t  16 kB\nVmLck:\t  17 kB\n"
    "Threads:\t9\nvoluntary_ctxt_switches:\t412\nnonvoluntary_ctxt_switches:\t37\n";

TEST(ProcStatus, ReadsEveryField) {
  FakeRoot fake;
  fake.Write("proc/71/status", kRight).Write("proc/71/task/73/status", "Threads:\t5\n");
  const Result<ProcStatus> status = ReadProcStatus(fake.Open(), 71);
  ASSERT_TRUE(status.ok()) << status.error().message();
  EXPECT_EQ(status->peak_rss_bytes, 11 * 1024);
  EXPECT_EQ(status->rss_bytes, 12 * 1024);
  EXPECT_EQ(status->rss_anon_bytes, 13 * 1024);
  EXPECT_EQ(status->rss_file_bytes, 14 * 1024);
  EXPECT_EQ(status->rss_shmem_bytes, 15 * 1024);
  EXPECT_EQ(status->swap_bytes, 16 * 1024);
  EXPECT_EQ(status->locked_bytes, 17 * 1024);
  EXPECT_EQ(status->threads, 9);
  EXPECT_EQ(status->user_id, 1001);
  EXPECT_EQ(status->voluntary_context_switches, 412);
  EXPECT_EQ(status->involuntary_context_switches, 37);
  EXPECT_EQ(ReadThreadStatus(fake.Open(), 71, 73)->threads, 5);
}

TEST(ProcStatus, SaysWhichFileIsMissing) {
  const FakeRoot fake;
  const Result<ProcStatus> status = ReadProcStatus(fake.Open(), 71);
  EXPECT_EQ(status.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(status.error().message(), HasSubstr("/proc/71/status"));
}

TEST(ProcStatus, RefusesMalformedAndEmptyFiles) {
  for (const char* const bad : {"", "VmRSS:\t twelve kB\n", "VmRSS:\t 12 MB\n", "Threads:\n",
                                "VmRSS:\t 9223372036854775807 kB\n", "Threads:\t9\nUid:\t1000\n"}) {
    FakeRoot fake;
    fake.Write("proc/71/status", bad);
    const Result<ProcStatus> status = ReadProcStatus(fake.Open(), 71);
    ASSERT_FALSE(status.ok()) << bad;
    EXPECT_EQ(status.error().code(), ErrorCode::kCorrupt) << bad;
  }
}

TEST(ProcStatus, LeavesTheMemoryOfAZombieEmpty) {
  FakeRoot fake;
  fake.Write("proc/71/status", "Name:\tserver\nState:\tZ (zombie)\nThreads:\t1\n");
  const Result<ProcStatus> status = ReadProcStatus(fake.Open(), 71);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->rss_bytes, std::nullopt);
  EXPECT_EQ(status->threads, 1);
}

}  // namespace
}  // namespace rouse::os
