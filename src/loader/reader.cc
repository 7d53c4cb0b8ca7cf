#include "loader/reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/fd.h"
#include "base/strings.h"
#include "base/time.h"
#include "base/units.h"
#include "loader/plan.h"
#include "loader/window_runner.h"
#include "os/meminfo.h"
#include "os/page_cache.h"

namespace rouse::loader {
namespace {

using gguf::FileRange;

constexpr int64_t kPageBytes = 4096;
constexpr size_t kPreadBytes = size_t{1} << 20U;

Result<int64_t> RegularFileBytes(int fd, const std::string& path) {
  struct stat facts{};
  if (fstat(fd, &facts) != 0) return Error::FromErrno(errno, "cannot examine " + path);
  if (!S_ISREG(facts.st_mode)) return Error(ErrorCode::kCorrupt, path + " is not a regular file");
  return facts.st_size;
}

// Cuts ranges into windows of whole pages, in order; nothing beyond `end_bytes`. The kernel reads
// ahead of a reader by up to twice `read_ahead_bytes`: what lies so near to the end of a range that
// this would leave the range is marked exact.
std::vector<Window> CutIntoWindows(std::span<const FileRange> ranges, int64_t window_bytes,
                                   int64_t end_bytes, int64_t read_ahead_bytes) {
  const int64_t step = std::max(kPageBytes, window_bytes / kPageBytes * kPageBytes);
  std::vector<Window> windows;
  for (const FileRange& range : ranges) {
    CHECK(range.offset >= 0 && range.bytes >= 0);
    const int64_t last = std::min(range.offset + range.bytes, end_bytes);
    const int64_t end = std::min((last + kPageBytes - 1) / kPageBytes * kPageBytes, end_bytes);
    const int64_t exact_from = end == end_bytes ? end : end - 2 * read_ahead_bytes;
    for (int64_t at = range.offset / kPageBytes * kPageBytes; at < end; at += step) {
      const int64_t bytes = std::min(step, end - at);
      windows.push_back({.offset = at, .bytes = bytes, .exact = at + bytes > exact_from});
    }
  }
  return windows;
}

// How far the kernel reads ahead on the file's device; a generous guess where it does not say.
int64_t ReadAheadBytes(int fd) {
  constexpr int64_t kGuessBytes = int64_t{16} << 20;
  struct stat facts{};
  if (fstat(fd, &facts) != 0) return kGuessBytes;
  const std::string device =
      std::to_string(major(facts.st_dev)) + ":" + std::to_string(minor(facts.st_dev));
  const Result<std::string> text =
      os::ProcRoot::Real().Read("sys/class/bdi/" + device + "/read_ahead_kb");
  if (!text.ok()) return kGuessBytes;
  const std::optional<int64_t> kib = ParseInt64(TrimBlanks(*text));
  return kib.has_value() && *kib >= 0 ? *kib * 1024 : kGuessBytes;
}

// A file that shrank and a device that fails look the same to madvise; the size tells them apart.
Error Explain(const Error& error, const std::string& path, int64_t file_bytes) {
  if (error.code() != ErrorCode::kCorrupt && error.code() != ErrorCode::kIo) return error;
  struct stat facts{};
  if (stat(path.c_str(), &facts) == 0 && facts.st_size < file_bytes) {
    return {ErrorCode::kCorrupt, path + " was cut from " + std::to_string(file_bytes) + " to " +
                                     std::to_string(facts.st_size) + " bytes while it was read"};
  }
  if (error.code() == ErrorCode::kIo) return error;
  return {ErrorCode::kIo, "cannot read " + path + ": its device failed"};
}

class PopulateReader : public WindowReader {
 public:
  PopulateReader(Fd fd, os::MappedFile map) : fd_(std::move(fd)), map_(std::move(map)) {}

