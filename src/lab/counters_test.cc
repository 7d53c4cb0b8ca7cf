#include "lab/counters.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "os/fake_root.h"
#include "results/metrics.h"

namespace rouse::lab {
namespace {

int64_t Value(const results::Attempt& attempt, const std::string& name) {
  const auto& value = attempt.counters.at(name);
  return value ? std::get<int64_t>(*value) : -1;
}

TEST(Counters, AreRowsOfTheMetricCatalogue) {
  const std::array<int, 1> self = {getpid()};
  const CounterSnapshot before = ReadCounters(os::ProcRoot::Real(), self, "");
  results::Attempt attempt;
  StoreCounters(before, ReadCounters(os::ProcRoot::Real(), self, ""), true, attempt);
  EXPECT_GE(attempt.counters.size(), 20U);
  for (const auto& [name, value] : attempt.counters) {
    EXPECT_NE(results::FindMetric(name), nullptr) << name;
    if (!value) {
      EXPECT_FALSE(attempt.null_reasons[name].empty()) << name;
    }
  }
}

TEST(Counters, CountTheMinorFaultsOfTouchedPages) {
  constexpr size_t kPages = 3000;
  const std::array<int, 1> self = {getpid()};
  const CounterSnapshot before = ReadCounters(os::ProcRoot::Real(), self, "");
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<char> memory(kPages * page);
  for (size_t i = 0; i < kPages; ++i) memory[i * page] = 1;
  results::Attempt attempt;
  StoreCounters(before, ReadCounters(os::ProcRoot::Real(), self, ""), true, attempt);
  // Huge pages may take 512 at a time.
  EXPECT_GE(Value(attempt, "target_minor_faults"), static_cast<int64_t>(kPages / 512));
  EXPECT_GT(Value(attempt, "target_rss_bytes"), static_cast<int64_t>(kPages * page));
  EXPECT_EQ(Value(attempt, "target_processes"), 1);
}

TEST(Counters, CountANewProcessFromItsStart) {
  const CounterSnapshot none = ReadCounters(os::ProcRoot::Real(), {}, "");
  const std::array<int, 1> self = {getpid()};
  results::Attempt attempt;
  StoreCounters(none, ReadCounters(os::ProcRoot::Real(), self, ""), true, attempt);
  EXPECT_GT(Value(attempt, "target_minor_faults"), 100);
}

TEST(Counters, TellTheMachinesReclaimDiskQuotaAndMemoryFromItsOwnFiles) {
  os::FakeRoot fake;
  const os::ProcRoot root = fake.Open();
  const auto write = [&](int pages, int sectors) {
    fake.Write("proc/vmstat", "pswpin " + std::to_string(pages) + "\npgsteal_kswapd " +
                                  std::to_string(10 * pages) + "\npgsteal_direct 7\n");
    fake.Write("proc/diskstats",
               " 254 0 vda 1 0 " + std::to_string(sectors) + " 4 5 6 7 8 9 10 11\n");
    fake.Write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 321 kB\n");
  };
  write(3, 100);
  const CounterSnapshot before = ReadCounters(root, {}, "vda");
  write(5, 164);
  results::Attempt attempt;
  StoreCounters(before, ReadCounters(root, {}, "vda"), false, attempt);
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  EXPECT_EQ(Value(attempt, "machine_swap_in_bytes"), 2 * page_bytes);
  EXPECT_EQ(Value(attempt, "machine_reclaimed_bytes"), 20 * page_bytes);
  EXPECT_EQ(Value(attempt, "machine_disk_read_bytes"), 64 * 512);
  EXPECT_EQ(Value(attempt, "machine_available_bytes"), 321 * 1024);
  EXPECT_FALSE(attempt.counters.at("cpu_clock_hz").has_value());
  EXPECT_EQ(attempt.null_reasons.at("cpu_clock_hz"), "no CPU tells its frequency in sysfs");
}

TEST(Counters, TellHowLongTheWholeGroupWaitedForACpu) {
  os::FakeRoot fake;
  fake.Write("proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  fake.Write("proc/71/cgroup", "0::/rouse\n");
  fake.Write("proc/pressure/cpu", "some avg10=0 total=5\nfull avg10=0 total=77777\n");
  const auto write = [&](int some_us, int full_us) {
    fake.Write("sys/fs/cgroup/rouse/cpu.pressure",
               "some avg10=0.00 total=" + std::to_string(some_us) +
                   "\nfull avg10=0.00 total=" + std::to_string(full_us) + "\n");
  };
  const std::array<int, 1> pids = {71};
  const os::ProcRoot root = fake.Open();
  write(100, 40);
  const CounterSnapshot before = ReadCounters(root, pids, "");
  write(900, 340);
  results::Attempt attempt;
  StoreCounters(before, ReadCounters(root, pids, ""), true, attempt);
  EXPECT_EQ(Value(attempt, "psi_cpu_full_us"), 300);
  results::Attempt elsewhere;  // version 1
  fake.Write("proc/71/cgroup", "4:cpu:/rouse\n");
  StoreCounters(before, ReadCounters(root, pids, ""), true, elsewhere);
  EXPECT_FALSE(elsewhere.counters.at("psi_cpu_full_us").has_value());
  EXPECT_NE(elsewhere.null_reasons.at("psi_cpu_full_us"), "");
}

TEST(Counters, AreUnknownWithAReasonForAServerThatIsNotOurs) {
  const CounterSnapshot none = ReadCounters(os::ProcRoot::Real(), {}, "");
  results::Attempt attempt;
  StoreCounters(none, ReadCounters(os::ProcRoot::Real(), {}, ""), false, attempt);
  EXPECT_FALSE(attempt.counters.at("target_read_bytes").has_value());
  EXPECT_EQ(attempt.null_reasons.at("target_read_bytes"), "the server's processes are not ours");
}

}  // namespace
}  // namespace rouse::lab
