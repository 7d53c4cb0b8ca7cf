#include "os/cgroup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::HasSubstr;

void WriteV2(FakeRoot& fake) {
  fake.Write("proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  fake.Write("proc/71/cgroup", "0::/user.slice/rouse\n");
  const std::string group = "sys/fs/cgroup/user.slice/rouse/";
  fake.Write(group + "memory.current", "1001\n").Write(group + "memory.max", "1002\n");
  fake.Write(group + "memory.peak", "1003\n").Write(group + "memory.swap.current", "1004\n");
  fake.Write(group + "memory.stat",
             "anon 1005\nfile 1006\npgmajfault 1007\nworkingset_refault_file 1008\n");
  fake.Write(group + "io.stat",
             "254:0 rbytes=1009 wbytes=20 rios=1 wios=2\n"
             "259:0 rbytes=100000 wbytes=3000 rios=1 wios=2\n");
  fake.Write(group + "cpu.stat", "usage_usec 1010\nuser_usec 9\nthrottled_usec 11\n");
  fake.Write(group + "memory.pressure", "some avg10=1.25 total=1012\n");
}

TEST(Cgroup, ReadsAGroupOfVersion2) {
  FakeRoot fake;
  WriteV2(fake);
  const Result<CgroupCounters> counters = ReadCgroupCounters(fake.Open(), 71);
  ASSERT_TRUE(counters.ok()) << counters.error().message();
  EXPECT_EQ(counters->paths.name, "/user.slice/rouse");
  EXPECT_EQ(counters->paths.memory, "sys/fs/cgroup/user.slice/rouse");
  EXPECT_EQ(counters->memory_bytes, 1001);
  EXPECT_EQ(counters->memory_limit_bytes, 1002);
  EXPECT_EQ(counters->memory_peak_bytes, 1003);
  EXPECT_EQ(counters->swap_bytes, 1004);
  EXPECT_EQ(counters->anonymous_bytes, 1005);
  EXPECT_EQ(counters->file_bytes, 1006);
  EXPECT_EQ(counters->major_faults, 1007);
  EXPECT_EQ(counters->refaulted_file_pages, 1008);
  EXPECT_EQ(counters->read_bytes, 101009);
  EXPECT_EQ(counters->written_bytes, 3020);
  EXPECT_EQ(counters->cpu_ns, 1'010'000);
  EXPECT_EQ(counters->throttled_ns, 11'000);
  EXPECT_EQ(counters->memory_pressure->some.total_us, 1012);
  EXPECT_FALSE(counters->io_pressure.has_value());
}

TEST(Cgroup, HasNoLimitWhenTheFileSaysMax) {
  FakeRoot fake;
  WriteV2(fake);
  fake.Write("sys/fs/cgroup/user.slice/rouse/memory.max", "max\n");
  EXPECT_EQ(ReadCgroupCounters(fake.Open(), 71)->memory_limit_bytes, std::nullopt);
}

TEST(Cgroup, ReadsTheHierarchiesOfVersion1) {
  FakeRoot fake;
  fake.Write("proc/self/mountinfo",
             "31 1 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
             "32 1 0:28 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n"
             "33 1 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
             "34 1 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  fake.Write("proc/71/cgroup", "4:memory:/jobs\n3:cpu,cpuacct:/jobs\n7:blkio:/\n0::/\n");
  const std::string memory = "sys/fs/cgroup/memory/jobs/";
  fake.Write(memory + "memory.usage_in_bytes", "1001\n");
  fake.Write(memory + "memory.limit_in_bytes", "9223372036854771712\n");
  fake.Write(memory + "memory.max_usage_in_bytes", "1003\n");
  fake.Write(memory + "memory.memsw.usage_in_bytes", "1101\n");
  fake.Write(memory + "memory.stat",
             "rss 9\ntotal_rss 1005\ntotal_cache 1006\n"
             "total_pgmajfault 1007\n");
  fake.Write("sys/fs/cgroup/blkio/blkio.throttle.io_service_bytes_recursive",
             "254:0 Read 1009\n254:0 Write 20\n254:0 Sync 5\n7:0 Read 100000\nTotal 101034\n");
  fake.Write("sys/fs/cgroup/cpu,cpuacct/jobs/cpuacct.usage", "1010\n");
  fake.Write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.stat", "nr_periods 1\nthrottled_time 11\n");
  fake.Write("sys/fs/cgroup/unified/io.pressure", "some avg10=0.00 total=1013\n");
  const Result<CgroupCounters> counters = ReadCgroupCounters(fake.Open(), 71);
  ASSERT_TRUE(counters.ok()) << counters.error().message();
  EXPECT_EQ(counters->paths.name, "/jobs");
  EXPECT_EQ(counters->memory_bytes, 1001);
  EXPECT_EQ(counters->memory_limit_bytes, std::nullopt);
  EXPECT_EQ(counters->memory_peak_bytes, 1003);
  EXPECT_EQ(counters->swap_bytes, 100);
  EXPECT_EQ(counters->anonymous_bytes, 1005);
  EXPECT_EQ(counters->file_bytes, 1006);
  EXPECT_EQ(counters->major_faults, 1007);
  EXPECT_EQ(counters->refaulted_file_pages, std::nullopt);
  EXPECT_EQ(counters->read_bytes, 101009);
  EXPECT_EQ(counters->written_bytes, 20);
  EXPECT_EQ(counters->cpu_ns, 1010);
  EXPECT_EQ(counters->throttled_ns, 11);
  EXPECT_EQ(counters->io_pressure->some.total_us, 1013);
}

TEST(Cgroup, FindsTheGroupOfAContainerThatMountsAPartOfTheHierarchy) {
  FakeRoot fake;
  fake.Write("proc/self/mountinfo",
             "31 1 0:27 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  fake.Write("proc/71/cgroup", "4:memory:/docker/abc/inner\n");
  EXPECT_EQ(FindCgroup(fake.Open(), 71)->memory, "sys/fs/cgroup/memory/inner");
}

TEST(Cgroup, SaysThatTheProcessOrTheFileSystemIsMissing) {
  FakeRoot fake;
  fake.Write("proc/self/mountinfo", "27 1 254:0 / / rw - ext4 /dev/vda rw\n");
  const Result<CgroupPaths> gone = FindCgroup(fake.Open(), 71);
  EXPECT_EQ(gone.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(gone.error().message(), HasSubstr("/proc/71/cgroup"));
  fake.Write("proc/71/cgroup", "0::/\n");
  EXPECT_THAT(FindCgroup(fake.Open(), 71).error().message(), HasSubstr("no cgroup file system"));
}

TEST(Cgroup, RefusesMalformedNumbers) {
  for (const char* const file : {"memory.stat", "io.stat", "cpu.stat"}) {
    FakeRoot fake;
    WriteV2(fake);
    fake.Write("sys/fs/cgroup/user.slice/rouse/" + std::string(file),
               "anon x\nusage_usec x\n254:0 rbytes=x\n");
    EXPECT_EQ(ReadCgroupCounters(fake.Open(), 71).error().code(), ErrorCode::kCorrupt) << file;
  }
}

TEST(Cgroup, LeavesFilesThatAreMissingEmpty) {
  FakeRoot fake;
  WriteV2(fake);
  fake.Remove("sys/fs/cgroup/user.slice/rouse/io.stat");
  fake.Remove("sys/fs/cgroup/user.slice/rouse/memory.current");
  const Result<CgroupCounters> counters = ReadCgroupCounters(fake.Open(), 71);
  ASSERT_TRUE(counters.ok());
  EXPECT_EQ(counters->read_bytes, std::nullopt);
  EXPECT_EQ(counters->memory_bytes, std::nullopt);
  EXPECT_EQ(counters->memory_peak_bytes, 1003);
}

}  // namespace
}  // namespace rouse::os
