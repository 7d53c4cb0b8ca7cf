#include "loader/reader.h"

#include <fcntl.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/time.h"
#include "base/units.h"
#include "loader/plan.h"
#include "loader/window_runner.h"
#include "loader/windows.h"
#include "os/meminfo.h"
#include "os/page_cache.h"

namespace rouse::loader {
namespace {

using gguf::FileRange;

class ForeignMappingReader : public WindowReader {
 public:
  explicit ForeignMappingReader(const std::byte* address) : address_(address) {}

  Status ReadWindow(const Window& window) override {
    return os::PopulateRange(address_ + window.offset, window.bytes);
  }

 private:
  const std::byte* address_;
};

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
  const Status status = RunWindows(work, FileReaderMaker(report.method, path), options, progress);
  if (!status.ok()) return ExplainReadError(status.error(), path, report.file_bytes);
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
