#include "os/gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Nvml, ReadsEveryFieldOfADevice) {
  const Result<std::vector<Gpu>> gpus = ReadNvidiaGpus(ROUSE_FAKE_NVML);
  ASSERT_TRUE(gpus.ok()) << gpus.error().message();
  ASSERT_EQ(gpus->size(), 2);
  const Gpu& gpu = (*gpus)[0];
  EXPECT_EQ(gpu.vendor, "nvidia");
  EXPECT_EQ(gpu.name, "First GPU");
  EXPECT_EQ(gpu.driver_version, "555.42");
  EXPECT_EQ(gpu.bus_id, "0000:6a:00.0");  // as sysfs writes it
  EXPECT_EQ(gpu.memory_total_bytes, 1001);
  EXPECT_EQ(gpu.memory_used_bytes, 1003);
  EXPECT_EQ(gpu.clock_hz, 1004'000'000);
  EXPECT_EQ(gpu.memory_clock_hz, 1005'000'000);
  EXPECT_EQ(gpu.clock_max_hz, 1006'000'000);
  EXPECT_EQ(gpu.performance_state, 8);
  EXPECT_DOUBLE_EQ(*gpu.celsius, 41.0);
  EXPECT_EQ(gpu.power_mw, 1007);
  EXPECT_EQ(gpu.busy_percent, 12);
  EXPECT_EQ(gpu.persistence_mode, true);
}

TEST(Nvml, ListsMoreProcessesThanTheFirstCallHadRoomFor) {
  const Result<std::vector<Gpu>> gpus = ReadNvidiaGpus(ROUSE_FAKE_NVML);
  ASSERT_TRUE(gpus.ok());
  ASSERT_EQ((*gpus)[0].processes.size(), 70);
  EXPECT_EQ((*gpus)[0].processes[0].pid, 100);
  EXPECT_EQ((*gpus)[0].processes[0].memory_bytes, 2000);
  EXPECT_EQ((*gpus)[0].processes[1].memory_bytes, std::nullopt);  // the driver does not tell
  EXPECT_EQ((*gpus)[0].processes[69].memory_bytes, 2069);
}

TEST(Nvml, LeavesWhatADeviceRefusesToTellEmpty) {
  const Result<std::vector<Gpu>> gpus = ReadNvidiaGpus(ROUSE_FAKE_NVML);
  ASSERT_TRUE(gpus.ok());
  const Gpu& gpu = (*gpus)[1];
  EXPECT_EQ(gpu.name, "Second GPU");
  EXPECT_EQ(gpu.bus_id, "");
  EXPECT_EQ(gpu.memory_used_bytes, std::nullopt);
  EXPECT_EQ(gpu.clock_hz, std::nullopt);
  EXPECT_EQ(gpu.performance_state, std::nullopt);
  EXPECT_EQ(gpu.persistence_mode, std::nullopt);
  EXPECT_THAT(gpu.processes, IsEmpty());
}

