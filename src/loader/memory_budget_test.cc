#include "loader/memory_budget.h"

#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::loader {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

os::FakeRoot& WithMeminfo(os::FakeRoot& root) {
  return root.Write("proc/meminfo",
                    "MemTotal: 8388608 kB\nMemAvailable: 1048576 kB\n"
                    "Active(file): 2048 kB\nInactive(file): 1024 kB\n");
}

TEST(MemoryBudget, IsWhatTheMachineHasAvailableWithoutAControlGroup) {
  os::FakeRoot root;
  WithMeminfo(root);
  const MemoryBudget budget = ReadMemoryBudget(root.Open(), 7);
  EXPECT_EQ(budget.machine_bytes, 1024 * kMiB);
  EXPECT_EQ(budget.machine_file_bytes, 3 * kMiB);
  EXPECT_EQ(budget.group_bytes, std::nullopt);
  EXPECT_EQ(budget.locked_bytes, 0);
  root.Write("proc/7/status", "Name:\tx\nVmLck:\t    2048 kB\n");
  EXPECT_EQ(ReadMemoryBudget(root.Open(), 7).locked_bytes, 2 * kMiB);
  EXPECT_EQ(budget.Left(24 * kMiB), 1000 * kMiB);
  EXPECT_EQ(budget.Left(2000 * kMiB), 0);
}

TEST(MemoryBudget, IsUnknownWhereNothingIsTold) {
  const os::FakeRoot root;
  EXPECT_EQ(ReadMemoryBudget(root.Open(), 7).Left(0), std::nullopt);
}

TEST(MemoryBudget, TakesTheTightestLimitOfTheGroupsAboveInVersion2) {
  os::FakeRoot root;
  WithMeminfo(root)
      .Write("proc/7/cgroup", "0::/outer/inner\n")
      .Write("proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
      .Write("sys/fs/cgroup/outer/inner/memory.max", "max\n")
      .Write("sys/fs/cgroup/outer/inner/memory.current", "1048576\n")
      .Write("sys/fs/cgroup/outer/memory.max", std::to_string(500 * kMiB))
      .Write("sys/fs/cgroup/outer/memory.current", std::to_string(400 * kMiB))
      .Write("sys/fs/cgroup/outer/memory.stat",
             "anon 1\nactive_file 20971520\ninactive_file 10485760\n");
  const MemoryBudget budget = ReadMemoryBudget(root.Open(), 7);
  // 100 MiB are free, 30 MiB of page cache can be given up.
  EXPECT_EQ(budget.group_bytes, 130 * kMiB);
  EXPECT_EQ(budget.group_file_bytes, 30 * kMiB);
  EXPECT_EQ(budget.group, "/outer");
  EXPECT_EQ(budget.Left(30 * kMiB), 100 * kMiB);
}

TEST(MemoryBudget, ReadsVersion1AndItsLargestNumberIsNoLimit) {
  os::FakeRoot root;
  WithMeminfo(root)
      .Write("proc/7/cgroup", "4:memory:/job\n")
      .Write("proc/self/mountinfo",
             "30 1 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n")
      .Write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n")
      .Write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "4096\n");
  EXPECT_EQ(ReadMemoryBudget(root.Open(), 7).group_bytes, std::nullopt);
  root.Write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", std::to_string(300 * kMiB))
      .Write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", std::to_string(100 * kMiB))
      .Write("sys/fs/cgroup/memory/job/memory.stat",
             "inactive_file 1\ntotal_active_file 0\ntotal_inactive_file 52428800\n");
  EXPECT_EQ(ReadMemoryBudget(root.Open(), 7).group_bytes, 250 * kMiB);
}

}  // namespace
}  // namespace rouse::loader
