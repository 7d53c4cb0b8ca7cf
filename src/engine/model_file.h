// What the engine knows of a model's files besides their content: whether they are still the same
// ones, the pages of them that are mapped, and a leading part that stays locked in memory. Linux
// calls only, nothing of the runtime. Private to src/engine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "gguf/header.h"

namespace rouse::engine {

// Tells a file from what takes its place, and from itself after it was written to.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t modified_ns = 0;

  bool operator==(const FileIdentity&) const = default;
};
// Empty: there is none now.
std::optional<FileIdentity> IdentifyFile(const std::string& path);

// Asks the kernel to read the mappings in large pages (2 MiB) where it can. Page faults on mapped
// weights are 64 KiB each otherwise, at about 5 us.
void PreferLargePages(std::span<const FileMapping> mappings);

// Takes the pages out of this process's memory; the page cache keeps them, locked ones stay.
// Returns the bytes of the mappings.
Result<int64_t> DropMappedPages(std::span<const FileMapping> mappings);

// Resident memory of this process, file pages included. Empty when the kernel does not tell.
std::optional<int64_t> ResidentBytes();

// The part of a model that a first token needs first, locked in memory by a mapping of its own:
// that keeps it in the page cache, whatever becomes of the weights.
class LeadingLock {
 public:
  // Of the first `bytes` of the tensors in the order in which a forward pass needs them, headers
  // first. Locks nothing yet.
  LeadingLock(const std::vector<gguf::Header>& parts, int64_t bytes);
  LeadingLock(LeadingLock&& other) noexcept;
  LeadingLock& operator=(LeadingLock&& other) noexcept;
  ~LeadingLock();

  // Locks on where the last call stopped, and reads what is not resident; some MiB at a time,
  // between which it looks at `stop`. False: stopped. True: nothing is left to do, and problem()
  // says which limit was met (RLIMIT_MEMLOCK); then as much as possible is locked. kUnsupported:
  // the kernel does not tell how much is locked.
  Result<bool> LockOn(const std::stop_token& stop);

  // As read back from the kernel.
  int64_t locked_bytes() const { return locked_bytes_; }
  // Why it is less than asked for, or "".
  const std::string& problem() const { return problem_; }

 private:
  struct Mapping {
    std::byte* address = nullptr;
    size_t bytes = 0;
    size_t locked_bytes = 0;
  };
  void Map(const gguf::Header& part, std::span<const gguf::FileRange> ranges);
  bool LockWindows(const std::stop_token& stop);

  std::vector<Mapping> mappings_;
  int64_t locked_bytes_ = 0;
  std::string problem_;
};

}  // namespace rouse::engine
