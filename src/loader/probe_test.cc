#include "loader/probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/fake_clock.h"

namespace rouse::loader {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kWindow = 4 * kMiB;

// A device whose rate depends on the way of reading, and a page cache into which it reads ahead.
class FakeDevice {
 public:
  ProbeActions Actions() {
    return {.skip_resident = [this](Work& work) { return SkipResident(work); },
            .read = [this](const ReadSetup& setup, const Work& work) { return Read(setup, work); },
            .cancelled = [this] { return cancelled; }};
  }

  std::map<int, int64_t> bytes_per_s;  // by threads
  int64_t read_ahead_bytes = 4 * kMiB;
  std::map<int64_t, int64_t> resident;  // offset of a window of kWindow -> bytes
  FakeClock clock;
  bool cancelled = false;
  bool fails = false;
  int64_t read_bytes = 0;

 private:
  int64_t SkipResident(Work& work) {
    int64_t bytes = 0;
    std::erase_if(work.windows, [&](const Window& window) {
      int64_t here = 0;
      for (int64_t at = window.offset; at < window.offset + window.bytes; at += kWindow) {
        here += resident.contains(at) ? resident[at] : 0;
      }
      bytes += here;
      return here == window.bytes;
    });
    return bytes;
  }

  Status Read(const ReadSetup& setup, const Work& work) {
    if (fails) return Error(ErrorCode::kIo, "the device failed");
    for (const Window& window : work.windows) {
      const int64_t end = window.offset + window.bytes + read_ahead_bytes;
      for (int64_t at = window.offset; at < end; at += kWindow) resident[at] = kWindow;
      read_bytes += window.bytes;
      clock.SleepFor(window.bytes * kNsPerSecond / bytes_per_s.at(setup.threads));
    }
    return {};
  }
};

Work WorkOf(int64_t bytes) {
  Work work;
  for (int64_t at = 0; at < bytes; at += kWindow) work.windows.push_back({at, kWindow, false});
  work.wanted_bytes = bytes;
  return work;
}

TEST(ProbeDevice, MeasuresWhatTheDeviceGivesThreeTimesForEachWay) {
  FakeDevice device;
  device.bytes_per_s = {{1, 1000 * kMiB}, {2, 1500 * kMiB}, {4, 3000 * kMiB}};
  const auto measured = ProbeDevice(WorkOf(kProbeFromBytes), device.Actions(), device.clock);
  ASSERT_EQ(measured.size(), CandidateSetups().size());
  for (const MeasuredSetup& one : measured) {
    ASSERT_EQ(one.bytes_per_s.size(), kTellingSlices) << SetupText(one.setup);
    for (const int64_t rate : one.bytes_per_s) {
      EXPECT_NEAR(static_cast<double>(rate),
                  static_cast<double>(device.bytes_per_s[one.setup.threads]), 1e6);
    }
  }
  EXPECT_EQ(ChooseSetup(measured).setup.threads, 4);
  EXPECT_LT(device.read_bytes, kProbeFromBytes);
}

TEST(ProbeDevice, CountsNoSliceThatIsResident) {
  FakeDevice device;
  device.bytes_per_s = {{1, 1000 * kMiB}, {2, 1000 * kMiB}, {4, 1000 * kMiB}};
  device.read_ahead_bytes = 64 * kMiB;  // beyond the gap: a slice after the first one is there
  const auto measured = ProbeDevice(WorkOf(kProbeFromBytes), device.Actions(), device.clock);
  for (const MeasuredSetup& one : measured) EXPECT_LT(one.bytes_per_s.size(), kTellingSlices);
  EXPECT_EQ(ChooseSetup(measured).setup, CandidateSetups().front());
}

TEST(ProbeDevice, EndsOnASlowDeviceWithTheDefault) {
  FakeDevice device;
  device.bytes_per_s = {{1, 100 * kMiB}, {2, 60 * kMiB}, {4, 30 * kMiB}};
  const MonoTime start = device.clock.Now();
  const auto measured = ProbeDevice(WorkOf(kProbeFromBytes), device.Actions(), device.clock);
  EXPECT_EQ(ChooseSetup(measured).setup, CandidateSetups().front());
  // Half a second and the slice that was under way.
  EXPECT_LT(device.clock.Now() - start, kNsPerSecond);
}

TEST(ProbeDevice, IsEmptyWhenCancelledAndWhenReadingFails) {
  FakeDevice device;
  device.bytes_per_s = {{1, 1000 * kMiB}, {2, 1000 * kMiB}, {4, 1000 * kMiB}};
  device.cancelled = true;
  EXPECT_TRUE(ProbeDevice(WorkOf(kProbeFromBytes), device.Actions(), device.clock).empty());
  EXPECT_EQ(device.read_bytes, 0);
  device.cancelled = false;
  device.fails = true;
  EXPECT_TRUE(ProbeDevice(WorkOf(kProbeFromBytes), device.Actions(), device.clock).empty());
}

}  // namespace
}  // namespace rouse::loader