  Status ReadWindow(const Window& window) override {
    const std::byte* const address = map_.data() + window.offset;
    if (window.exact) {
      // Ask for exactly these pages, then wait for them without any read-ahead of their own. Half
      // as fast as plain populating (single pages instead of large folios), so only where needed.
      const auto bytes = static_cast<size_t>(window.bytes);
      madvise(const_cast<std::byte*>(address), bytes, MADV_RANDOM);
      posix_fadvise(fd_.get(), window.offset, window.bytes, POSIX_FADV_WILLNEED);
    }
    return os::PopulateRange(address, window.bytes);
  }

 private:
  Fd fd_;
  os::MappedFile map_;
};

class ForeignMappingReader : public WindowReader {
 public:
  explicit ForeignMappingReader(const std::byte* address) : address_(address) {}

  Status ReadWindow(const Window& window) override {
    return os::PopulateRange(address_ + window.offset, window.bytes);
  }

 private:
  const std::byte* address_;
};

class PreadReader : public WindowReader {
 public:
  PreadReader(Fd fd, std::string path)
      : fd_(std::move(fd)), path_(std::move(path)), buffer_(kPreadBytes) {}

  Status ReadWindow(const Window& window) override {
    posix_fadvise(fd_.get(), 0, 0, window.exact ? POSIX_FADV_RANDOM : POSIX_FADV_SEQUENTIAL);
    const int64_t end = window.offset + window.bytes;
    for (int64_t at = window.offset; at < end;) {
      const auto length = std::min(kPreadBytes, static_cast<size_t>(end - at));
      const ssize_t count = pread(fd_.get(), buffer_.data(), length, at);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return Error::FromErrno(errno, "cannot read " + path_);
      if (count == 0) return Error(ErrorCode::kCorrupt, path_ + " ends early");
      at += count;
    }
    return {};
  }

