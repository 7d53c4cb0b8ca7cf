#include "lab/tier_place.h"

#include <sys/statfs.h>

#include <filesystem>
#include <utility>

#include "base/units.h"
#include "models/catalog.h"
#include "os/block_device.h"

namespace rouse::lab {
namespace {

constexpr long kTmpfsMagic = 0x01021994;  // linux/magic.h
// A slower disk would take a minute for every 60 MB, and the kernel's steps of 0.1 s would show.
constexpr int64_t kLeastRate = 1'000'000;

std::string Quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

std::string DirectoryOf(const TierPlace& place, const std::string& model_file) {
  if (!place.directory.empty()) return place.directory;
  return models::FolderOf(model_file);
}

// The disk under the directory, when its reads may be limited.
Result<std::string> LimitableDevice(const std::string& directory) {
  ASSIGN_OR_RETURN(std::string device, os::DeviceUnder(os::ProcRoot::Real(), directory));
  RETURN_IF_ERROR(os::TryReadLimit(device));
  return device;
}

}  // namespace

Result<TierPlace> ParseTierPlace(std::string_view text) {
  TierPlace place;
  if (!text.starts_with(kSimulatedPrefix)) {
    place.directory = text;
    if (text.starts_with('/')) return place;
    return Error(ErrorCode::kUsage,
                 "must be an absolute directory or a simulated disk such as "
                 "simulated:200MB/s, not " +
                     Quoted(text));
  }
  const std::string_view rest = text.substr(kSimulatedPrefix.size());
  const size_t at = rest.find('@');
  std::string_view rate = rest.substr(0, at);
  if (at != std::string_view::npos) {
    place.directory = rest.substr(at + 1);
    if (!place.directory.starts_with('/')) {
      return Error(ErrorCode::kUsage,
                   "has no absolute directory after @ in " + Quoted(text) +
                       "; expected simulated:RATE@DIR, such as simulated:3GB/s@/dev/shm");
    }
  }
  constexpr std::string_view kPerSecond = "/s";
  const Result<int64_t> bytes = rate.ends_with(kPerSecond)
                                    ? ParseBytes(rate.substr(0, rate.size() - kPerSecond.size()))
                                    : Result<int64_t>(Error(ErrorCode::kUsage, "no rate"));
  if (!bytes.ok() || *bytes < kLeastRate) {
    return Error(ErrorCode::kUsage, "has no rate of at least 1MB/s in " + Quoted(text) +
                                        "; expected simulated:RATE, such as simulated:200MB/s");
  }
  place.bytes_per_second = *bytes;
  return place;
}

Result<SimulatedTier> SimulatedTier::Make(const TierPlace& place, const std::string& model_file,
                                          int64_t bytes) {
  SimulatedTier tier;
  const std::string below = DirectoryOf(place, model_file);
  tier.limit_.bytes_per_second = *place.bytes_per_second;
  const Result<std::string> device = LimitableDevice(below);
  if (device.ok()) {
    tier.limit_.device = *device;
    tier.directory_ = below;
    tier.storage_ = StorageText(below);
    return tier;
  }
  Result<os::LoopFileSystem> loop = os::LoopFileSystem::Make(below, bytes);
  if (!loop.ok()) {
    return Error(loop.error().code(),
                 device.error().message() + "; nor a loop device: " + loop.error().message());
  }
  tier.limit_.device = loop->device();
  tier.directory_ = loop->path();
  tier.storage_ = "a loop device over a file on " + StorageText(below);
  tier.loop_ = *std::move(loop);
  RETURN_IF_ERROR(os::TryReadLimit(tier.limit_.device));
  return tier;
}

std::string WhyNotSimulated(const TierPlace& place, const std::string& model_file) {
  const std::string below = DirectoryOf(place, model_file);
  std::error_code failed;
  if (!std::filesystem::is_directory(below, failed)) return "there is no directory " + below;
  const Result<std::string> device = LimitableDevice(below);
  if (device.ok()) return "";
  // A loop device can be limited where that disk can't, if anything can.
  const Status group = os::TryReadLimit("");
  if (!group.ok()) return "reads can't be limited here: " + group.error().message();
  const std::string no_loop = os::WhyNoLoopFileSystem();
  return no_loop.empty() ? "" : device.error().message() + "; " + no_loop;
}

bool IsMemoryFileSystem(const std::string& path) {
  struct statfs file_system{};
  return statfs(path.c_str(), &file_system) == 0 && file_system.f_type == kTmpfsMagic;
}

std::string StorageText(const std::string& directory) {
  const bool memory = IsMemoryFileSystem(directory);
  const Result<os::Storage> storage = os::ReadStorage(os::ProcRoot::Real(), directory);
  if (!storage.ok()) return memory ? "memory" : "unknown";
  return storage->file_system + (memory ? " (memory)" : " on " + storage->source);
}

Result<TierPlaces::Placed> TierPlaces::Place(const std::string& text, const std::string& model_file,
                                             const std::function<bool()>& interrupted) {
  ASSIGN_OR_RETURN(const TierPlace place, ParseTierPlace(text));
  Placed placed;
  std::string directory = place.directory;
  bool moves = true;
  if (place.simulated()) {
    auto found = tiers_.find(text);
    if (found == tiers_.end()) {
      const Result<models::ModelFile> model = models::Resolve(model_file);
      if (!model.ok()) return model.error();
      ASSIGN_OR_RETURN(SimulatedTier made, SimulatedTier::Make(place, model_file, model->bytes));
      found = tiers_.emplace(text, std::move(made)).first;
    }
    directory = found->second.directory();
    moves = !place.directory.empty() || found->second.has_own_file_system();
    placed.limit = found->second.limit();
  }
  placed.file = model_file;
  if (moves) {
    ASSIGN_OR_RETURN(placed.file, copies_.Place(model_file, directory, interrupted));
  }
  return placed;
}

}  // namespace rouse::lab
