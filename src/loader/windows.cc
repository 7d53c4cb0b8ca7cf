#include "loader/windows.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/fd.h"
#include "base/strings.h"
#include "os/page_cache.h"

namespace rouse::loader {
namespace {

using gguf::FileRange;

constexpr int64_t kPageBytes = 4096;
constexpr int64_t kLargePageBytes = int64_t{2} << 20;
constexpr size_t kPreadBytes = size_t{1} << 20U;

// Only whole ones: what lies before the window must not be read.
bool IsOfLargePages(const Window& window) {
  return !window.exact && window.offset % kLargePageBytes == 0 && window.bytes >= kLargePageBytes;
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
    } else if (IsOfLargePages(window)) {
      os::PreferLargePages(address, window.bytes);
    }
    return os::PopulateRange(address, window.bytes);
  }

 private:
  Fd fd_;
  os::MappedFile map_;
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

}  // namespace

Result<int64_t> RegularFileBytes(int fd, const std::string& path) {
  struct stat facts{};
  if (fstat(fd, &facts) != 0) return Error::FromErrno(errno, "cannot examine " + path);
  if (!S_ISREG(facts.st_mode)) return Error(ErrorCode::kCorrupt, path + " is not a regular file");
  return facts.st_size;
}

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
  if (!kib.has_value() || *kib < 0) return kGuessBytes;
  // Large pages are read two at a time.
  return std::max(*kib * 1024, kLargePageBytes);
}

Error ExplainReadError(const Error& error, const std::string& path, int64_t file_bytes) {
  if (error.code() != ErrorCode::kCorrupt && error.code() != ErrorCode::kIo) return error;
  struct stat facts{};
  if (stat(path.c_str(), &facts) == 0 && facts.st_size < file_bytes) {
    return {ErrorCode::kCorrupt, path + " was cut from " + std::to_string(file_bytes) + " to " +
                                     std::to_string(facts.st_size) + " bytes while it was read"};
  }
  if (error.code() == ErrorCode::kIo) return error;
  return {ErrorCode::kIo, "cannot read " + path + ": its device failed"};
}

MakeReader FileReaderMaker(ReadMethod method, const std::string& path) {
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

bool CanPopulate(const std::string& path) {
  void* const page = mmap(nullptr, kPageBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  const Status status = os::PopulateRange(static_cast<const std::byte*>(page), kPageBytes);
  munmap(page, kPageBytes);
  return status.ok() && os::MappedFile::Map(path).ok();
}

std::optional<int64_t> SkipResident(const std::string& path, Work& work) {
  std::vector<os::ByteRange> ranges;
  ranges.reserve(work.windows.size());
  for (const Window& window : work.windows) ranges.push_back({window.offset, window.bytes});
  const Result<std::vector<os::Residency>> read =
      os::ReadResidencyRangesBy(path, ranges, os::kExactProofs);
  if (!read.ok() || read->size() != work.windows.size()) return std::nullopt;
  int64_t resident_bytes = 0;
  std::vector<Window> missing;
  for (size_t i = 0; i < work.windows.size(); ++i) {
    const os::Residency& residency = (*read)[i];
    resident_bytes += residency.resident_bytes;
    if (residency.resident_bytes >= work.windows[i].bytes) {
      work.done_before_bytes += work.windows[i].bytes;
    } else {
      missing.push_back(work.windows[i]);
    }
  }
  work.windows = std::move(missing);
  return resident_bytes;
}

}  // namespace rouse::loader
