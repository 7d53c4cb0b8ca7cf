#include "loader/device_profile.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/check.h"
#include "base/fd.h"
#include "base/strings.h"
#include "base/time.h"
#include "os/block_device.h"

namespace rouse::loader {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kProbeAgeS = int64_t{30} * 24 * 3600;
constexpr double kClearGain = 1.15;
constexpr double kStrangeFactor = 2;
constexpr int kStrangeLoads = 2;
constexpr int64_t kTellingBytes = 64 * kMiB;
constexpr double kNewShare = 0.25;  // of the latest load in the running mean
constexpr std::string_view kHead = "rouse.devices/2";

// Without pread: it takes the cores that tokenizer and model need, for the copy.
constexpr std::array<ReadSetup, 4> kCandidates{{
    {ReadMethod::kPopulate, 1, 4 * kMiB},
    {ReadMethod::kPopulate, 1, 16 * kMiB},
    {ReadMethod::kPopulate, 2, 4 * kMiB},
    {ReadMethod::kPopulate, 4, 4 * kMiB},
}};

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string WithoutBlanks(std::string text) {
  for (char& letter : text) {
    if (static_cast<unsigned char>(letter) <= ' ') letter = '_';
  }
  return text;
}

std::optional<ReadMethod> MethodByName(std::string_view name) {
  for (const ReadMethod method : {ReadMethod::kPopulate, ReadMethod::kPread}) {
    if (ReadMethodName(method) == name) return method;
  }
  return std::nullopt;
}

std::string Line(const DeviceProfile& profile) {
  return profile.device + " " + std::string(ReadMethodName(profile.setup.method)) + " " +
         std::to_string(profile.setup.threads) + " " + std::to_string(profile.setup.window_bytes) +
         " " + std::to_string(profile.bytes_per_s) + " " + std::to_string(profile.probed_wall_s) +
         " " + std::to_string(profile.strange_loads) + "\n";
}

std::optional<DeviceProfile> ParseLine(std::string_view line) {
  const std::vector<std::string_view> fields = SplitAt(line, ' ');
  if (fields.size() != 7) return std::nullopt;
  const std::optional<ReadMethod> method = MethodByName(fields[1]);
  std::array<int64_t, 5> numbers{};
  for (size_t i = 0; i < numbers.size(); ++i) {
    const std::optional<int64_t> number = ParseInt64(fields[i + 2]);
    if (!number || *number < 0) return std::nullopt;
    numbers[i] = *number;
  }
  const auto [threads, window_bytes, bytes_per_s, wall_s, strange] = numbers;
  if (!method || threads < 1 || threads > 64 || window_bytes < 4096 || strange > 1000) {
    return std::nullopt;
  }
  return DeviceProfile{std::string(fields[0]),
                       {*method, static_cast<int>(threads), window_bytes},
                       bytes_per_s,
                       wall_s,
                       static_cast<int>(strange)};
}

}  // namespace

std::string SetupText(const ReadSetup& setup) {
  return std::string(ReadMethodName(setup.method)) + ", " + std::to_string(setup.threads) +
         (setup.threads == 1 ? " thread, " : " threads, ") +
         std::to_string(setup.window_bytes / kMiB) + " MiB";
}

std::span<const ReadSetup> CandidateSetups() { return kCandidates; }

