// Dropping, filling and locking pages of a file.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/strings.h"
#include "base/time.h"
#include "base/units.h"
#include "os/capability.h"
#include "os/page_cache.h"
#include "os/page_cache_internal.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace rouse::os {
namespace {

using internal::kPageBytes;

// Pages that sit in a per-CPU batch, or under writeback that fsync did not cover, go at the second
// or third try.
constexpr int kEvictTries = 6;
constexpr int64_t kBetweenTriesNs = 30 * kNsPerMs;
// To a sample a page that is still being read is not resident; it arrives right afterwards. So what
// only a sample has seen to be out is dropped once more.
constexpr int kSampledRounds = 2;

Result<int64_t> LockedBytesOfThisProcess() {
  ASSIGN_OR_RETURN(const std::string status, ProcRoot::Real().Read("proc/self/status"));
  for (const std::string_view line : SplitAt(status, '\n')) {
    if (!line.starts_with("VmLck:")) continue;
    std::string_view value = TrimBlanks(line.substr(6));
    if (value.ends_with(" kB")) value.remove_suffix(3);
    const std::optional<int64_t> kilobytes = ParseInt64(value);
    if (kilobytes) return *kilobytes * 1024;
  }
  return Error(ErrorCode::kUnsupported, "/proc/self/status has no VmLck");
}

std::string MapperNames(const Mappers& who) {
  std::string text;
  constexpr size_t kShown = 3;
  for (size_t i = 0; i < std::min(kShown, who.mappers.size()); ++i) {
    const Mapper& mapper = who.mappers[i];
    if (i > 0) text += ", ";
    text += mapper.comm + " (pid " + std::to_string(mapper.pid) + ")";
  }
  if (who.mappers.size() > kShown) {
    text += " and " + std::to_string(who.mappers.size() - kShown) + " more";
  }
  return text;
}

}  // namespace

std::string EvictReport::WhyNot() const {
  if (Cold()) return "";
  std::string text = (after.Exact() ? "" : "about ") + FormatBytes(after.resident_bytes) + " of " +
                     FormatBytes(after.file_bytes) + " stayed";
  const size_t without_reason = text.size();
  if (!who.mappers.empty()) text += ", mapped by " + MapperNames(who);
  if (locked_bytes > 0) text += ", " + FormatBytes(locked_bytes) + " of it locked";
  const int64_t unwritten = after.dirty_bytes.value_or(0) + after.writeback_bytes.value_or(0);
  if (unwritten > 0) text += ", " + FormatBytes(unwritten) + " of it not yet written to disk";
  if (text.size() == without_reason) {
    text += who.unreadable_processes > 0
                ? ", for a reason that can't be seen: " + std::to_string(who.unreadable_processes) +
                      " processes may map it whose maps this user may not read"
                : ", though no process maps it: something reads it now, or it backs a loop or swap "
                  "device";
  }
  return text;
}

Result<EvictReport> EvictFile(const std::string& path) {
  EvictReport report;
  ASSIGN_OR_RETURN(report.before, ReadResidency(path));
  ASSIGN_OR_RETURN(const internal::OpenedFile file, internal::OpenRegularFile(path));
  for (int i = 0; i < kEvictTries; ++i) {
    if (i > 0) RealClock().SleepFor(kBetweenTriesNs);
    // fsync, for dirty pages are not dropped. It needs no write access.
    if (fsync(file.fd.get()) != 0 && errno != EINVAL && errno != EROFS) {
      return Error::FromErrno(errno, "cannot write back " + path);
    }
    const int status = posix_fadvise(file.fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    if (status != 0) return Error::FromErrno(status, "posix_fadvise(DONTNEED) on " + path);
    ASSIGN_OR_RETURN(report.after, ReadResidency(path));
    const bool sure = report.after.Exact() || i + 1 >= kSampledRounds;
    if (report.after.resident_bytes == 0 && sure) break;
  }
  if (report.Cold()) return report;
  ASSIGN_OR_RETURN(report.who, FindMappers(ProcRoot::Real(), path));
  for (const Mapper& mapper : report.who.mappers) {
    report.locked_bytes += mapper.locked_bytes.value_or(0);
  }
  return report;
}

Status EvictRange(const std::string& path, ByteRange range) {
  ASSIGN_OR_RETURN(const internal::OpenedFile file, internal::OpenRegularFile(path));
  if (fsync(file.fd.get()) != 0 && errno != EINVAL && errno != EROFS) {
    return Error::FromErrno(errno, "cannot write back " + path);
  }
  if (range.bytes <= 0) return {};  // to posix_fadvise 0 would mean "to the end"
  const int status = posix_fadvise(file.fd.get(), range.offset, range.bytes, POSIX_FADV_DONTNEED);
  if (status != 0) return Error::FromErrno(status, "posix_fadvise(DONTNEED) on " + path);
  return {};
}

Result<MappedFile> MappedFile::Map(const std::string& path) {
  ASSIGN_OR_RETURN(const internal::OpenedFile file, internal::OpenRegularFile(path));
  if (file.facts.st_size == 0) return Error(ErrorCode::kCorrupt, path + " is empty");
  void* const address = mmap(nullptr, static_cast<size_t>(file.facts.st_size), PROT_READ,
                             MAP_SHARED, file.fd.get(), 0);
  if (address == MAP_FAILED) return Error::FromErrno(errno, "cannot map " + path);
  MappedFile mapped;
  mapped.data_ = static_cast<const std::byte*>(address);
  mapped.bytes_ = file.facts.st_size;
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), static_cast<size_t>(bytes_));
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

