#include "lab/machine_clock.h"

#include <gtest/gtest.h>

#include "base/time.h"

namespace rouse::lab {
namespace {

const MachineClocks kBefore = {
    .boot_id = "a", .suspended_ns = 7'000'000'000, .wall_offset_ns = 1'700'000'000'000'000'000};

TEST(ClockWarnings, SayNothingWhenNothingHappened) {
  MachineClocks now = kBefore;
  now.suspended_ns += 2'000;      // read one after the other
  now.wall_offset_ns -= 900'000;  // taken off the CPU in between
  EXPECT_TRUE(ClockWarnings(kBefore, now).empty());
}

TEST(ClockWarnings, TellASuspendAndHowLongItWas) {
  MachineClocks now = kBefore;
  now.suspended_ns += 90 * kNsPerSecond;
  const auto warnings = ClockWarnings(kBefore, now);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].code, "suspended");
  EXPECT_NE(warnings[0].message.find("90.0 s"), std::string::npos) << warnings[0].message;
}

TEST(ClockWarnings, TellAStepOfTheWallClockInEitherDirection) {
  MachineClocks now = kBefore;
  now.wall_offset_ns += 3 * kNsPerSecond;
  ASSERT_EQ(ClockWarnings(kBefore, now).size(), 1U);
  EXPECT_EQ(ClockWarnings(kBefore, now)[0].code, "clock_stepped");
  EXPECT_NE(ClockWarnings(kBefore, now)[0].message.find("forward"), std::string::npos);
  EXPECT_NE(ClockWarnings(now, kBefore)[0].message.find("back"), std::string::npos);
}

TEST(ClockWarnings, TellARebootAndNothingElseThen) {
  MachineClocks now = {.boot_id = "b", .suspended_ns = 0, .wall_offset_ns = 0};
  const auto warnings = ClockWarnings(kBefore, now);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].code, "rebooted");
  now.boot_id = "";  // not told: no reboot is claimed
  now.suspended_ns = kBefore.suspended_ns;
  now.wall_offset_ns = kBefore.wall_offset_ns;
  EXPECT_TRUE(ClockWarnings(kBefore, now).empty());
}

TEST(MachineClocks, OfThisMachineStandStill) {
  const MachineClocks first = ReadMachineClocks(os::ProcRoot::Real());
  const MachineClocks second = ReadMachineClocks(os::ProcRoot::Real());
  EXPECT_FALSE(first.boot_id.empty());
  EXPECT_TRUE(ClockWarnings(first, second).empty());
}

}  // namespace
}  // namespace rouse::lab