int64_t MeasuredSetup::Typical() const {
  if (bytes_per_s.empty()) return 0;
  std::vector<int64_t> sorted = bytes_per_s;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

const MeasuredSetup& ChooseSetup(std::span<const MeasuredSetup> measured) {
  CHECK(!measured.empty());
  const MeasuredSetup* best = &measured[0];
  const auto tells = [](const MeasuredSetup& one) {
    return std::ssize(one.bytes_per_s) >= kTellingSlices;
  };
  if (!tells(*best)) return *best;
  const auto fastest = static_cast<double>(*std::ranges::max_element(best->bytes_per_s));
  for (const MeasuredSetup& one : measured.subspan(1)) {
    if (!tells(one) || one.Typical() <= best->Typical()) continue;
    const auto slowest = static_cast<double>(*std::ranges::min_element(one.bytes_per_s));
    if (slowest >= kClearGain * fastest) best = &one;
  }
  return *best;
}

std::string DeviceKey(const os::ProcRoot& root, const std::string& path) {
  const Result<os::Storage> storage = os::ReadStorage(root, path);
  if (!storage.ok()) return "unknown";
  if (!storage->device) {
    return WithoutBlanks(storage->file_system + ":" + storage->source + ":" + storage->mount_point);
  }
  const os::BlockDevice& device = *storage->device;
  return WithoutBlanks(device.name + ":" + device.model.value_or("") + ":" +
                       std::to_string(device.size_bytes.value_or(0)) + ":" + storage->file_system);
}

bool NeedsProbe(const std::optional<DeviceProfile>& profile, int64_t wall_s) {
  if (!profile) return true;
  // A clock that was set back makes a profile from the future: probe again.
  const int64_t age_s = wall_s - profile->probed_wall_s;
  return age_s < 0 || age_s > kProbeAgeS || profile->strange_loads >= kStrangeLoads;
}

void LearnRate(DeviceProfile& profile, int64_t read_bytes, int64_t duration_ns) {
  if (read_bytes < kTellingBytes || duration_ns <= 0) return;
  const double rate = static_cast<double>(read_bytes) * 1e9 / static_cast<double>(duration_ns);
  const auto known = static_cast<double>(profile.bytes_per_s);
  if (known <= 0) {
    profile.bytes_per_s = std::llround(rate);
    return;
  }
  const bool strange = rate > known * kStrangeFactor || rate < known / kStrangeFactor;
  profile.strange_loads = strange ? profile.strange_loads + 1 : 0;
  profile.bytes_per_s = std::llround(known * (1 - kNewShare) + rate * kNewShare);
}

std::string DefaultProfilesPath() {
  const std::string state = Variable("XDG_STATE_HOME");
  if (!state.empty()) return state + "/rouse/devices";
  const std::string home = Variable("HOME");
  return home.empty() ? "" : home + "/.local/state/rouse/devices";
}

std::vector<DeviceProfile> ReadProfiles(const std::string& path) {
  const Result<std::string> text = ReadSmallFile(path, 1U << 20U);
  if (!text.ok()) return {};
  std::vector<DeviceProfile> profiles;
  bool first = true;
  for (const std::string_view line : SplitAt(*text, '\n')) {
    if (first && line != kHead) return {};
    if (!first) {
      if (std::optional<DeviceProfile> profile = ParseLine(line)) {
        profiles.push_back(std::move(*profile));
      }
    }
    first = false;
  }
  return profiles;
}

std::optional<DeviceProfile> FindProfile(const std::string& path, std::string_view device) {
  for (DeviceProfile& profile : ReadProfiles(path)) {
    if (profile.device == device) return std::move(profile);
  }
  return std::nullopt;
}

Status SaveProfile(const std::string& path, const DeviceProfile& profile) {
  if (path.empty()) return Error(ErrorCode::kNotFound, "no folder for state: HOME is not set");
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  if (failed) return Error(ErrorCode::kIo, "cannot make the folder of " + path);
  std::string text = std::string(kHead) + "\n";
  for (const DeviceProfile& other : ReadProfiles(path)) {
    if (other.device != profile.device) text += Line(other);
  }
  text += Line(profile);
  const std::string temporary = path + "." + std::to_string(getpid());
  {
    ASSIGN_OR_RETURN(const Fd file, OpenFile(temporary, O_WRONLY | O_CREAT | O_TRUNC));
    RETURN_IF_ERROR(WriteAll(file.get(), text));
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error_number = errno;
    unlink(temporary.c_str());
    return Error::FromErrno(error_number, "cannot replace " + path);
  }
  return {};
}

}  // namespace rouse::loader