namespace {

struct PageSpan {
  void* address;
  size_t bytes;
};

// madvise and mlock want the start of a page.
PageSpan WholePages(const std::byte* address, int64_t bytes) {
  const auto into_page = static_cast<int64_t>(reinterpret_cast<uintptr_t>(address) %
                                              static_cast<uintptr_t>(kPageBytes));
  return {const_cast<std::byte*>(address) - into_page, static_cast<size_t>(bytes + into_page)};
}

}  // namespace

Status PopulateRange(const std::byte* address, int64_t bytes) {
  const PageSpan pages = WholePages(address, bytes);
  while (madvise(pages.address, pages.bytes, MADV_POPULATE_READ) != 0) {
    switch (errno) {
      case EINTR:
      case EAGAIN:
        continue;
      case EINVAL:
        return Error(ErrorCode::kUnsupported, "MADV_POPULATE_READ needs Linux 5.14 or later");
      case EFAULT:
        return Error(ErrorCode::kCorrupt, "the mapped file is shorter than its mapping");
      case EHWPOISON:
        return Error(ErrorCode::kIo, "a page of the mapped file is broken memory");
      default:
        return Error::FromErrno(errno, "cannot read the mapped file in");
    }
  }
  return {};
}

void PreferLargePages(const std::byte* address, int64_t bytes) {
  const PageSpan pages = WholePages(address, bytes);
  // EINVAL where the kernel was built without large pages: then it is no help, and no harm.
  static_cast<void>(madvise(pages.address, pages.bytes, MADV_HUGEPAGE));
}

std::optional<int64_t> LockLimitBytes() {
  if (HasCapability(Capability::kIpcLock)) return std::nullopt;
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::nullopt;
  }
  return static_cast<int64_t>(limit.rlim_cur);
}

Result<int64_t> LockRange(const std::byte* address, int64_t bytes) {
  ASSIGN_OR_RETURN(const int64_t before, LockedBytesOfThisProcess());
  const PageSpan pages = WholePages(address, bytes);
  if (mlock(pages.address, pages.bytes) != 0) {
    const int error_number = errno;
    const std::optional<int64_t> limit = LockLimitBytes();
    if (limit && before + bytes > *limit) {
      return Error(ErrorCode::kPermission,
                   "cannot lock " + FormatBytes(bytes) + " in memory: RLIMIT_MEMLOCK allows " +
                       FormatBytes(*limit) +
                       ".\nRaise it for this shell: sudo prlimit --pid $$ --memlock=unlimited" +
                       "\n(in a systemd unit: LimitMEMLOCK=infinity)");
    }
    return Error::FromErrno(error_number, "cannot lock " + FormatBytes(bytes) + " in memory");
  }
  ASSIGN_OR_RETURN(const int64_t after, LockedBytesOfThisProcess());
  return after - before;
}

Status UnlockRange(const std::byte* address, int64_t bytes) {
  const PageSpan pages = WholePages(address, bytes);
  if (munlock(pages.address, pages.bytes) != 0) return Error::FromErrno(errno, "munlock");
  return {};
}

}  // namespace rouse::os
