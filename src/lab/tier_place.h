// Where a condition's `path` puts the model's file: a directory, or a simulated disk, which is a
// directory whose reads are limited for the server under test. A path of the target is written
//
//   /mnt/nvme                           a directory
//   simulated:200MB/s                   the directory where the model's file is, slowed
//   simulated:3GB/s@/dev/shm            another one, slowed
//
// Simulated is bandwidth alone: the server's processes are in a control group that may read so many
// bytes a second from the disk under the directory (os/read_limit.h). Where nothing can be limited
// there (memory, a network), a file system on a loop device over a file in it is (os/
// loop_file_system.h). Neither is left behind, however the tool ends.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "lab/model_copy.h"
#include "os/loop_file_system.h"
#include "os/read_limit.h"

namespace rouse::lab {

inline constexpr std::string_view kSimulatedPrefix = "simulated:";

struct TierPlace {
  std::string directory;                    // "" (simulated alone) = where the model's file is
  std::optional<int64_t> bytes_per_second;  // of a simulated one
  bool simulated() const { return bytes_per_second.has_value(); }
};

// kUsage, with what was expected, for a relative directory and a rate that is none or is below
// 1 MB/s.
Result<TierPlace> ParseTierPlace(std::string_view text);

// A simulated disk that stands. Destroyed: its loop device is gone. One thread.
class SimulatedTier {
 public:
  // `model_file` is where a place without a directory lies; a loop device gets room for `bytes`.
  // Errors: kPermission, kUnsupported, as the kernel says.
  static Result<SimulatedTier> Make(const TierPlace& place, const std::string& model_file,
                                    int64_t bytes);

  const std::string& directory() const { return directory_; }
  bool has_own_file_system() const { return loop_.has_value(); }
  const os::ReadLimit& limit() const { return limit_; }
  // "ext4 on /dev/vda", "a loop device over a file on tmpfs"
  const std::string& storage() const { return storage_; }

 private:
  std::string directory_;
  std::string storage_;
  os::ReadLimit limit_;
  std::optional<os::LoopFileSystem> loop_;
};

// "" when this machine and user may have it; tries what leaves nothing.
std::string WhyNotSimulated(const TierPlace& place, const std::string& model_file);

// "ext4 on /dev/vda", "tmpfs (memory)", "unknown".
std::string StorageText(const std::string& directory);
bool IsMemoryFileSystem(const std::string& path);

// The places of a run's conditions, each made when it is first used and kept until the end.
class TierPlaces {
 public:
  struct Placed {
    std::string file;
    std::optional<os::ReadLimit> limit;  // for the processes that load it
  };
  // `text` as the target's paths have it. Errors: as ModelCopies::Place and SimulatedTier::Make.
  Result<Placed> Place(const std::string& text, const std::string& model_file,
                       const std::function<bool()>& interrupted);

 private:
  std::map<std::string, SimulatedTier> tiers_;  // by text; outlive the copies in them
  ModelCopies copies_;
};

}  // namespace rouse::lab
