#include "lab/storage_tiers.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/fd.h"
#include "base/time.h"
#include "base/units.h"
#include "lab/plan_internal.h"
#include "lab/schedule.h"
#include "lab/targets.h"
#include "models/catalog.h"
#include "os/process.h"
#include "os/read_limit.h"

namespace rouse::lab {
namespace {

using Json = nlohmann::json;

constexpr int64_t kBlockBytes = int64_t{1} << 20U;
constexpr int64_t kBytesMin = 16 * kBlockBytes;
constexpr int64_t kAlignment = 4096;
constexpr int64_t kDepthLimitNs = 2 * kNsPerSecond;
constexpr std::array<int, 3> kDepths = {1, 4, 16};

struct Free {
  void operator()(char* block) const { std::free(block); }
};
using Block = std::unique_ptr<char, Free>;

Block AlignedBlock() {
  return Block(
      static_cast<char*>(std::aligned_alloc(kAlignment, static_cast<size_t>(kBlockBytes))));
}

// What a file system could compress away would be read for free.
void FillWithNoise(char* block, SplitMix64& random) {
  for (int64_t i = 0; i < kBlockBytes; i += 8) {
    const uint64_t noise = random.Next();
    std::copy_n(reinterpret_cast<const char*>(&noise), sizeof noise, block + i);
  }
}

Error ErrnoOf(const std::string& what) { return Error::FromErrno(errno, what); }

Status WriteFile(int fd, int64_t blocks, const std::string& directory,
                 const std::function<bool()>& interrupted) {
  SplitMix64 random(0x5eed);
  const Block block = AlignedBlock();
  for (int64_t i = 0; i < blocks; ++i) {
    if (interrupted && interrupted()) return Error(ErrorCode::kInterrupted, "interrupted");
    FillWithNoise(block.get(), random);
    // A disk that fills up takes a part first; only the next call says why.
    for (int64_t done = 0; done < kBlockBytes;) {
      const ssize_t written = pwrite(
          fd, block.get() + done, static_cast<size_t>(kBlockBytes - done), i * kBlockBytes + done);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return ErrnoOf("cannot write a file to measure " + directory);
      done += written;
    }
  }
  if (fdatasync(fd) != 0) return ErrnoOf("cannot write a file to measure " + directory);
  // What follows is read from the device, also where O_DIRECT is not to be had.
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  return {};
}

// `depth` threads take blocks in a shuffled order until all are read or the time is over.
Result<TierDepth> ReadAtDepth(int fd, int64_t blocks, int depth) {
  std::vector<int64_t> order(static_cast<size_t>(blocks));
  for (int64_t i = 0; i < blocks; ++i) order[static_cast<size_t>(i)] = i;
  SplitMix64 random(static_cast<uint64_t>(depth));
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(random.Below(i))]);
  }
  std::atomic<size_t> next = 0;
  std::atomic<int64_t> read_bytes = 0;
  std::atomic<int> error = 0;
  const MonoTime from = MonoNow();
  const auto read = [&] {
    const Block block = AlignedBlock();
    for (size_t i = next++; i < order.size() && error == 0; i = next++) {
      const ssize_t count =
          pread(fd, block.get(), static_cast<size_t>(kBlockBytes), order[i] * kBlockBytes);
      if (count < 0) error = errno;
      if (count > 0) read_bytes += count;
      if (MonoNow() - from > kDepthLimitNs) break;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < depth; ++i) threads.emplace_back(read);
  for (std::thread& thread : threads) thread.join();
  const int64_t took_ns = std::max<int64_t>(1, MonoNow() - from);
  if (error != 0) return Error::FromErrno(error, "cannot read the file that measures a tier");
  const double seconds = static_cast<double>(took_ns) / 1e9;
  return TierDepth{
      .depth = depth,
      .bytes_per_second = static_cast<int64_t>(static_cast<double>(read_bytes.load()) / seconds)};
}

