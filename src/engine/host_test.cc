#include "engine/host.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/engine.h"

namespace rouse::engine {
namespace {

class HostTest : public testing::Test {
 protected:
  void SetUp() override {
    // A name of its own: tests of this file run beside each other.
    root_ = testing::TempDir() + "rouse_host_test_XXXXXX";
    ASSERT_NE(mkdtemp(root_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  // Says of every CPU that this test may run on that it shares one core.
  void WriteOneCore() {
    for (int cpu = 0; cpu < 1024; ++cpu) {
      Write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
            "0-1023\n");
    }
  }

  // Of this process, as the files in /proc name it.
  void WriteGroup(const std::string& line) {
    Write("/proc/" + std::to_string(getpid()) + "/cgroup", line);
    Write("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  }

  std::string root_;
};

int AllowedCpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  sched_getaffinity(0, sizeof mask, &mask);
  return CPU_COUNT(&mask);
}

TEST_F(HostTest, CountsEachCpuWhereTheTopologyIsNotTold) {
  EXPECT_EQ(UsableCores(root_), AllowedCpus());
}

TEST_F(HostTest, CountsHardwareThreadsOfACoreOnce) {
  WriteOneCore();
  EXPECT_EQ(UsableCores(root_), 1);
}

TEST_F(HostTest, StaysWithinTheCpuQuota) {
  Write("/proc/self/cgroup", "1:cpu:/old\n0::/job\n");
  Write("/sys/fs/cgroup/job/cpu.max", "100000 100000\n");
  EXPECT_EQ(UsableCores(root_), 1);
  Write("/sys/fs/cgroup/job/cpu.max", "max 100000\n");
  EXPECT_EQ(UsableCores(root_), AllowedCpus());
  Write("/sys/fs/cgroup/job/cpu.max", "nonsense\n");
  EXPECT_EQ(UsableCores(root_), AllowedCpus());
}

// What an engine asks whose options name no folders of a test.
TEST(AvailableMemoryBytes, IsKnownOfThisMachine) {
  EXPECT_GT(AvailableMemoryBytes().value_or(0), 0);
  EXPECT_GT(AvailableMemoryBytes(EngineOptions().system_root).value_or(0), 0);
}

TEST_F(HostTest, ReadsAvailableMemory) {
  EXPECT_EQ(AvailableMemoryBytes(root_), std::nullopt);
  Write("/proc/meminfo", "MemTotal:        9000 kB\nMemAvailable:    1234 kB\n");
  EXPECT_EQ(AvailableMemoryBytes(root_), 1234 * 1024);
}

// A container after an unload: nearly all of what it has charged is the model's cached file.
TEST_F(HostTest, CountsCachedFilesOfALimitedGroupAsAvailable) {
  Write("/proc/meminfo", "MemAvailable:    9000 kB\n");
  WriteGroup("0::/job\n");
  Write("/sys/fs/cgroup/job/memory.max", "4000000\n");
  Write("/sys/fs/cgroup/job/memory.current", "3800000\n");
  Write("/sys/fs/cgroup/job/memory.stat", "anon 200000\nactive_file 0\ninactive_file 3600000\n");
  EXPECT_EQ(AvailableMemoryBytes(root_), 3800000);
  Write("/sys/fs/cgroup/job/memory.stat", "anon 3800000\nactive_file 0\ninactive_file 0\n");
  EXPECT_EQ(AvailableMemoryBytes(root_), 200000);
  Write("/sys/fs/cgroup/job/memory.current", "4100000\n");
  EXPECT_EQ(AvailableMemoryBytes(root_), 0);
  Write("/sys/fs/cgroup/job/memory.max", "max\n");
  EXPECT_EQ(AvailableMemoryBytes(root_), 9000 * 1024);
}

TEST_F(HostTest, StaysWithinATighterLimitOfTheGroupAbove) {
  Write("/proc/meminfo", "MemAvailable:    9000 kB\n");
  WriteGroup("0::/pod/job\n");
  Write("/sys/fs/cgroup/pod/job/memory.max", "4000000\n");
  Write("/sys/fs/cgroup/pod/job/memory.current", "1000000\n");
  Write("/sys/fs/cgroup/pod/memory.max", "2000000\n");
  Write("/sys/fs/cgroup/pod/memory.current", "1500000\n");
  EXPECT_EQ(AvailableMemoryBytes(root_), 500000);
}

}  // namespace
}  // namespace rouse::engine
