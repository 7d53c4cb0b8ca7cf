#include "os/machine_cpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/time.h"
#include "os/fake_root.h"

namespace rouse::os {
namespace {

constexpr int64_t kTickNs = kNsPerSecond / 100;

TEST(MachineCpu, AddsWhatIsWorkAndWhatIsNot) {
  FakeRoot fake;
  fake.Write("proc/stat",
             "cpu  1000 200 30 4000000 500000 60 7 80000 900 10\n"
             "cpu0 1 2 3 4 5 6 7 8 9 10\nintr 5\n");
  const Result<MachineCpu> cpu = ReadMachineCpu(fake.Open());
  ASSERT_TRUE(cpu.ok()) << cpu.error().message();
  // Guests' time is in user's already.
  EXPECT_EQ(cpu->busy_ns, 1297 * kTickNs);
  EXPECT_EQ(cpu->idle_ns, 4500000 * kTickNs);
  EXPECT_EQ(cpu->stolen_ns, 80000 * kTickNs);
}

TEST(MachineCpu, RefusesMissingMalformedShortAndEmptyFiles) {
  FakeRoot fake;
  EXPECT_EQ(ReadMachineCpu(fake.Open()).error().code(), ErrorCode::kNotFound);
  for (const char* const bad : {"", "cpu\n", "cpu  1 2 3 4 5 6 7\n", "cpu  1 2 3 x 5 6 7 8 9\n",
                                "cpu0 1 2 3 4 5 6 7 8 9 10\n", "intr 1 2 3 4 5 6 7 8 9\n"}) {
    fake.Write("proc/stat", bad);
    EXPECT_EQ(ReadMachineCpu(fake.Open()).error().code(), ErrorCode::kCorrupt) << bad;
  }
}

TEST(MachineCpu, CountsWorkOfThisVeryProcess) {
  const Result<MachineCpu> before = ReadMachineCpu(ProcRoot::Real());
  ASSERT_TRUE(before.ok());
  const MonoTime until = MonoNow() + 200 * kNsPerMs;
  while (MonoNow() < until) {
  }
  const Result<MachineCpu> after = ReadMachineCpu(ProcRoot::Real());
  ASSERT_TRUE(after.ok());
  // Some of the 200 ms can be taken by others, whose work counts as well.
  EXPECT_GE(after->busy_ns - before->busy_ns, 100 * kNsPerMs);
}

}  // namespace
}  // namespace rouse::os