TEST(Nvml, SaysThatThereIsNoDriver) {
  const Result<std::vector<Gpu>> gpus = ReadNvidiaGpus("libno-such-nvml.so.1");
  ASSERT_FALSE(gpus.ok());
  EXPECT_EQ(gpus.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(gpus.error().message(), HasSubstr("no NVIDIA driver"));
}

TEST(Nvml, SaysThatALibraryIsNotNvml) {
  const Result<std::vector<Gpu>> gpus = ReadNvidiaGpus("libc.so.6");
  ASSERT_FALSE(gpus.ok());
  EXPECT_EQ(gpus.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(gpus.error().message(), HasSubstr("nvmlInit_v2"));
}

TEST(Nvml, SaysWhyItDoesNotStart) {
  const auto start = [](const char* status) {
    setenv("FAKE_NVML_INIT", status, 1);
    const Result<std::vector<Gpu>> gpus = ReadNvidiaGpus(ROUSE_FAKE_NVML);
    unsetenv("FAKE_NVML_INIT");
    EXPECT_FALSE(gpus.ok());
    return gpus.ok() ? Error(ErrorCode::kInternal, "it has started") : gpus.error();
  };
  EXPECT_EQ(start("4").code(), ErrorCode::kPermission);
  EXPECT_THAT(start("4").message(), HasSubstr("may not use the GPU"));
  EXPECT_THAT(start("9").message(), HasSubstr("driver is not loaded"));
  EXPECT_THAT(start("18").message(), HasSubstr("different versions"));
  EXPECT_THAT(start("999").message(), HasSubstr("error 999"));
  EXPECT_TRUE(ReadNvidiaGpus(ROUSE_FAKE_NVML).ok());
}

void WriteAmd(FakeRoot& fake) {
  const std::string device = "sys/class/drm/card0/device/";
  fake.Write(device + "vendor", "0x1002\n").Write(device + "device", "0x744c\n");
  fake.Write(device + "uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n");
  fake.Write(device + "mem_info_vram_total", "1001\n");
  fake.Write(device + "mem_info_vram_used", "1002\n");
  fake.Write(device + "gpu_busy_percent", "13\n");
  fake.Write(device + "pp_dpm_sclk", "0: 500Mhz\n1: 1470Mhz *\n2: 2575Mhz\n");
  fake.Write(device + "pp_dpm_mclk", "0: 96Mhz *\n1: 1249Mhz\n");
  fake.Write(device + "power/runtime_status", "active\n");
  fake.Write(device + "hwmon/hwmon3/temp1_input", "45500\n");
  fake.Write(device + "hwmon/hwmon3/power1_average", "17000\n");
  fake.Write("sys/class/drm/card0-DP-1/status", "connected\n");
  fake.Write("sys/class/drm/renderD128/dev", "226:128\n");
}

TEST(SysfsGpus, ReadsAnAmdCard) {
  FakeRoot fake;
  WriteAmd(fake);
  const std::vector<Gpu> gpus = ReadSysfsGpus(fake.Open());
  ASSERT_EQ(gpus.size(), 1);
  EXPECT_EQ(gpus[0].vendor, "amd");
  EXPECT_EQ(gpus[0].name, "amd 0x744c");
  EXPECT_EQ(gpus[0].bus_id, "0000:03:00.0");
  EXPECT_EQ(gpus[0].memory_total_bytes, 1001);
  EXPECT_EQ(gpus[0].memory_used_bytes, 1002);
  EXPECT_EQ(gpus[0].busy_percent, 13);
  EXPECT_EQ(gpus[0].clock_hz, 1470'000'000);
  EXPECT_EQ(gpus[0].clock_max_hz, 2575'000'000);
  EXPECT_EQ(gpus[0].memory_clock_hz, 96'000'000);
  EXPECT_EQ(gpus[0].runtime_status, "active");
  EXPECT_DOUBLE_EQ(*gpus[0].celsius, 45.5);
  EXPECT_EQ(gpus[0].power_mw, 17);
}

TEST(SysfsGpus, ReadsBothOfIntelsDrivers) {
  FakeRoot fake;
  fake.Write("sys/class/drm/card0/device/vendor", "0x8086\n");
  fake.Write("sys/class/drm/card0/gt_act_freq_mhz", "301\n");
  fake.Write("sys/class/drm/card0/gt_max_freq_mhz", "1302\n");
  fake.Write("sys/class/drm/card1/device/vendor", "0x8086\n");
  fake.Write("sys/class/drm/card1/device/tile0/gt0/freq0/act_freq", "403\n");
  fake.Write("sys/class/drm/card1/device/tile0/gt0/freq0/max_freq", "1404\n");
  const std::vector<Gpu> gpus = ReadSysfsGpus(fake.Open());
  ASSERT_EQ(gpus.size(), 2);
  EXPECT_EQ(gpus[0].clock_hz, 301'000'000);
  EXPECT_EQ(gpus[0].clock_max_hz, 1302'000'000);
  EXPECT_EQ(gpus[1].clock_hz, 403'000'000);
  EXPECT_EQ(gpus[1].clock_max_hz, 1404'000'000);
}

TEST(SysfsGpus, LeavesMissingMalformedAndEmptyFilesEmpty) {
  FakeRoot fake;
  WriteAmd(fake);
  fake.Write("sys/class/drm/card0/device/mem_info_vram_used", "some\n");
  fake.Write("sys/class/drm/card0/device/gpu_busy_percent", "");
  fake.Write("sys/class/drm/card0/device/pp_dpm_sclk", "0: fast *\nnothing\n");
  fake.Remove("sys/class/drm/card0/device/pp_dpm_mclk");
  const std::vector<Gpu> gpus = ReadSysfsGpus(fake.Open());
  ASSERT_EQ(gpus.size(), 1);
  EXPECT_EQ(gpus[0].memory_used_bytes, std::nullopt);
  EXPECT_EQ(gpus[0].busy_percent, std::nullopt);
  EXPECT_EQ(gpus[0].clock_hz, std::nullopt);
  EXPECT_EQ(gpus[0].memory_clock_hz, std::nullopt);
  EXPECT_EQ(gpus[0].memory_total_bytes, 1001);
}

TEST(SysfsGpus, PassesOverOtherVendorsAndEmptyMachines) {
  FakeRoot fake;
  EXPECT_THAT(ReadSysfsGpus(fake.Open()), IsEmpty());
  fake.Write("sys/class/drm/card0/device/vendor", "0x10de\n");
  EXPECT_THAT(ReadSysfsGpus(fake.Open()), IsEmpty());
}

TEST(DisplayDevices, AreFoundByTheirPciClass) {
  FakeRoot fake;
  const std::string pci = "sys/bus/pci/devices/";
  fake.Write(pci + "0000:00:1f.0/class", "0x060100\n");
  fake.Write(pci + "0000:65:00.0/class", "0x030200\n");
  fake.Write(pci + "0000:65:00.0/vendor", "0x10de\n");
  fake.Write(pci + "0000:65:00.0/device", "0x2336\n");
  EXPECT_THAT(ListDisplayDevices(fake.Open()), ElementsAre("10de:2336 at 0000:65:00.0"));
}

}  // namespace
}  // namespace rouse::os
