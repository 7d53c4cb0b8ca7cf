#include "os/proc_stat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::HasSubstr;

std::string Stat(const std::string& name) {
  return "71 (" + name +
         ") S 70 72 73 74 75 76 1000 2000 30 40 500 600 70 80 20 0 9 0 157050 3133440 380 "
         "18446744073709551615 1 2 3 4 5 6 7 8 9 10 11 12 17 1 0 0 421 0 0\n";
}

TEST(ProcStat, ReadsEveryField) {
  FakeRoot fake;
  fake.Write("proc/71/stat", Stat("server"));
  const Result<ProcStat> stat = ReadProcStat(fake.Open(), 71);
  ASSERT_TRUE(stat.ok()) << stat.error().message();
  EXPECT_EQ(stat->comm, "server");
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->parent_pid, 70);
  EXPECT_EQ(stat->minor_faults, 1000);
  EXPECT_EQ(stat->children_minor_faults, 2000);
  EXPECT_EQ(stat->major_faults, 30);
  EXPECT_EQ(stat->children_major_faults, 40);
  EXPECT_EQ(stat->user_ticks, 500);
  EXPECT_EQ(stat->system_ticks, 600);
  EXPECT_EQ(stat->children_user_ticks, 70);
  EXPECT_EQ(stat->children_system_ticks, 80);
  EXPECT_EQ(stat->threads, 9);
  EXPECT_EQ(stat->start_time_ticks, 157050);
  EXPECT_EQ(stat->block_io_delay_ticks, 421);
}

TEST(ProcStat, IsNotFooledByBlanksAndParenthesesInTheName) {
  for (const char* const name : {"a) R 1 (b", "two words", ")", "", "((", "x) Z 5 6 7 8 9"}) {
    FakeRoot fake;
    fake.Write("proc/71/stat", Stat(name));
    const Result<ProcStat> stat = ReadProcStat(fake.Open(), 71);
    ASSERT_TRUE(stat.ok()) << name;
    EXPECT_EQ(stat->comm, name);
    EXPECT_EQ(stat->state, 'S');
    EXPECT_EQ(stat->start_time_ticks, 157050);
  }
}

TEST(ProcStat, ReadsAThread) {
  FakeRoot fake;
  fake.Write("proc/71/task/73/stat", Stat("worker"));
  const Result<ProcStat> stat = ReadThreadStat(fake.Open(), 71, 73);
  ASSERT_TRUE(stat.ok());
  EXPECT_EQ(stat->comm, "worker");
}

TEST(ProcStat, SaysWhichFileIsMissing) {
  const FakeRoot fake;
  const Result<ProcStat> stat = ReadProcStat(fake.Open(), 71);
  EXPECT_EQ(stat.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(stat.error().message(), HasSubstr("/proc/71/stat"));
}

TEST(ProcStat, RefusesMalformedAndEmptyFiles) {
  for (const char* const bad : {"", "71", "71 (name", "71 (name)", "71 (name) S x", ") ( S 1",
                                "71 (name) S 70 1 1 1 1 1 many", "71 (name) SS 70"}) {
    FakeRoot fake;
    fake.Write("proc/71/stat", bad);
    const Result<ProcStat> stat = ReadProcStat(fake.Open(), 71);
    ASSERT_FALSE(stat.ok()) << bad;
    EXPECT_EQ(stat.error().code(), ErrorCode::kCorrupt) << bad;
  }
}

TEST(ProcStat, LeavesFieldsEmptyThatAnOlderKernelLacks) {
  FakeRoot fake;
  fake.Write("proc/71/stat", "71 (name) R 70 1 1 1 1 1 1000 2000 30 40\n");
  const Result<ProcStat> stat = ReadProcStat(fake.Open(), 71);
  ASSERT_TRUE(stat.ok());
  EXPECT_EQ(stat->children_major_faults, 40);
  EXPECT_EQ(stat->user_ticks, std::nullopt);
  EXPECT_EQ(stat->block_io_delay_ticks, std::nullopt);
}

}  // namespace
}  // namespace rouse::os
