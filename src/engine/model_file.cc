#include "engine/model_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/fd.h"
#include "base/strings.h"
#include "base/time.h"
#include "base/units.h"
#include "loader/plan.h"

namespace rouse::engine {
namespace {

// So much is locked by one call into the kernel, which nothing but the end of the process can
// interrupt: 40 ms of a disk that reads 100 MB/s.
constexpr size_t kLockBytes = size_t{4} << 20;

int64_t PageBytes() {
  static const int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

// Locked memory of this process.
std::optional<int64_t> LockedBytes() {
  const Result<std::string> status = ReadSmallFile("/proc/self/status");
  if (!status.ok()) return std::nullopt;
  const size_t at = status->find("VmLck:");
  if (at == std::string::npos) return std::nullopt;
  const std::string_view rest = TrimBlanks(std::string_view(*status).substr(at + 6));
  const std::optional<int64_t> kibibytes = ParseInt64(rest.substr(0, rest.find(' ')));
  if (!kibibytes.has_value()) return std::nullopt;
  return *kibibytes * 1024;
}

std::string LockProblem(int error) {
  rlimit limit = {};
  if ((error == ENOMEM || error == EAGAIN || error == EPERM) &&
      getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    return "this process may lock " + FormatBytes(static_cast<int64_t>(limit.rlim_cur)) +
           " (ulimit -l)";
  }
  return Error::FromErrno(error, "the kernel refused to lock memory").message();
}

}  // namespace

std::optional<FileIdentity> IdentifyFile(const std::string& path) {
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0) return std::nullopt;
  return FileIdentity{.device = facts.st_dev,
                      .inode = facts.st_ino,
                      .bytes = facts.st_size,
                      .modified_ns = facts.st_mtim.tv_sec * kNsPerSecond + facts.st_mtim.tv_nsec};
}

void PreferLargePages(std::span<const FileMapping> mappings) {
  for (const FileMapping& mapping : mappings) {
    // Refused by kernels without large pages.
    static_cast<void>(madvise(const_cast<std::byte*>(mapping.address),
                              static_cast<size_t>(mapping.bytes), MADV_HUGEPAGE));
  }
}

Result<int64_t> DropMappedPages(std::span<const FileMapping> mappings) {
  int64_t bytes = 0;
  for (const FileMapping& mapping : mappings) {
    auto* const address = const_cast<std::byte*>(mapping.address);
    if (madvise(address, static_cast<size_t>(mapping.bytes), MADV_DONTNEED) != 0) {
      return Error::FromErrno(errno, "cannot drop the pages of " + mapping.path);
    }
    bytes += mapping.bytes;
  }
  return bytes;
}

std::optional<int64_t> ResidentBytes() {
  const Result<std::string> text = ReadSmallFile("/proc/self/statm");
  if (!text.ok()) return std::nullopt;
  const size_t space = text->find(' ');
  if (space == std::string::npos) return std::nullopt;
  const std::string_view rest = std::string_view(*text).substr(space + 1);
  const std::optional<int64_t> pages = ParseInt64(rest.substr(0, rest.find(' ')));
  if (!pages.has_value()) return std::nullopt;
  return *pages * PageBytes();
}

LeadingLock::LeadingLock(const std::vector<gguf::Header>& parts, int64_t bytes) {
  for (const gguf::Header& part : parts) {
    const std::vector<loader::PlanStep> plan = loader::GraphOrderPlan(part);
    int64_t part_bytes = 0;
    for (const loader::PlanStep& step : plan) part_bytes += step.bytes;
    const int64_t wanted = std::min(bytes, part_bytes);
    if (wanted <= 0 || !problem_.empty()) break;
    const double fraction = static_cast<double>(wanted) / static_cast<double>(part_bytes);
    Map(part, loader::LeadingRanges(plan, fraction));
    bytes -= wanted;
  }
}

void LeadingLock::Map(const gguf::Header& part, std::span<const gguf::FileRange> ranges) {
  const Result<Fd> fd = OpenFile(part.path, O_RDONLY);
  if (!fd.ok()) {
    problem_ = fd.error().message();
    return;
  }
  for (const gguf::FileRange& range : ranges) {
    const int64_t begin = range.offset / PageBytes() * PageBytes();
    const int64_t end = std::min(part.file_bytes, range.offset + range.bytes);
    if (end <= begin) continue;
    const auto length = static_cast<size_t>(end - begin);
    void* const address = mmap(nullptr, length, PROT_READ, MAP_SHARED, fd->get(), begin);
    if (address == MAP_FAILED) {
      problem_ = Error::FromErrno(errno, "cannot map " + part.path).message();
      return;
    }
    mappings_.push_back({static_cast<std::byte*>(address), length});
  }
}

Result<bool> LeadingLock::LockOn(const std::stop_token& stop) {
  const std::optional<int64_t> before = LockedBytes();
  const bool complete = LockWindows(stop);
  const std::optional<int64_t> after = LockedBytes();
  if (!before.has_value() || !after.has_value()) {
    return Error(ErrorCode::kUnsupported, "the kernel does not tell how much memory is locked");
  }
  locked_bytes_ += *after - *before;
  return complete;
}

bool LeadingLock::LockWindows(const std::stop_token& stop) {
  for (Mapping& mapping : mappings_) {
    while (mapping.locked_bytes < mapping.bytes) {
      if (stop.stop_requested()) return false;
      const size_t window = std::min(kLockBytes, mapping.bytes - mapping.locked_bytes);
      if (mlock(mapping.address + mapping.locked_bytes, window) != 0) {
        problem_ = LockProblem(errno);
        return true;
      }
      mapping.locked_bytes += window;
    }
  }
  return true;
}

LeadingLock::LeadingLock(LeadingLock&& other) noexcept { *this = std::move(other); }

LeadingLock& LeadingLock::operator=(LeadingLock&& other) noexcept {
  std::swap(mappings_, other.mappings_);
  std::swap(locked_bytes_, other.locked_bytes_);
  std::swap(problem_, other.problem_);
  return *this;
}

LeadingLock::~LeadingLock() {
  for (const Mapping& mapping : mappings_) munmap(mapping.address, mapping.bytes);
}

}  // namespace rouse::engine