 private:
  Fd fd_;
  std::string path_;
  std::vector<char> buffer_;
};

MakeReader ReaderMaker(ReadMethod method, const std::string& path) {
  if (method == ReadMethod::kPread) {
    return [path]() -> Result<std::unique_ptr<WindowReader>> {
      ASSIGN_OR_RETURN(Fd fd, OpenFile(path, O_RDONLY));
      return std::unique_ptr<WindowReader>(std::make_unique<PreadReader>(std::move(fd), path));
    };
  }
  return [path]() -> Result<std::unique_ptr<WindowReader>> {
    // A mapping per thread, and with it a read-ahead state per thread.
    ASSIGN_OR_RETURN(Fd fd, OpenFile(path, O_RDONLY));
    ASSIGN_OR_RETURN(os::MappedFile map, os::MappedFile::Map(path));
    return std::unique_ptr<WindowReader>(
        std::make_unique<PopulateReader>(std::move(fd), std::move(map)));
  };
}

// Whether the kernel has MADV_POPULATE_READ and the file can be mapped. Touches no page of it.
bool CanPopulate(const std::string& path) {
  void* const page = mmap(nullptr, kPageBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  const Status status = os::PopulateRange(static_cast<const std::byte*>(page), kPageBytes);
  munmap(page, kPageBytes);
  return status.ok() && os::MappedFile::Map(path).ok();
}

// Takes the windows that are wholly resident out of `work`. Returns the resident bytes of all
// windows, or nothing when they can't be told.
std::optional<int64_t> SkipResident(const std::string& path, Work& work) {
  std::vector<os::ByteRange> ranges;
  ranges.reserve(work.windows.size());
  for (const Window& window : work.windows) ranges.push_back({window.offset, window.bytes});
  const Result<std::vector<os::Residency>> read = os::ReadResidencyRanges(path, ranges);
  if (!read.ok() || read->size() != work.windows.size()) return std::nullopt;
  int64_t resident_bytes = 0;
  std::vector<Window> missing;
  for (size_t i = 0; i < work.windows.size(); ++i) {
    const os::Residency& residency = (*read)[i];
    resident_bytes += residency.resident_bytes;
    // A sample can miss a hole.
    const bool whole =
        !residency.sampled_pages.has_value() && residency.resident_bytes >= work.windows[i].bytes;
    if (whole) {
      work.done_before_bytes += work.windows[i].bytes;
    } else {
      missing.push_back(work.windows[i]);
    }
  }
  work.windows = std::move(missing);
  return resident_bytes;
}

Status CheckMemory(const std::string& path, int64_t missing_bytes, const WarmOptions& options) {
  if (!options.within_available_memory || missing_bytes == 0) return {};
  const Result<os::Meminfo> memory = os::ReadMeminfo(os::ProcRoot::Real());
  if (!memory.ok()) return {};  // not told is not a reason to refuse
  const std::optional<int64_t> available = memory->available_bytes;
  if (!available.has_value() || missing_bytes <= *available - options.reserve_bytes) return {};
  return Error(ErrorCode::kExhausted,
               "not enough memory to hold " + path + ": " + FormatBytes(missing_bytes) +
                   " are missing, " + FormatBytes(*available) + " are available and " +
                   FormatBytes(options.reserve_bytes) +
                   " of them stay free; nothing was read (a smaller --fraction may fit)");
}

}  // namespace

std::string_view ReadMethodName(ReadMethod method) {
  switch (method) {
    case ReadMethod::kAuto:
      return "auto";
    case ReadMethod::kPopulate:
      return "populate";
    case ReadMethod::kPread:
      return "pread";
  }
  return "auto";
}

Result<WarmReport> WarmFile(const std::string& path, double fraction, const WarmOptions& options,
                            const WarmProgressFn& progress) {
  ASSIGN_OR_RETURN(const Fd fd, OpenFile(path, O_RDONLY | O_NONBLOCK));
  ASSIGN_OR_RETURN(const int64_t file_bytes, RegularFileBytes(fd.get(), path));
  return WarmRanges(path, LeadingBytes(file_bytes, fraction), options, progress);
}

Result<WarmReport> WarmRanges(const std::string& path, std::span<const FileRange> ranges,
                              const WarmOptions& options, const WarmProgressFn& progress) {
  const MonoTime start = MonoNow();
  ASSIGN_OR_RETURN(const Fd fd, OpenFile(path, O_RDONLY | O_NONBLOCK));
  WarmReport report;
  ASSIGN_OR_RETURN(report.file_bytes, RegularFileBytes(fd.get(), path));
  Work work;
  work.windows =
      CutIntoWindows(ranges, options.window_bytes, report.file_bytes, ReadAheadBytes(fd.get()));
  for (const Window& window : work.windows) work.wanted_bytes += window.bytes;
  report.wanted_bytes = work.wanted_bytes;
  report.resident_before_bytes = SkipResident(path, work);
  RETURN_IF_ERROR(CheckMemory(path, report.ReadBytes().value_or(report.wanted_bytes), options));

  report.method = options.method;
  if (report.method == ReadMethod::kAuto) {
    const bool populate = work.windows.empty() || CanPopulate(path);
    report.method = populate ? ReadMethod::kPopulate : ReadMethod::kPread;
  }
  report.threads = std::max(1, options.threads);
  const Status status = RunWindows(work, ReaderMaker(report.method, path), options, progress);
  if (!status.ok()) return Explain(status.error(), path, report.file_bytes);
  report.duration_ns = MonoNow() - start;
  return report;
}

Result<WarmReport> WarmMapping(const void* address, int64_t mapped_bytes,
                               std::span<const FileRange> ranges, const WarmOptions& options,
                               const WarmProgressFn& progress) {
  const MonoTime start = MonoNow();
  const auto* const bytes = static_cast<const std::byte*>(address);
  WarmReport report;
  report.file_bytes = mapped_bytes;
  Work work;
  work.windows = CutIntoWindows(ranges, options.window_bytes, mapped_bytes, 0);
  for (const Window& window : work.windows) work.wanted_bytes += window.bytes;
  report.wanted_bytes = work.wanted_bytes;
  report.threads = std::max(1, options.threads);
  const MakeReader make = [bytes]() -> Result<std::unique_ptr<WindowReader>> {
    return std::unique_ptr<WindowReader>(std::make_unique<ForeignMappingReader>(bytes));
  };
  RETURN_IF_ERROR(RunWindows(work, make, options, progress));
  report.duration_ns = MonoNow() - start;
  return report;
}

}  // namespace rouse::loader
