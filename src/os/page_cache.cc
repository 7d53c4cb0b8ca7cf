// Reading the page cache: which pages of a file are resident. Nothing here changes that, see the
// header for the one exception. Dropping, filling and locking is in page_cache_change.cc, who maps
// a file in page_cache_mappers.cc.
#include "os/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>
#include <random>

#include "os/capability.h"
#include "os/page_cache_internal.h"

namespace rouse::os {
namespace {

using internal::kPageBytes;

// linux/mman.h of 6.5: the headers of Debian 12 are older than the call, and its number is the same
// on every architecture.
constexpr long kSysCachestat = 451;
struct CachestatRange {
  uint64_t offset;
  uint64_t length;
};
struct CachestatAnswer {
  uint64_t cached_pages;
  uint64_t dirty_pages;
  uint64_t writeback_pages;
  uint64_t evicted_pages;
  uint64_t recently_evicted_pages;
};

// Pages that a sample looks at in all. With n pages the standard error of a share is at most
// 0.5 / sqrt(n), 2.2 % here; it is 0 for a file that is wholly in or wholly out.
constexpr int64_t kSamplePages = 512;
constexpr int64_t kMincoreWindowBytes = int64_t{1} << 30;

int64_t PagesOf(ByteRange range) {
  if (range.bytes == 0) return 0;
  return (range.offset + range.bytes - 1) / kPageBytes - range.offset / kPageBytes + 1;
}

// A count of pages as bytes of the range: the edges of a range may lie inside a page.
int64_t PageBytesWithin(ByteRange range, int64_t pages) {
  return pages >= PagesOf(range) ? range.bytes : std::min(range.bytes, pages * kPageBytes);
}

// kUnsupported when the next way should be tried, kPermission when this way is closed to us.
Result<CachestatAnswer> Cachestat(int fd, ByteRange range) {
  CachestatRange wanted{static_cast<uint64_t>(range.offset), static_cast<uint64_t>(range.bytes)};
  CachestatAnswer answer{};
  if (syscall(kSysCachestat, fd, &wanted, &answer, 0U) != 0) {
    return Error::FromErrno(errno, "cachestat");
  }
  return answer;
}

Result<Residency> ByCachestat(int fd, ByteRange range) {
  ASSIGN_OR_RETURN(const CachestatAnswer answer, Cachestat(fd, range));
  Residency residency;
  residency.file_bytes = range.bytes;
  residency.resident_bytes = PageBytesWithin(range, static_cast<int64_t>(answer.cached_pages));
  residency.dirty_bytes = PageBytesWithin(range, static_cast<int64_t>(answer.dirty_pages));
  residency.writeback_bytes = PageBytesWithin(range, static_cast<int64_t>(answer.writeback_pages));
  residency.proof = ResidencyProofName(ResidencyProof::kCachestat);
  return residency;
}

// To anybody else mincore says that every page is resident (CVE-2019-5489).
bool MincoreTellsTheTruth(int fd, const struct stat& facts) {
  if (geteuid() == facts.st_uid || HasCapability(Capability::kFowner)) return true;
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
}

Result<Residency> ByMincore(int fd, const struct stat& facts, ByteRange range) {
  if (!MincoreTellsTheTruth(fd, facts)) {
    return Error(ErrorCode::kPermission, "mincore: not the file's owner, and it is not writable");
  }
  int64_t resident_pages = 0;
  const int64_t end = range.offset + range.bytes;
  std::vector<unsigned char> pages(
      static_cast<size_t>(std::min(kMincoreWindowBytes, range.bytes + kPageBytes) / kPageBytes) +
      1);
  for (int64_t start = range.offset / kPageBytes * kPageBytes; start < end;
       start += kMincoreWindowBytes) {
    const auto bytes = static_cast<size_t>(std::min(kMincoreWindowBytes, end - start));
    void* const address = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, start);
    if (address == MAP_FAILED) return Error::FromErrno(errno, "mmap");
    const int status = mincore(address, bytes, pages.data());
    const int error_number = errno;
    munmap(address, bytes);
    if (status != 0) return Error::FromErrno(error_number, "mincore");
    const auto page = static_cast<size_t>(kPageBytes);
    const size_t count = (bytes + page - 1) / page;
    for (size_t i = 0; i < count; ++i) resident_pages += pages[i] & 1;
  }
  Residency residency;
  residency.file_bytes = range.bytes;
  residency.resident_bytes = PageBytesWithin(range, resident_pages);
  residency.proof = ResidencyProofName(ResidencyProof::kMincore);
  return residency;
}

struct PageLook {
  bool resident = false;
  bool asked_disk = false;  // looking made the kernel read it
};

// Whether the page at `offset` is resident. RWF_NOWAIT fails instead of waiting, but the kernel has
// started to read that page by then: hence the clean-up in BySample, and FADV_RANDOM, without which
// it would read ahead as well. A fast disk may even have answered before the kernel looks again,
// and the call succeeds with what it had read itself (about once in 5,000 cold pages on a virtual
// disk): of a page that was there, nothing is read. Nor is of one that somebody else is reading in.
Result<PageLook> LookAtPage(int fd, int64_t offset) {
  char byte = 0;
  const iovec vector{&byte, 1};
  const int64_t bytes_before = DiskBytesReadByThisThread();
  while (true) {
    const ssize_t count = preadv2(fd, &vector, 1, offset, RWF_NOWAIT);
    const int error_number = errno;
    const bool asked_disk = DiskBytesReadByThisThread() != bytes_before;
    if (count >= 0) return PageLook{.resident = !asked_disk, .asked_disk = asked_disk};
    if (error_number == EAGAIN) return PageLook{.resident = false, .asked_disk = asked_disk};
    if (error_number != EINTR) return Error::FromErrno(error_number, "preadv2(RWF_NOWAIT)");
  }
}

// Waits for the pages that the sample brought in, and drops them again. Whoever reads the file
// meanwhile finds such a page there and does not read it: unless it is mapped by then, it is
// missing afterwards. That can't be told, and is one page in 512 parts of the file at most.
void DropSampledPages(int fd, const std::vector<int64_t>& offsets) {
  for (const int64_t offset : offsets) {
    char byte = 0;
    [[maybe_unused]] const ssize_t count = pread(fd, &byte, 1, offset);
    posix_fadvise(fd, offset, kPageBytes, POSIX_FADV_DONTNEED);
  }
}

// Looks at `samples` pages, one at a random place in each of as many equal parts of the range. The
// places differ from call to call, so that a periodic pattern cannot hide.
Result<Residency> BySample(int fd, ByteRange range, int64_t samples) {
  static thread_local std::minstd_rand random{std::random_device{}()};
  const int64_t first_page = range.offset / kPageBytes;
  const int64_t pages = PagesOf(range);
  samples = std::min(samples, pages);
  int64_t hits = 0;
  std::vector<int64_t> brought_in;
  std::optional<Error> failure;
  for (int64_t i = 0; i < samples && !failure; ++i) {
    const int64_t begin = i * pages / samples;
    const int64_t end = (i + 1) * pages / samples;
    std::uniform_int_distribution<int64_t> place(begin, end - 1);
    const int64_t offset = (first_page + place(random)) * kPageBytes;
    const Result<PageLook> page = LookAtPage(fd, offset);
    if (!page.ok()) {
      failure = page.error();
    } else if (page->resident) {
      ++hits;
    } else if (page->asked_disk) {
      brought_in.push_back(offset);
    }
  }
  DropSampledPages(fd, brought_in);
  if (failure) return *failure;
  Residency residency;
  residency.file_bytes = range.bytes;
  residency.sampled_pages = samples;
  residency.sampled_resident_pages = hits;
  residency.proof = ResidencyProofName(ResidencyProof::kSampled);
  if (samples > 0) {
    residency.resident_bytes =
        static_cast<int64_t>(static_cast<double>(range.bytes) * static_cast<double>(hits) /
                             static_cast<double>(samples));
  }
  return residency;
}

Result<std::vector<Residency>> AllRangesBy(ResidencyProof proof, int fd, const struct stat& facts,
                                           std::span<const ByteRange> ranges) {
  Fd own;
  if (proof == ResidencyProof::kSampled) {
    // A descriptor of its own: FADV_RANDOM belongs to the open file, and dup shares that.
    ASSIGN_OR_RETURN(own, OpenFile("/proc/self/fd/" + std::to_string(fd), O_RDONLY));
    posix_fadvise(own.get(), 0, 0, POSIX_FADV_RANDOM);
  }
  int64_t all_bytes = 0;
  for (const ByteRange& range : ranges) all_bytes += range.bytes;
  std::vector<Residency> answers;
  for (const ByteRange& range : ranges) {
    if (range.bytes == 0) {
      Residency nothing;
      nothing.proof = ResidencyProofName(proof);
      answers.push_back(nothing);
      continue;
    }
    Result<Residency> answer = Error(ErrorCode::kInternal, "");
    switch (proof) {
      case ResidencyProof::kCachestat:
        answer = ByCachestat(fd, range);
        break;
      case ResidencyProof::kMincore:
        answer = ByMincore(fd, facts, range);
        break;
      case ResidencyProof::kSampled: {
        const double share = static_cast<double>(range.bytes) / static_cast<double>(all_bytes);
        const auto samples =
            static_cast<int64_t>(std::ceil(share * static_cast<double>(kSamplePages)));
        answer = BySample(own.get(), range, std::max<int64_t>(samples, 4));
        break;
      }
    }
    if (!answer.ok()) return answer.error();
    answers.push_back(std::move(answer).value());
  }
  return answers;
}

}  // namespace

