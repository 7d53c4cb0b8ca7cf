// The clocks. Every interval is measured on CLOCK_MONOTONIC (MonoTime); wall time is only a label.
// CLOCK_BOOTTIME minus CLOCK_MONOTONIC is the time spent suspended.
// Never std::chrono::high_resolution_clock: in libstdc++ that is the wall clock, which can step.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace rouse {

// A point on CLOCK_MONOTONIC, in nanoseconds since an unspecified start (boot, on Linux). All
// processes of one machine share it, so stamps of a server and of its client can be subtracted.
struct MonoTime {
  int64_t ns = 0;

  auto operator<=>(const MonoTime&) const = default;
  MonoTime operator+(int64_t delta_ns) const { return {ns + delta_ns}; }
  int64_t operator-(MonoTime other) const { return ns - other.ns; }
};

constexpr int64_t kNsPerUs = 1'000;
constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kNsPerSecond = 1'000'000'000;

// Now on CLOCK_MONOTONIC. About 20 ns (vDSO).
MonoTime MonoNow();

// Nanoseconds since the epoch (CLOCK_REALTIME): a label for people, never subtracted.
int64_t WallNowNs();

// CLOCK_BOOTTIME - CLOCK_MONOTONIC in ns: grows by the time that the machine was suspended. The two
// are read one after the other, so that some tens of nanoseconds are noise.
int64_t SuspendedNs();

// "2026-11-29T19:02:49Z"
std::string FormatWallTime(int64_t wall_ns);

// The seam through which waiting code sees time, so that tests can run a night in a second.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonoTime Now() = 0;
  // Returns at or after `deadline`, or earlier when a signal handler ran.
  virtual void SleepUntil(MonoTime deadline) = 0;

  void SleepFor(int64_t duration_ns) { SleepUntil(Now() + duration_ns); }
};

// The machine's clock; one object for the whole process, safe from any thread.
Clock& RealClock();

}  // namespace rouse
