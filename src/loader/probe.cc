#include "loader/probe.h"

#include <algorithm>
#include <span>

namespace rouse::loader {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kSliceBytes = 16 * kMiB;  // long enough for the kernel to read ahead in it
constexpr int64_t kGapBytes = 8 * kMiB;
constexpr int kRounds = kTellingSlices;
constexpr int64_t kLimitNs = 500 * kNsPerMs;

// The windows that one way may read, and how far it is.
struct Region {
  size_t next = 0;
  size_t end = 0;
};

// The next `bytes` of the region, cut anew; then the gap.
Work TakeSlice(const Work& work, Region& region, int64_t bytes, int64_t window_bytes) {
  Work slice;
  while (region.next < region.end && slice.wanted_bytes < bytes) {
    const Window& window = work.windows[region.next++];
    slice.wanted_bytes += window.bytes;
    Window* const last = slice.windows.empty() ? nullptr : &slice.windows.back();
    const bool joins = last != nullptr && last->offset + last->bytes == window.offset &&
                       last->bytes + window.bytes <= window_bytes;
    if (joins) {
      last->bytes += window.bytes;
    } else {
      slice.windows.push_back(window);
    }
  }
  for (int64_t gap = 0; region.next < region.end && gap < kGapBytes; ++region.next) {
    gap += work.windows[region.next].bytes;
  }
  return slice;
}

}  // namespace

std::vector<MeasuredSetup> ProbeDevice(const Work& work, const ProbeActions& actions,
                                       Clock& clock) {
  const std::span<const ReadSetup> candidates = CandidateSetups();
  std::vector<MeasuredSetup> measured;
  std::vector<Region> regions;
  for (size_t i = 0; i < candidates.size(); ++i) {
    measured.push_back({candidates[i], {}});
    regions.push_back({work.windows.size() * i / candidates.size(),
                       work.windows.size() * (i + 1) / candidates.size()});
  }
  const MonoTime start = clock.Now();
  for (int round = 0; round < kRounds; ++round) {
    for (size_t turn = 0; turn < candidates.size(); ++turn) {
      if (actions.cancelled()) return {};
      if (clock.Now() - start > kLimitNs) return measured;
      const size_t i = round % 2 == 0 ? turn : candidates.size() - 1 - turn;
      const ReadSetup& setup = candidates[i];
      const int64_t bytes = std::max(kSliceBytes, setup.window_bytes * setup.threads);
      Work slice = TakeSlice(work, regions[i], bytes, setup.window_bytes);
      const int64_t missing_bytes = slice.wanted_bytes - actions.skip_resident(slice);
      const MonoTime before = clock.Now();
      if (!actions.read(setup, slice).ok()) return {};
      const int64_t took_ns = std::max<int64_t>(1, clock.Now() - before);
      if (missing_bytes <= slice.wanted_bytes / 2) continue;
      measured[i].bytes_per_s.push_back(static_cast<int64_t>(static_cast<double>(missing_bytes) *
                                                             static_cast<double>(kNsPerSecond) /
                                                             static_cast<double>(took_ns)));
    }
  }
  return measured;
}

}  // namespace rouse::loader