int64_t DiskBytesReadByThisThread() {
  constexpr int64_t kBlockBytes = 512;
  rusage usage{};
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_inblock * kBlockBytes : 0;
}

std::string_view ResidencyProofName(ResidencyProof proof) {
  switch (proof) {
    case ResidencyProof::kCachestat:
      return "cachestat";
    case ResidencyProof::kMincore:
      return "mincore";
    case ResidencyProof::kSampled:
      return "sampled";
  }
  return "";
}

double Residency::Ratio() const {
  if (file_bytes == 0) return 1.0;
  return static_cast<double>(resident_bytes) / static_cast<double>(file_bytes);
}

bool Residency::Exact() const {
  return !sampled_pages || *sampled_pages >= PagesOf({0, file_bytes});
}

ShareBounds Residency::Bounds() const {
  if (Exact()) return {Ratio(), Ratio()};
  return BoundsOfShare(sampled_resident_pages, *sampled_pages);
}

namespace internal {

Result<OpenedFile> OpenRegularFile(const std::string& path) {
  OpenedFile opened;
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  ASSIGN_OR_RETURN(opened.fd, OpenFile(path, O_RDONLY | O_NONBLOCK));
  if (fstat(opened.fd.get(), &opened.facts) != 0) return Error::FromErrno(errno, path);
  if (S_ISDIR(opened.facts.st_mode)) {
    return Error(ErrorCode::kUnsupported, path + " is a directory: name a file in it");
  }
  if (!S_ISREG(opened.facts.st_mode)) {
    return Error(ErrorCode::kUnsupported, path + " is not a regular file");
  }
  return opened;
}

}  // namespace internal

