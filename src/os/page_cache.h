// The page cache of one file: how much of it is resident, dropping it, filling it and locking it.
// Reading never warms: no byte of the file is touched, except by the sampled fallback, which can
// bring in at most the pages that it samples and drops those again.
// docs/method.md section 3 (layer page_cache) defines what counts as warm and as cold.
//
// All functions are safe from any thread and block; none is for the time between send and token.
// Cost of a residency reading: cachestat about 5 us per MB that is resident, mincore about 13 us
// per MB of the file, the sample about 1 us a page. How that was measured: docs/counters.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "os/proc_root.h"
#include "os/share_bounds.h"

namespace rouse::os {

struct ByteRange {
  int64_t offset = 0;
  int64_t bytes = 0;
};

// How residency was read. The order is the order of preference.
enum class ResidencyProof {
  kCachestat,  // exact; Linux 6.5 and later
  kMincore,    // exact; only where the kernel tells the truth: to root, owner and writers
  kSampled,    // preadv2(RWF_NOWAIT) of single pages: an estimate, for everybody who may read
};
std::string_view ResidencyProofName(ResidencyProof proof);  // "cachestat", "mincore", "sampled"

struct Residency {
  int64_t file_bytes = 0;      // of the file, or of the range that was asked for
  int64_t resident_bytes = 0;  // an estimate when `sampled_pages` is set
  // Only cachestat tells these. Dirty and under-writeback pages cannot be dropped.
  std::optional<int64_t> dirty_bytes;
  std::optional<int64_t> writeback_bytes;
  std::string proof;                     // ResidencyProofName
  std::optional<int64_t> sampled_pages;  // number of pages looked at, when it was a sample
  int64_t sampled_resident_pages = 0;    // of them resident

  // resident_bytes / file_bytes in [0, 1]; 1 for an empty file (nothing of it is missing).
  double Ratio() const;
  // Whether it is a count and no estimate (a sample that held every page is one as well).
  bool Exact() const;
  // Where the true ratio lies: at Ratio() when exact, else the sample's 95 % interval. What is to
  // be proved has to hold at both ends (docs/decisions/0015-residency-for-non-owners.md).
  ShareBounds Bounds() const;
};

// Why a reading is no count, for null_reasons.
inline constexpr std::string_view kWhyNotExact =
    "this user neither owns the file nor may write it: the kernel tells such users no exact number "
    "(its mincore would tell them that all of it is resident); the owner or root gets it";

// The whole file. Errors: kNotFound, kPermission (with what would help), kUnsupported (a directory,
// a file system without a page cache), kIo.
Result<Residency> ReadResidency(const std::string& path);

// One result per range, in order, all by the same proof. A range that reaches beyond the file is
// cut at its end. With the sample, each range gets a share of the sample's pages.
Result<std::vector<Residency>> ReadResidencyRanges(const std::string& path,
                                                   std::span<const ByteRange> ranges);

// Two samples of the same bytes, taken one after the other, as one.
Residency Pooled(const Residency& one, const Residency& other);

// The file in `parts` equal parts of whole pages (fewer when it has fewer pages), first to last.
// The sum over them costs what the whole costs, and 0.3 us a part.
Result<std::vector<Residency>> ReadResidencyParts(const std::string& path, int parts);
// Of the file that these ranges make up, all read by the same proof.
Residency SumOf(std::span<const Residency> parts);

// The same with the ways that may be tried, in the order of ResidencyProof; for tests and for
// comparing them.
Result<std::vector<Residency>> ReadResidencyRangesBy(const std::string& path,
                                                     std::span<const ByteRange> ranges,
                                                     std::span<const ResidencyProof> proofs);

// The ways that count. Who neither owns a file nor may write it is refused by both: that is an
// answer for whoever has no use for a sample, which costs hundreds of random reads of a cold file.
inline constexpr ResidencyProof kExactProofs[] = {ResidencyProof::kCachestat,
                                                  ResidencyProof::kMincore};

// Bytes that disks have read for the calling thread so far, read-ahead included. Not told (it does
// not grow) by file systems without a block device of their own, FUSE for one. About 0.3 us.
int64_t DiskBytesReadByThisThread();

// A process that has the file mapped.
struct Mapper {
  int pid = 0;
  std::string comm;
  // From smaps; empty when that may not be read. Locked is the process's proportional share, so
  // that the sum over all mappers is what is locked.
  std::optional<int64_t> resident_bytes;
  std::optional<int64_t> locked_bytes;
};

struct Mappers {
  std::vector<Mapper> mappers;
  // Processes whose maps we may not read (of other users): the list may then be incomplete.
  int unreadable_processes = 0;
};

// Who maps the file, by device and inode in /proc/*/maps (and by path where the two disagree, as on
// overlayfs and btrfs). Costs about 60 us a process.
Result<Mappers> FindMappers(const ProcRoot& root, const std::string& path);

struct EvictReport {
  Residency before;
  Residency after;
  // Why pages stayed; filled only when more than 1 % of the file did.
  Mappers who;
  int64_t locked_bytes = 0;  // sum over `who`

  // Reached as the contract has it: at most 1 % of the file is resident.
  bool Cold() const { return after.Bounds().high <= 0.01; }
  // "1.8 GB of 4.1 GB stayed, mapped by llama-server (pid 4121)"; "" when Cold().
  std::string WhyNot() const;
};

// Writes dirty pages back, drops the file's pages (posix_fadvise DONTNEED; no privilege needed),
// and reads the result. Pages that a process maps, locks or keeps dirtying stay: that is reported,
// not an error. Tries again for up to about 0.2 s, since pages in a CPU's batch are skipped once.
Result<EvictReport> EvictFile(const std::string& path);

// Drops one range only (to make a file partly resident); whole pages inside the range.
Status EvictRange(const std::string& path, ByteRange range);

// A read-only shared mapping of a whole file, not populated. The file must not be empty.
class MappedFile {
 public:
  static Result<MappedFile> Map(const std::string& path);
  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  const std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// MADV_POPULATE_READ: reads the range's pages in and maps them, in file order, without SIGBUS: a
// file that was truncated below is kCorrupt. `address` is rounded down to a page. kUnsupported
// before Linux 5.14.
Status PopulateRange(const std::byte* address, int64_t bytes);

// Asks that what is read through this part of a file's mapping comes in pages of 2 MiB, where
// kernel and file system have them (ext4, xfs and btrfs since about 6.16; a 2 MiB page is then
// mapped by one page fault instead of 32, here, in every later process, and after every sleep).
// Reading it may bring in up to 4 MiB from where a page was missing. A hint: nothing happens
// elsewhere.
void PreferLargePages(const std::byte* address, int64_t bytes);

// mlock, read back by VmLck: returns the bytes by which this process's locked memory grew.
// kPermission names RLIMIT_MEMLOCK with its value and how to raise it. munlock happens by unmapping
// or by UnlockRange.
Result<int64_t> LockRange(const std::byte* address, int64_t bytes);
Status UnlockRange(const std::byte* address, int64_t bytes);

// Bytes that this process may lock: empty = no limit (CAP_IPC_LOCK or RLIM_INFINITY).
std::optional<int64_t> LockLimitBytes();

}  // namespace rouse::os
