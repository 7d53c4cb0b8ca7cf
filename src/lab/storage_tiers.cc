#include "lab/storage_tiers.h"

#include <fcntl.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <thread>

#include "base/fd.h"
#include "base/time.h"
#include "lab/plan_internal.h"
#include "lab/schedule.h"
#include "os/block_device.h"

namespace rouse::lab {
namespace {

constexpr int64_t kBlockBytes = int64_t{1} << 20U;
constexpr int64_t kBytesMin = 16 * kBlockBytes;
constexpr int64_t kAlignment = 4096;
constexpr int64_t kDepthLimitNs = 2 * kNsPerSecond;
constexpr std::array<int, 3> kDepths = {1, 4, 16};
constexpr long kTmpfsMagic = 0x01021994;  // linux/magic.h

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
    const ssize_t written =
        pwrite(fd, block.get(), static_cast<size_t>(kBlockBytes), i * kBlockBytes);
    if (written != kBlockBytes) return ErrnoOf("cannot write a file to measure " + directory);
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

bool IsMemory(const std::string& path) {
  struct statfs file_system{};
  return statfs(path.c_str(), &file_system) == 0 && file_system.f_type == kTmpfsMagic;
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

std::string StorageText(const std::string& directory, bool memory) {
  const Result<os::Storage> storage = os::ReadStorage(os::ProcRoot::Real(), directory);
  if (!storage.ok()) return memory ? "memory" : "unknown";
  return storage->file_system + (memory ? " (memory)" : " on " + storage->source);
}

}  // namespace

Status AddPathConditions(Plan& plan) {
  if (plan.target.paths.empty()) {
    return Error(ErrorCode::kUsage,
                 "--preset storage compares directories: give each with --path NAME=DIR, for "
                 "example --path disk=/var/tmp --path ram=/dev/shm");
  }
  const std::string base = plan.conditions.front().name;
  for (const auto& [name, directory] : plan.target.paths) {
    const auto names_it = [&](const Condition& each) { return each.path == name; };
    if (std::any_of(plan.conditions.begin(), plan.conditions.end(), names_it)) continue;
    RawCondition raw;
    raw.name = "cold from " + name;
    raw.base = base;
    raw.path = name;
    // Pages of a memory file system are the file: they cannot be dropped, and need no disk.
    if (IsMemory(directory)) {
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
  const bool memory = IsMemory(directory);
  const std::string again = "/proc/self/fd/" + std::to_string(writer.get());
  const Fd direct(memory ? -1 : open(again.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  TierReport report;
  report.storage = StorageText(directory, memory);
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

std::map<std::string, std::string> TierFacts(const std::string& name, const TierReport& report) {
  std::map<std::string, std::string> facts = {{"tier_" + name + "_storage", report.storage},
                                              {"tier_" + name + "_how", report.how}};
  for (const TierDepth& each : report.depths) {
    facts["tier_" + name + "_depth" + std::to_string(each.depth) + "_bytes_per_second"] =
        std::to_string(each.bytes_per_second);
  }
  return facts;
}

}  // namespace rouse::lab