namespace internal {

Result<int64_t> CachedPages(int fd, ByteRange range) {
  ASSIGN_OR_RETURN(const CachestatAnswer answer, Cachestat(fd, range));
  return static_cast<int64_t>(answer.cached_pages);
}

}  // namespace internal

Result<std::vector<Residency>> ReadResidencyRangesBy(const std::string& path,
                                                     std::span<const ByteRange> ranges,
                                                     std::span<const ResidencyProof> proofs) {
  ASSIGN_OR_RETURN(const internal::OpenedFile file, internal::OpenRegularFile(path));
  std::vector<ByteRange> cut(ranges.begin(), ranges.end());
  for (ByteRange& range : cut) {
    range.offset = std::clamp<int64_t>(range.offset, 0, file.facts.st_size);
    range.bytes = std::clamp<int64_t>(range.bytes, 0, file.facts.st_size - range.offset);
  }
  std::string tried;
  ErrorCode code = ErrorCode::kUnsupported;
  for (const ResidencyProof proof : proofs) {
    Result<std::vector<Residency>> answers = AllRangesBy(proof, file.fd.get(), file.facts, cut);
    if (answers.ok()) return answers;
    if (answers.error().code() == ErrorCode::kPermission) code = ErrorCode::kPermission;
    if (!tried.empty()) tried += "; ";
    tried += answers.error().message();
  }
  return Error(code, "cannot tell which part of " + path + " is in the page cache (" + tried +
                         ").\nRun as the file's owner or as root.");
}

