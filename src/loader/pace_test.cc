#include "loader/pace.h"

#include <gtest/gtest.h>

#include "base/fake_clock.h"
#include "os/fake_root.h"

namespace rouse::loader {
namespace {

constexpr int64_t kMs = kNsPerMs;

PaceInput Quiet() {
  return {.interval_ns = 100 * kMs,
          .own_cpu_ns = 20 * kMs,
          .cpu_wait_ns = 0,
          .memory_wait_ns = 0,
          .computing = false};
}

TEST(Pace, ReadsAtFullSpeedWhileNobodyElseWaits) {
  EXPECT_EQ(Decide(Quiet()).sleep_ns, 0);
  PaceInput untold = Quiet();
  untold.cpu_wait_ns.reset();
  untold.memory_wait_ns.reset();
  EXPECT_EQ(Decide(untold).sleep_ns, 0);
}

TEST(Pace, TakesATwentiethOfACoreWhileAModelComputesOrOthersWaitForOne) {
  PaceInput input = Quiet();
  input.own_cpu_ns = 10 * kMs;  // in 100 ms: a tenth
  input.computing = true;
  EXPECT_EQ(Decide(input).sleep_ns, 100 * kMs);  // 10 ms of 200
  input.computing = false;
  input.cpu_wait_ns = 50 * kMs;
  EXPECT_EQ(Decide(input).sleep_ns, 100 * kMs);
  input.own_cpu_ns = 4 * kMs;
  EXPECT_LE(Decide(input).sleep_ns, 0);
}

TEST(Pace, NeverSleepsForLong) {
  PaceInput input = Quiet();
  input.own_cpu_ns = 100 * kMs;
  input.computing = true;
  EXPECT_EQ(Decide(input).sleep_ns, 200 * kMs);
}

TEST(Pace, SaysWhenMemoryIsShort) {
  PaceInput input = Quiet();
  input.memory_wait_ns = 5 * kMs;
  EXPECT_FALSE(Decide(input).memory_is_short);
  input.memory_wait_ns = 15 * kMs;
  EXPECT_TRUE(Decide(input).memory_is_short);
  EXPECT_GT(Decide(input).sleep_ns, 0);
}

std::string Pressure(int64_t total_us) {
  return "some avg10=0.00 avg60=0.00 avg300=0.00 total=" + std::to_string(total_us) +
         "\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
}

TEST(Pacer, GivesUpReadingAheadWhenMemoryStaysShort) {
  os::FakeRoot root;
  FakeClock clock;
  root.Write("proc/pressure/memory", Pressure(0)).Write("proc/pressure/cpu", Pressure(0));
  const os::ProcRoot open = root.Open();
  Pacer pacer(open, clock);
  Pacer::Thread thread(pacer);
  const std::atomic<bool> cancel{false};
  int64_t total_us = 0;
  int rounds = 0;
  do {
    ASSERT_LT(++rounds, 20);
    clock.now = clock.now + 30 * kMs;
    total_us += 50'000;
    root.Write("proc/pressure/memory", Pressure(total_us));
  } while (thread.Pause(cancel));
  EXPECT_EQ(rounds, 4);
  EXPECT_GT(pacer.slept_ns(), 0);
  // Calm again: one quiet look is enough to go on.
  clock.now = clock.now + 30 * kMs;
  EXPECT_TRUE(thread.Pause(cancel));
}

TEST(Pacer, LooksOnlyNowAndThen) {
  const os::FakeRoot root;  // no pressure files at all: like nobody waits
  FakeClock clock;
  const os::ProcRoot open = root.Open();
  Pacer pacer(open, clock);
  Pacer::Thread thread(pacer);
  const std::atomic<bool> cancel{false};
  const MonoTime start = clock.now;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(thread.Pause(cancel));
  EXPECT_EQ(clock.now, start);
}

}  // namespace
}  // namespace rouse::loader
