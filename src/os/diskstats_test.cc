#include "os/diskstats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::HasSubstr;

constexpr char kRight[] =
    "   7       0 loop0 1 2 3 4 5 6 7 8 9 10 11\n"
    " 254       0 vda 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117\n"
    " 254       1 vda1 201 202 203 204 205 206 207 208 209 210 211\n";

TEST(Diskstats, ReadsTheLineOfTheDevice) {
  FakeRoot fake;
  fake.Write("proc/diskstats", kRight);
  const Result<Diskstats> stats = ReadDiskstats(fake.Open(), "vda");
  ASSERT_TRUE(stats.ok()) << stats.error().message();
  EXPECT_EQ(stats->reads, 101);
  EXPECT_EQ(stats->merged_reads, 102);
  EXPECT_EQ(stats->read_bytes, 103 * 512);
  EXPECT_EQ(stats->read_ms, 104);
  EXPECT_EQ(stats->writes, 105);
  EXPECT_EQ(stats->written_bytes, 107 * 512);
  EXPECT_EQ(stats->write_ms, 108);
  EXPECT_EQ(stats->in_flight, 109);
  EXPECT_EQ(stats->busy_ms, 110);
  EXPECT_EQ(ReadDiskstats(fake.Open(), "vda1")->reads, 201);
}

TEST(Diskstats, SaysThatTheDeviceOrTheFileIsMissing) {
  FakeRoot fake;
  EXPECT_EQ(ReadDiskstats(fake.Open(), "vda").error().code(), ErrorCode::kNotFound);
  fake.Write("proc/diskstats", kRight);
  const Result<Diskstats> stats = ReadDiskstats(fake.Open(), "vd");
  EXPECT_EQ(stats.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(stats.error().message(), HasSubstr("vd"));
}

TEST(Diskstats, RefusesMalformedLinesAndFindsNothingInAnEmptyFile) {
  FakeRoot fake;
  fake.Write("proc/diskstats", "254 0 vda 1 2 x 4\n");
  EXPECT_EQ(ReadDiskstats(fake.Open(), "vda").error().code(), ErrorCode::kCorrupt);
  fake.Write("proc/diskstats", "");
  EXPECT_EQ(ReadDiskstats(fake.Open(), "vda").error().code(), ErrorCode::kNotFound);
}

TEST(Diskstats, LeavesColumnsEmptyThatAreNotThere) {
  FakeRoot fake;
  fake.Write("proc/diskstats", "254 1 vda1 11 12 13 14\n");  // partitions before Linux 2.6.25
  const Result<Diskstats> stats = ReadDiskstats(fake.Open(), "vda1");
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(stats->read_ms, 14);
  EXPECT_EQ(stats->busy_ms, std::nullopt);
}

}  // namespace
}  // namespace rouse::os