Fd NamelessFile(const std::string& directory) {
  Fd file(open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.valid() || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  // An older network or stacked file system: it has a name for a moment.
  std::string name = directory + "/.rouse-tier-XXXXXX";
  file.Reset(mkostemp(name.data(), O_CLOEXEC));
  if (file.valid()) unlink(name.c_str());
  return file;
}

// Rates that disks of today have: an older NVMe, a SATA SSD, a hard disk reading in order, a memory
// card.
constexpr std::array<int64_t, 4> kDiskMegabytes = {2000, 500, 150, 50};
constexpr size_t kSimulatedByDefault = 2;
// The kernel grants a limit in steps of 0.1 s, the first at once: what takes less than some of them
// is read faster than the limit says.
constexpr double kLeastSeconds = 0.5;

std::string ModelFileOf(const Plan& plan) {
  const std::string& named =
      plan.target.model_file.empty() ? plan.target.model : plan.target.model_file;
  const Result<models::ModelFile> model = models::Resolve(named);
  return model.ok() ? model->path : "";
}

using Places = std::vector<std::pair<std::string, std::string>>;

// Of a preset without --path: what needs no second disk. The two fastest disks for which the model
// is large enough.
Places DefaultPlaces(const std::string& model_file) {
  std::error_code failed;
  const auto bytes = std::filesystem::file_size(model_file, failed);
  Places places;
  for (const int64_t rate : kDiskMegabytes) {
    const double seconds =
        failed ? 1 : static_cast<double>(bytes) / 1e6 / static_cast<double>(rate);
    const std::string name = std::to_string(rate) + "MB";
    if (seconds < kLeastSeconds && rate != kDiskMegabytes.back()) continue;
    places.emplace_back(name + "ps", std::string(kSimulatedPrefix) + name + "/s");
    if (places.size() == kSimulatedByDefault) break;
  }
  places.emplace_back("ram", "/dev/shm");
  return places;
}

// Why a tier that nobody asked for by name is not to be had.
std::string WhyNotByDefault(const std::string& directory, const std::string& model_file) {
  if (!IsMemoryFileSystem(directory)) return directory + " is no memory file system";
  if (access(directory.c_str(), W_OK) != 0) return directory + " cannot be written";
  std::error_code failed;
  const auto needed = std::filesystem::file_size(model_file, failed);
  if (failed) return "";  // it is not here, which is told where it is wanted
  const std::filesystem::space_info space = std::filesystem::space(directory, failed);
  if (failed || space.available > needed + needed / 8) return "";
  return directory + " has " + FormatBytes(static_cast<int64_t>(space.available)) +
         " left, and the model has " + FormatBytes(static_cast<int64_t>(needed));
}

std::string WhyNotPlace(const std::string& text, const std::string& model_file, bool by_default) {
  const Result<TierPlace> place = ParseTierPlace(text);
  if (!place.ok()) return place.error().message();
  if (place->simulated()) return WhyNotSimulated(*place, model_file);
  return by_default ? WhyNotByDefault(text, model_file) : "";
}

std::string ConditionName(const std::string& name, const std::string& place) {
  return (place.starts_with(kSimulatedPrefix) ? "simulated " : "cold from ") + name;
}

// Everything that a child writes until it ends; kInterrupted ends it.
Result<std::string> OutputOf(os::Child& child, const std::function<bool()>& interrupted) {
  std::string text;
  for (;;) {
    if (interrupted && interrupted()) return Error(ErrorCode::kInterrupted, "interrupted");
    constexpr int kLookMs = 100;
    pollfd entry{.fd = child.stdout_pipe().get(), .events = POLLIN, .revents = 0};
    if (poll(&entry, 1, kLookMs) <= 0) continue;
    std::array<char, 4096> buffer{};
    const ssize_t count = read(entry.fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoOf("cannot read what the measuring process tells");
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(count));
  }
}

}  // namespace

Status AddPathConditions(Plan& plan, std::vector<LeftOut>& left_out) {
  if (!RowOf(plan.target.kind).owns_process) {
    return Error(ErrorCode::kUsage,
                 "--preset storage: a server that rouse does not start cannot be told to load from "
                 "another directory; let rouse start it (--target 'cmd:COMMAND {port} {model}')");
  }
  const std::string base = plan.conditions.front().name;
  const std::string model_file = ModelFileOf(plan);
  Places places(plan.target.paths.begin(), plan.target.paths.end());
  const bool by_default = places.empty();
  if (by_default) places = DefaultPlaces(model_file);
  for (const auto& [name, place] : places) {
    const auto names_it = [&name = name](const Condition& each) { return each.path == name; };
    if (std::any_of(plan.conditions.begin(), plan.conditions.end(), names_it)) continue;
    RawCondition raw;
    raw.name = ConditionName(name, place);
    raw.base = base;
    raw.path = name;
    if (const std::string why = WhyNotPlace(place, model_file, by_default); !why.empty()) {
      left_out.push_back({raw.name, false, why});
      plan.target.paths.erase(name);
      continue;
    }
    plan.target.paths[name] = place;
    // Pages of a memory file system are the file: they cannot be dropped, and need no disk.
    if (IsMemoryFileSystem(place)) {
      raw.state[Layer::kPageCache] = "warm";
      raw.compound = true;
    }
    RETURN_IF_ERROR(AddCondition(raw, "", plan));
  }
  plan.toml = CanonicalPlan(plan);
  return CheckFeasible(plan, "");
}

