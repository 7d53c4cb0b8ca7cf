// Which way of reading is fastest on a device, tried on some megabytes of a file that are all
// needed anyway. Neither I/O nor a clock of its own: Prefetcher gives both, tests others.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "loader/device_profile.h"
#include "loader/window_runner.h"

namespace rouse::loader {

// A probe of fewer missing bytes than this would cost more than it tells.
inline constexpr int64_t kProbeFromBytes = int64_t{320} << 20;

struct ProbeActions {
  // Drops the windows that are wholly resident; returns the resident bytes of all.
  std::function<int64_t(Work&)> skip_resident;
  std::function<Status(const ReadSetup&, const Work&)> read;
  std::function<bool()> cancelled;
};

// Each of CandidateSetups() reads a few slices in a part of the file of its own, in turns and back
// again, no longer than half a second in all. Between two slices of one way lies a gap, since the
// kernel reads ahead; a slice that is mostly resident all the same tells nothing of the device and
// is not counted. `work` is cut into windows of the default. Empty when it was cancelled, and when
// reading failed, for whoever reads on to tell.
std::vector<MeasuredSetup> ProbeDevice(const Work& work, const ProbeActions& actions, Clock& clock);

}  // namespace rouse::loader
