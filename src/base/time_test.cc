#include "base/time.h"

#include <gtest/gtest.h>

namespace rouse {
namespace {

TEST(MonoTime, NeverGoesBack) {
  MonoTime last = MonoNow();
  for (int i = 0; i < 10'000; ++i) {
    const MonoTime now = MonoNow();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(RealClock, SleepsAtLeastAsLongAsAsked) {
  const MonoTime start = RealClock().Now();
  RealClock().SleepFor(3 * kNsPerMs);
  EXPECT_GE(RealClock().Now() - start, 3 * kNsPerMs);
}

TEST(SuspendedNs, IsNeverNegativeAndSteadyWhileTheMachineRuns) {
  const int64_t first_ns = SuspendedNs();
  EXPECT_GE(first_ns, 0);
  EXPECT_LT(SuspendedNs() - first_ns, kNsPerMs);
}

TEST(FormatWallTime, IsUtc) {
  EXPECT_EQ(FormatWallTime(1'700'000'000 * kNsPerSecond), "2023-11-14T22:13:20Z");
}

}  // namespace
}  // namespace rouse