Result<std::vector<Residency>> ReadResidencyRanges(const std::string& path,
                                                   std::span<const ByteRange> ranges) {
  static constexpr ResidencyProof kAll[] = {ResidencyProof::kCachestat, ResidencyProof::kMincore,
                                            ResidencyProof::kSampled};
  return ReadResidencyRangesBy(path, ranges, kAll);
}

Result<std::vector<Residency>> ReadResidencyParts(const std::string& path, int parts) {
  struct stat facts{};
  if (stat(path.c_str(), &facts) != 0) return Error::FromErrno(errno, path);
  const int64_t pages = (facts.st_size + kPageBytes - 1) / kPageBytes;
  const int64_t count = std::clamp<int64_t>(parts, 1, std::max<int64_t>(1, pages));
  std::vector<ByteRange> ranges;
  for (int64_t part = 0; part < count; ++part) {
    const int64_t begin = part * pages / count * kPageBytes;
    const int64_t end = (part + 1) * pages / count * kPageBytes;
    // The last one takes what the file has grown by meanwhile.
    ranges.push_back({begin, part + 1 < count ? end - begin : std::numeric_limits<int64_t>::max()});
  }
  return ReadResidencyRanges(path, ranges);
}

Residency Pooled(const Residency& one, const Residency& other) {
  Residency both = one;
  both.sampled_pages = one.sampled_pages.value_or(0) + other.sampled_pages.value_or(0);
  both.sampled_resident_pages += other.sampled_resident_pages;
  if (*both.sampled_pages > 0) {
    both.resident_bytes = static_cast<int64_t>(static_cast<double>(both.file_bytes) *
                                               static_cast<double>(both.sampled_resident_pages) /
                                               static_cast<double>(*both.sampled_pages));
  }
  return both;
}

Residency SumOf(std::span<const Residency> parts) {
  Residency sum;
  const auto add = [](std::optional<int64_t>& total, const std::optional<int64_t>& part) {
    if (part) total = total.value_or(0) + *part;
  };
  for (const Residency& part : parts) {
    sum.file_bytes += part.file_bytes;
    sum.resident_bytes += part.resident_bytes;
    add(sum.dirty_bytes, part.dirty_bytes);
    add(sum.writeback_bytes, part.writeback_bytes);
    add(sum.sampled_pages, part.sampled_pages);
    sum.sampled_resident_pages += part.sampled_resident_pages;
    if (sum.proof.empty()) sum.proof = part.proof;
  }
  return sum;
}

Result<Residency> ReadResidency(const std::string& path) {
  const ByteRange whole{0, std::numeric_limits<int64_t>::max()};
  ASSIGN_OR_RETURN(const std::vector<Residency> answers, ReadResidencyRanges(path, {&whole, 1}));
  return answers[0];
}

}  // namespace rouse::os
