#include "os/process_tree_counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::HasSubstr;

void WriteProcess(FakeRoot& fake, int pid, int unit, char state = 'S') {
  const std::string process = "proc/" + std::to_string(pid) + "/";
  const auto number = [unit](int factor) { return std::to_string(unit * factor); };
  fake.Write(process + "stat", std::to_string(pid) + " (server) " + state + " 1 1 1 0 -1 0 " +
                                   number(10) + " " + number(20) + " " + number(3) + " " +
                                   number(4) + " " + number(5) + " " + number(6) + " " + number(7) +
                                   " " + number(8) + " 20 0 2 0 " + number(100) +
                                   " 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 " + number(9) + "\n");
  fake.Write(process + "io", "rchar: " + number(11) + "\nread_bytes: " + number(12) +
                                 "\nwrite_bytes: " + number(13) + "\n");
  fake.Write(process + "status", "VmRSS: " + number(14) + " kB\nRssAnon: " + number(15) +
                                     " kB\nRssFile: " + number(16) + " kB\nVmSwap: " + number(17) +
                                     " kB\nVmLck: " + number(18) + " kB\n");
  for (const int tid : {pid, pid + 1}) {
    const std::string task = process + "task/" + std::to_string(tid) + "/";
    fake.Write(task + "schedstat", number(21) + " " + number(22) + " 1\n");
    fake.Write(task + "status", "voluntary_ctxt_switches: " + number(23) +
                                    "\nnonvoluntary_ctxt_switches: " + number(24) + "\n");
    fake.Write(task + "stat", *fake.Open().Read(process + "stat"));
  }
  fake.Write(process + "smaps_rollup", "Pss: " + number(25) + " kB\n");
}

TEST(ProcessTreeCounters, AddsUpTheProcessesAndTheirThreads) {
  FakeRoot fake;
  WriteProcess(fake, 71, 1);
  WriteProcess(fake, 81, 1000);
  fake.Write("proc/sys/kernel/task_delayacct", "1\n");
  const int pids[] = {71, 81};
  const ProcessTreeCounters counters = ReadProcessTreeCounters(fake.Open(), pids, true);
  EXPECT_EQ(counters.minor_faults, 30030);
  EXPECT_EQ(counters.major_faults, 7007);
  EXPECT_EQ(counters.user_cpu_ns, 12012 * 10'000'000LL);
  EXPECT_EQ(counters.system_cpu_ns, 14014 * 10'000'000LL);
  EXPECT_EQ(counters.read_syscall_bytes, 11011);
  EXPECT_EQ(counters.read_bytes, 12012);
  EXPECT_EQ(counters.write_bytes, 13013);
  EXPECT_EQ(counters.rss_bytes, 14014 * 1024);
  EXPECT_EQ(counters.rss_anon_bytes, 15015 * 1024);
  EXPECT_EQ(counters.rss_file_bytes, 16016 * 1024);
  EXPECT_EQ(counters.swap_bytes, 17017 * 1024);
  EXPECT_EQ(counters.locked_bytes, 18018 * 1024);
  EXPECT_EQ(counters.cpu_ns, 2 * 21021);
  EXPECT_EQ(counters.run_queue_wait_ns, 2 * 22022);
  EXPECT_EQ(counters.voluntary_context_switches, 2 * 23023);
  EXPECT_EQ(counters.involuntary_context_switches, 2 * 24024);
  EXPECT_EQ(counters.block_io_delay_ns, 2 * 9009 * 10'000'000LL);
  EXPECT_EQ(counters.pss_bytes, 25025 * 1024);
  EXPECT_EQ(counters.threads, 4);
  EXPECT_TRUE(counters.null_reasons.empty());
  ASSERT_EQ(counters.processes.size(), 2);
  EXPECT_EQ(counters.processes[1].pid, 81);
  EXPECT_EQ(counters.processes[1].start_time_ticks, 100000);
}

TEST(ProcessTreeCounters, LeavesDelaysEmptyWhenTheKernelDoesNotCountThem) {
  FakeRoot fake;
  WriteProcess(fake, 71, 1);
  fake.Write("proc/sys/kernel/task_delayacct", "0\n");
  const int pids[] = {71};
  const ProcessTreeCounters counters = ReadProcessTreeCounters(fake.Open(), pids);
  EXPECT_EQ(counters.block_io_delay_ns, std::nullopt);
  EXPECT_THAT(counters.null_reasons.at("block_io_delay_ns"), HasSubstr("task_delayacct"));
  EXPECT_EQ(counters.pss_bytes, std::nullopt);  // not asked for
}

