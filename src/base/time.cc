#include "base/time.h"

#include <algorithm>
#include <ctime>
#include <limits>

namespace rouse {
namespace {

int64_t ReadClockNs(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return int64_t{now.tv_sec} * kNsPerSecond + now.tv_nsec;
}

class MachineClock final : public Clock {
 public:
  MonoTime Now() override { return MonoNow(); }
  void SleepUntil(MonoTime deadline) override {
    timespec until{};
    until.tv_sec = deadline.ns / kNsPerSecond;
    until.tv_nsec = deadline.ns % kNsPerSecond;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  }
};

}  // namespace

MonoTime MonoNow() { return {ReadClockNs(CLOCK_MONOTONIC)}; }

int64_t WallNowNs() { return ReadClockNs(CLOCK_REALTIME); }

int64_t SuspendedNs() {
  // In this order the difference is never negative; the smallest of three leaves out a reading in
  // which something came between the two clocks.
  int64_t least_ns = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 3; ++i) {
    const int64_t monotonic_ns = ReadClockNs(CLOCK_MONOTONIC);
    least_ns = std::min(least_ns, ReadClockNs(CLOCK_BOOTTIME) - monotonic_ns);
  }
  return least_ns;
}

std::string FormatWallTime(int64_t wall_ns) {
  const time_t seconds = wall_ns / kNsPerSecond;
  tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  const size_t length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, length};
}

Clock& RealClock() {
  static MachineClock clock;
  return clock;
}

}  // namespace rouse