Result<TierReport> ProbeTier(const std::string& directory, int64_t bytes,
                             const std::function<bool()>& interrupted) {
  const int64_t blocks = std::max(bytes, kBytesMin) / kBlockBytes;
  // Without a name: nothing is left of it, however we end.
  const Fd writer = NamelessFile(directory);
  if (!writer.valid()) return ErrnoOf("cannot write a file to measure " + directory);
  RETURN_IF_ERROR(WriteFile(writer.get(), blocks, directory, interrupted));
  const bool memory = IsMemoryFileSystem(directory);
  const std::string again = "/proc/self/fd/" + std::to_string(writer.get());
  const Fd direct(memory ? -1 : open(again.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  TierReport report;
  report.storage = StorageText(directory);
  report.how = memory           ? "copied from memory: it has no device"
               : direct.valid() ? "O_DIRECT"
                                : "after dropping its pages: this file system has no O_DIRECT";
  for (const int depth : kDepths) {
    if (interrupted && interrupted()) return Error(ErrorCode::kInterrupted, "interrupted");
    if (!direct.valid()) posix_fadvise(writer.get(), 0, 0, POSIX_FADV_DONTNEED);
    ASSIGN_OR_RETURN(const TierDepth measured,
                     ReadAtDepth(direct.valid() ? direct.get() : writer.get(), blocks, depth));
    report.depths.push_back(measured);
  }
  return report;
}

Result<TierReport> ProbePlace(const std::string& place, const std::string& model_file,
                              int64_t bytes, const std::function<bool()>& interrupted) {
  ASSIGN_OR_RETURN(const TierPlace parsed, ParseTierPlace(place));
  if (!parsed.simulated()) return ProbeTier(parsed.directory, bytes, interrupted);
  ASSIGN_OR_RETURN(const SimulatedTier tier,
                   SimulatedTier::Make(parsed, model_file, std::max(bytes, kBytesMin)));
  os::SpawnOptions options;
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length <= 0) return ErrnoOf("cannot read /proc/self/exe");
  options.argv = {std::string(path.data(), static_cast<size_t>(length)), "worker", "tier",
                  tier.directory(), std::to_string(bytes)};
  options.stdout_to = os::OutputTo::Pipe();
  ASSIGN_OR_RETURN(options.cgroup_directory, os::MakeReadLimitGroup(tier.limit()));
  options.remove_cgroup = true;
  Result<os::Child> child = os::Spawn(options);
  if (!child.ok()) {
    rmdir(options.cgroup_directory.c_str());
    return child.error();
  }
  ASSIGN_OR_RETURN(const std::string told, OutputOf(*child, interrupted));
  ASSIGN_OR_RETURN(TierReport report, ParseTierReport(told));
  report.storage = tier.storage();
  report.how +=
      ", reads limited to " + FormatBytes(tier.limit().bytes_per_second) + "/s by a control group";
  report.simulated_bytes_per_second = tier.limit().bytes_per_second;
  return report;
}

std::string TierReportJson(const TierReport& report) {
  Json json = {{"storage", report.storage}, {"how", report.how}, {"depths", Json::array()}};
  for (const TierDepth& each : report.depths) {
    json["depths"].push_back({each.depth, each.bytes_per_second});
  }
  return json.dump();
}

Result<TierReport> ParseTierReport(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_object() && json.contains("error") && json["error"].is_string()) {
    return Error(ErrorCode::kState, json["error"].get<std::string>());
  }
  TierReport report;
  try {
    report.storage = json.at("storage").get<std::string>();
    report.how = json.at("how").get<std::string>();
    for (const Json& each : json.at("depths")) {
      report.depths.push_back(
          {.depth = each.at(0).get<int>(), .bytes_per_second = each.at(1).get<int64_t>()});
    }
  } catch (const Json::exception&) {
    return Error(ErrorCode::kInternal, "the process that measures a simulated disk told nothing");
  }
  return report;
}

std::map<std::string, std::string> TierFacts(const std::string& name, const TierReport& report) {
  std::map<std::string, std::string> facts = {{"tier_" + name + "_storage", report.storage},
                                              {"tier_" + name + "_how", report.how}};
  if (report.simulated_bytes_per_second) {
    facts["tier_" + name + "_simulated_bytes_per_second"] =
        std::to_string(*report.simulated_bytes_per_second);
  }
  for (const TierDepth& each : report.depths) {
    facts["tier_" + name + "_depth" + std::to_string(each.depth) + "_bytes_per_second"] =
        std::to_string(each.bytes_per_second);
  }
  return facts;
}

}  // namespace rouse::lab
