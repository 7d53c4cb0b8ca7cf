// Brings a file's pages into the page cache, fast: MADV_POPULATE_READ in windows of 4 MiB on a
// mapping, or pread where the kernel (before 5.14) or the file system lacks it. It skips what is
// resident, goes in file order, and stays within the memory that is available. It neither locks
// pages nor proves residency (os/page_cache.h does that).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gguf/header.h"

namespace rouse::loader {

enum class ReadMethod { kAuto, kPopulate, kPread };
std::string_view ReadMethodName(ReadMethod method);  // "populate", "pread"

struct WarmOptions {
  // More than one helps where the device has several queues; one was best on a virtual disk.
  int threads = 1;
  int64_t window_bytes = int64_t{4} << 20;
  ReadMethod method = ReadMethod::kAuto;
  // Reading into a full memory would push out other pages, our own included: what is missing must
  // fit into MemAvailable less this reserve, else kExhausted, and nothing is read.
  bool within_available_memory = true;
  int64_t reserve_bytes = int64_t{256} << 20;
  const std::atomic<bool>* cancel = nullptr;  // polled between windows
};

struct WarmProgress {
  int64_t done_bytes = 0;  // of wanted_bytes, resident ones included
  int64_t wanted_bytes = 0;
  int64_t elapsed_ns = 0;
};
// Called at most every 50 ms and at the end, from one thread at a time.
using WarmProgressFn = std::function<void(const WarmProgress&)>;

struct WarmReport {
  int64_t file_bytes = 0;
  int64_t wanted_bytes = 0;  // of the ranges asked for, in whole pages
  // Of wanted_bytes, before the call. Empty when residency could not be read (not our file).
  std::optional<int64_t> resident_before_bytes;
  int64_t duration_ns = 0;
  ReadMethod method = ReadMethod::kPopulate;
  int threads = 1;

  // What had to come from the device, if that is known.
  std::optional<int64_t> ReadBytes() const {
    if (!resident_before_bytes.has_value()) return std::nullopt;
    return wanted_bytes - *resident_before_bytes;
  }
};

// The leading `fraction` (0 to 1) of a file as it lies on disk.
// kInterrupted when cancelled (what was read stays), kExhausted when it would not fit in memory,
// kCorrupt when the file was cut meanwhile (never SIGBUS), kIo when the device fails. An empty file
// is done at once.
Result<WarmReport> WarmFile(const std::string& path, double fraction, const WarmOptions& options,
                            const WarmProgressFn& progress = {});

// Some parts of a file, in the order given.
Result<WarmReport> WarmRanges(const std::string& path, std::span<const gguf::FileRange> ranges,
                              const WarmOptions& options, const WarmProgressFn& progress = {});

// The same on a mapping that the caller holds (a model's weights): the pages are then also in its
// page table, so that computing takes no faults, and there is one read-ahead state. Resident pages
// are therefore not skipped, nor is memory checked (the caller has planned it). `address` is
// where the file's byte 0 is mapped, `mapped_bytes` how much is. The mapping must outlive the call.
// kUnsupported where MADV_POPULATE_READ is missing.
Result<WarmReport> WarmMapping(const void* address, int64_t mapped_bytes,
                               std::span<const gguf::FileRange> ranges, const WarmOptions& options,
                               const WarmProgressFn& progress = {});

}  // namespace rouse::loader
