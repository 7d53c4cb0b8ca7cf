// How a device is read best, remembered between runs: which way of reading won when it was probed,
// how fast that was, and when. One line a device in a small text file of the user's state folder.
// Nothing here touches the device.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/reader.h"
#include "os/proc_root.h"

namespace rouse::loader {

// A way of reading: what can be chosen.
struct ReadSetup {
  ReadMethod method = ReadMethod::kPopulate;
  int threads = 1;
  int64_t window_bytes = int64_t{4} << 20;

  bool operator==(const ReadSetup&) const = default;
};
// "populate, 1 thread, 4 MiB"
std::string SetupText(const ReadSetup& setup);

// The ways that a probe tries; the first is the one to use unless another is clearly faster.
std::span<const ReadSetup> CandidateSetups();

struct MeasuredSetup {
  ReadSetup setup;
  std::vector<int64_t> bytes_per_s;  // of each slice that it read

  int64_t Typical() const;  // the median; 0 without a slice
};
// Fewer slices tell nothing.
inline constexpr int kTellingSlices = 3;

// The first of `measured`, which is the default, unless another way was clearly faster: by 15 %
// even in its slowest slice than the default in its fastest. A start has other work on the same
// cores, so that single slices differ by more than ways of reading do, and more threads cost more.
// So one reader stays where several make the device seek, whatever the device says of itself
// (virtual disks claim to be rotational). `measured` must not be empty.
const MeasuredSetup& ChooseSetup(std::span<const MeasuredSetup> measured);

struct DeviceProfile {
  std::string device;  // DeviceKey()
  ReadSetup setup;
  int64_t bytes_per_s = 0;  // of the probe, then a running mean of real loads
  int64_t probed_wall_s = 0;
  int strange_loads = 0;  // in a row, whose rate was far from the remembered one
};

// Of the device under a file, by which it is found again: name, model and size of the disk, or the
// source of a file system without one ("nfs server:/export"). No blanks in it. About 200 us.
std::string DeviceKey(const os::ProcRoot& root, const std::string& path);

// Whether the device is to be probed (again): never was, longer than 30 days ago, or two loads in a
// row were more than twice or less than half as fast as remembered.
bool NeedsProbe(const std::optional<DeviceProfile>& profile, int64_t wall_s);

// Takes a load's rate in. Loads of less than 64 MiB tell nothing.
void LearnRate(DeviceProfile& profile, int64_t read_bytes, int64_t duration_ns);

// $XDG_STATE_HOME/rouse/devices, else ~/.local/state/rouse/devices; "" when neither says where.
std::string DefaultProfilesPath();

// The remembered devices. A file that is missing or can't be read in this format is an empty list:
// it is only a memory.
std::vector<DeviceProfile> ReadProfiles(const std::string& path);
std::optional<DeviceProfile> FindProfile(const std::string& path, std::string_view device);

// Replaces the device's line, by a temporary file and a rename; makes the folder. Two processes
// that save at once lose one of the two lines, no more.
Status SaveProfile(const std::string& path, const DeviceProfile& profile);

}  // namespace rouse::loader
