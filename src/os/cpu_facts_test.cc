#include "os/cpu_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::HasSubstr;

using testing::ElementsAre;

constexpr char kCpuinfo[] =
    "processor\t: 0\nmodel name\t: Some CPU\nmicrocode\t: 0x42\ncpu MHz\t\t: 2596.125\n"
    "physical id\t: 0\ncore id\t\t: 0\nflags\t\t: fpu avx2 hypervisor fma nonavx512f\n\n"
    "processor\t: 1\nmodel name\t: Other\nphysical id\t: 0\ncore id\t\t: 0\nflags\t\t: fpu\n\n";

TEST(CpuFacts, ReadsEverything) {
  FakeRoot fake;
  fake.Write("proc/cpuinfo", kCpuinfo);
  const std::string cpu = "sys/devices/system/cpu/";
  fake.Write(cpu + "smt/active", "1\n").Write(cpu + "cpufreq/boost", "1\n");
  fake.Write(cpu + "cpu0/cpufreq/scaling_driver", "amd-pstate\n");
  fake.Write(cpu + "cpu0/cpufreq/scaling_governor", "powersave\n");
  fake.Write(cpu + "cpu0/cpufreq/energy_performance_preference", "balance_power\n");
  fake.Write(cpu + "cpu0/cpufreq/scaling_cur_freq", "1001\n");
  fake.Write(cpu + "cpu0/cpufreq/scaling_min_freq", "1002\n");
  fake.Write(cpu + "cpu0/cpufreq/scaling_max_freq", "1003\n");
  fake.Write(cpu + "cpuidle/current_driver", "acpi_idle\n");
  fake.Write(cpu + "cpuidle/current_governor", "menu\n");
  fake.Write(cpu + "cpu0/cpuidle/state0/name", "POLL\n");
  fake.Write(cpu + "cpu0/cpuidle/state1/name", "C6\n");
  fake.Write(cpu + "cpu0/cpuidle/state1/latency", "133\n");
  fake.Write(cpu + "cpu0/cpuidle/state1/disable", "0\n");
  const Result<CpuFacts> facts = ReadCpuFacts(fake.Open());
  ASSERT_TRUE(facts.ok()) << facts.error().message();
  EXPECT_EQ(facts->model, "Some CPU");
  EXPECT_EQ(facts->microcode, "0x42");
  EXPECT_DOUBLE_EQ(*facts->cpu0_mhz, 2596.125);
  EXPECT_EQ(facts->online_cpus, 2);
  EXPECT_EQ(facts->physical_cores, 1);
  EXPECT_EQ(facts->virtual_machine, true);
  EXPECT_EQ(facts->smt_active, true);
  EXPECT_EQ(facts->boost, true);
  EXPECT_EQ(facts->frequency_driver, "amd-pstate");
  EXPECT_EQ(facts->governor, "powersave");
  EXPECT_EQ(facts->energy_preference, "balance_power");
  EXPECT_EQ(facts->current_khz, 1001);
  EXPECT_EQ(facts->lowest_khz, 1002);
  EXPECT_EQ(facts->highest_khz, 1003);
  EXPECT_EQ(facts->idle_driver, "acpi_idle");
  EXPECT_EQ(facts->idle_governor, "menu");
  ASSERT_EQ(facts->idle_states.size(), 2);
  EXPECT_EQ(facts->idle_states[0].exit_latency_us, std::nullopt);
  EXPECT_EQ(facts->idle_states[1].name, "C6");
  EXPECT_EQ(facts->idle_states[1].exit_latency_us, 133);
  EXPECT_EQ(facts->idle_states[1].disabled, false);
  EXPECT_THAT(facts->vector_flags, ElementsAre("avx2", "fma"));
}

TEST(CpuFacts, ReadsTheOtherNameOfTheBoostSwitch) {
  FakeRoot fake;
  fake.Write("proc/cpuinfo", kCpuinfo);
  fake.Write("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
  EXPECT_EQ(ReadCpuFacts(fake.Open())->boost, false);
}

TEST(CpuFacts, RefusesMissingMalformedAndEmptyFiles) {
  FakeRoot fake;
  EXPECT_EQ(ReadCpuFacts(fake.Open()).error().code(), ErrorCode::kNotFound);
  for (const char* const bad : {"", "not a list\n"}) {
    fake.Write("proc/cpuinfo", bad);
    const Result<CpuFacts> facts = ReadCpuFacts(fake.Open());
    EXPECT_EQ(facts.error().code(), ErrorCode::kCorrupt);
    EXPECT_THAT(facts.error().message(), HasSubstr("/proc/cpuinfo"));
  }
}

TEST(CpuFacts, LeavesWhatAVirtualMachineLacksEmpty) {
  FakeRoot fake;
  fake.Write("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd asimddp\n");
  const Result<CpuFacts> facts = ReadCpuFacts(fake.Open());
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->model, std::nullopt);
  EXPECT_EQ(facts->governor, std::nullopt);
  EXPECT_EQ(facts->smt_active, std::nullopt);
  EXPECT_EQ(facts->boost, std::nullopt);
  EXPECT_EQ(facts->virtual_machine, std::nullopt);
  EXPECT_THAT(facts->vector_flags, ElementsAre("asimd", "asimddp"));
}

}  // namespace
}  // namespace rouse::os