TEST(ProcessTreeCounters, GivesNoSumOverOnlySomeOfTheProcesses) {
  FakeRoot fake;
  WriteProcess(fake, 71, 1);
  WriteProcess(fake, 81, 1000);
  fake.Write("proc/81/io", "rchar: 5\n");  // a kernel without task I/O accounting
  const int pids[] = {71, 81};
  const ProcessTreeCounters counters = ReadProcessTreeCounters(fake.Open(), pids);
  EXPECT_EQ(counters.read_bytes, std::nullopt);
  EXPECT_THAT(counters.null_reasons.at("read_bytes"), HasSubstr("/proc/81"));
  EXPECT_EQ(counters.read_syscall_bytes, 16);
  EXPECT_EQ(counters.major_faults, 7007);
}

TEST(ProcessTreeCounters, GivesNoSumAfterAMalformedFile) {
  FakeRoot fake;
  WriteProcess(fake, 71, 1);
  WriteProcess(fake, 81, 1000);
  fake.Write("proc/71/io", "rchar: x\n");
  const int pids[] = {71, 81};
  const ProcessTreeCounters counters = ReadProcessTreeCounters(fake.Open(), pids);
  EXPECT_EQ(counters.read_bytes, std::nullopt);
  EXPECT_THAT(counters.null_reasons.at("read_bytes"), HasSubstr("/proc/71/io"));
}

TEST(ProcessTreeCounters, LeavesOutAProcessThatHasEnded) {
  FakeRoot fake;
  WriteProcess(fake, 71, 1);
  const int pids[] = {71, 99};
  const ProcessTreeCounters counters = ReadProcessTreeCounters(fake.Open(), pids);
  EXPECT_EQ(counters.read_bytes, 12);
  EXPECT_EQ(counters.processes.size(), 1);
}

TEST(ProcessTreeCounters, TakesTheMemoryOfAZombieAsNone) {
  FakeRoot fake;
  WriteProcess(fake, 71, 1);
  WriteProcess(fake, 81, 1000, 'Z');
  fake.Write("proc/81/status", "Threads: 1\n");
  const int pids[] = {71, 81};
  const ProcessTreeCounters counters = ReadProcessTreeCounters(fake.Open(), pids);
  EXPECT_EQ(counters.rss_bytes, 14 * 1024);
  EXPECT_EQ(counters.major_faults, 7007);
}

TEST(ProcessTreeCounters, SubtractsTotalsAndKeepsLevels) {
  FakeRoot fake;
  WriteProcess(fake, 71, 1);
  const int first[] = {71};
  const ProcessTreeCounters before = ReadProcessTreeCounters(fake.Open(), first);
  fake.Write("proc/71/io", "rchar: 111\nread_bytes: 1012\nwrite_bytes: 13\n");
  fake.Write("proc/71/status", "VmRSS: 99 kB\n");
  WriteProcess(fake, 81, 1000);
  const int both[] = {71, 81};
  const ProcessTreeCounters after = ReadProcessTreeCounters(fake.Open(), both);
  const ProcessTreeCounters difference = CountersBetween(before, after);
  EXPECT_EQ(difference.read_bytes, 1000 + 12000);
  EXPECT_EQ(difference.write_bytes, 13000);
  EXPECT_EQ(difference.rss_bytes, (99 + 14000) * 1024);
  EXPECT_EQ(difference.rss_anon_bytes, std::nullopt);  // gone from 71's file
}

TEST(ProcessTreeCounters, GivesNoDifferenceWhenAProcessEndedOrItsPidWasUsedAgain) {
  FakeRoot fake;
  WriteProcess(fake, 71, 1);
  WriteProcess(fake, 81, 1000);
  const int both[] = {71, 81};
  const int one[] = {71};
  const ProcessTreeCounters before = ReadProcessTreeCounters(fake.Open(), both);
  const ProcessTreeCounters ended =
      CountersBetween(before, ReadProcessTreeCounters(fake.Open(), one));
  EXPECT_EQ(ended.read_bytes, std::nullopt);
  EXPECT_THAT(ended.null_reasons.at("read_bytes"), HasSubstr("81"));
  WriteProcess(fake, 81, 2000);  // starts at another time
  const ProcessTreeCounters reused =
      CountersBetween(before, ReadProcessTreeCounters(fake.Open(), both));
  EXPECT_EQ(reused.major_faults, std::nullopt);
  EXPECT_EQ(reused.threads, 4);
}

}  // namespace
}  // namespace rouse::os
