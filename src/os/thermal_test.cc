#include "os/thermal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::HasSubstr;

using testing::IsEmpty;

TEST(Thermal, ReadsZonesAndThrottleCounts) {
  FakeRoot fake;
  fake.Write("sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n");
  fake.Write("sys/class/thermal/thermal_zone0/temp", "48500\n");
  fake.Write("sys/class/thermal/thermal_zone1/type", "acpitz\n");
  fake.Write("sys/class/thermal/thermal_zone1/temp", "not now\n");
  fake.Write("sys/class/thermal/cooling_device0/type", "Processor\n");
  fake.Write("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n");
  fake.Write("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "40\n");
  fake.Write("sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "5\n");
  const Thermal thermal = ReadThermal(fake.Open());
  ASSERT_EQ(thermal.zones.size(), 2);
  EXPECT_EQ(thermal.zones[0].type, "x86_pkg_temp");
  EXPECT_DOUBLE_EQ(*thermal.zones[0].celsius, 48.5);
  EXPECT_THAT(thermal.zones[1].type, HasSubstr("acpi"));
  EXPECT_EQ(thermal.zones[1].celsius, std::nullopt);
  EXPECT_EQ(thermal.core_throttles, 43);
  EXPECT_EQ(thermal.package_throttles, 5);
}

TEST(Thermal, IsEmptyOnAMachineThatTellsNothing) {
  FakeRoot fake;
  fake.Write("sys/class/thermal/thermal_zone0/type", "");
  const Thermal thermal = ReadThermal(fake.Open());
  EXPECT_THAT(thermal.zones, IsEmpty());
  EXPECT_EQ(thermal.core_throttles, std::nullopt);
}

}  // namespace
}  // namespace rouse::os
