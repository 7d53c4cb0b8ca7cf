#include "loader/prefetcher.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/fd.h"
#include "loader/memory_budget.h"
#include "loader/pace.h"
#include "loader/probe.h"
#include "loader/tail_stream.h"
#include "loader/window_runner.h"
#include "loader/windows.h"
#include "os/page_cache.h"

namespace rouse::loader {
namespace {

constexpr int64_t kLookAtMemoryEveryBytes = int64_t{64} << 20;
constexpr int64_t kGroupReserveShare = 8;

class PrefetcherImpl;

// Reads a window through the mapping where there is one, else through a reader of its own.
class SwitchingReader : public WindowReader {
 public:
  SwitchingReader(PrefetcherImpl& owner, const std::string& path, ReadMethod method);
  Status ReadWindow(const Window& window) override;

 private:
  PrefetcherImpl& owner_;
  const std::string& path_;
  const ReadMethod method_;
  Pacer::Thread pace_;
  std::unique_ptr<WindowReader> own_;
};

class PrefetcherImpl : public Prefetcher {
 public:
  explicit PrefetcherImpl(Options options)
      : options_(std::move(options)),
        pacer_(os::ProcRoot::Real(), RealClock()),
        mappings_(options_.mappings) {
    report_.started = MonoNow();
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "rouse-reader");
      Run();
    });
  }

  ~PrefetcherImpl() override {
    Cancel();
    Wait();
  }

  void Attach(std::vector<MappedPart> mappings) override {
    const std::unique_lock lock(mappings_mutex_);
    mappings_ = std::move(mappings);
  }
  void Detach() override {
    const std::unique_lock lock(mappings_mutex_);
    mappings_.clear();
  }
  void SetComputing(bool computing) override { pacer_.SetComputing(computing); }
  void Cancel() override { cancel_ = true; }
  void Wait() override {
    const std::lock_guard lock(join_mutex_);
    if (thread_.joinable()) thread_.join();
  }

  PrefetchReport Report() const override {
    const std::lock_guard lock(report_mutex_);
    PrefetchReport report = report_;
    report.read_bytes = read_bytes_;
    report.mapped_bytes = mapped_bytes_;
    report.slept_ns = pacer_.slept_ns();
    if (report.end == PrefetchEnd::kRunning) report.ended = MonoNow();
    return report;
  }

  // For SwitchingReader.
  Pacer& pacer() { return pacer_; }
  const std::atomic<bool>& cancel() const { return cancel_; }

  // Through the mapping; nullopt when the window is not mapped.
  std::optional<Status> ReadMapped(const std::string& path, const Window& window) {
    const std::shared_lock lock(mappings_mutex_);
    for (const MappedPart& part : mappings_) {
      if (part.path != path || window.offset < part.file_offset ||
          window.offset + window.bytes > part.file_offset + part.bytes) {
        continue;
      }
      return os::PopulateRange(part.address + (window.offset - part.file_offset), window.bytes);
    }
    return std::nullopt;
  }

  // A window that was read; `disk_bytes` is what the disk did for it.
  void Count(const Window& window, int64_t disk_bytes, bool mapped) {
    const int64_t bytes = resident_is_known_ ? window.bytes : disk_bytes;
    walked_bytes_ += window.bytes;
    read_bytes_ += bytes;
    if (mapped) mapped_bytes_ += bytes;
  }

  // Looked at now and then, by whichever thread comes first.
  Status CheckMemory() {
    if (!options_.within_memory) return {};
    const int64_t done = walked_bytes_;
    int64_t next = next_memory_look_;
    if (done < next ||
        !next_memory_look_.compare_exchange_strong(next, done + kLookAtMemoryEveryBytes)) {
      return {};
    }
    const std::optional<int64_t> left = RoomFor(0);
    if (!left || *left > 0) return {};
    return Error(ErrorCode::kExhausted, "memory is short");
  }

 private:
  // What memory there is for files of which `resident_bytes` are in the page cache already. Those
  // count as left, except what this process has locked and what is charged to others: as little of
  // either as there can be.
  std::optional<int64_t> RoomFor(int64_t resident_bytes) const {
    const MemoryBudget budget = options_.read_memory();
    const auto not_counted = [&](const std::optional<int64_t>& file_bytes) {
      const int64_t beyond = resident_bytes - file_bytes.value_or(resident_bytes);
      return std::min(resident_bytes, std::max(beyond, budget.locked_bytes));
    };
    std::optional<int64_t> room;
    if (budget.machine_bytes) {
      room = std::max<int64_t>(0, *budget.machine_bytes - options_.reserve_bytes) +
             not_counted(budget.machine_file_bytes);
    }
    if (budget.group_bytes) {
      const int64_t in_group = *budget.group_bytes - *budget.group_bytes / kGroupReserveShare +
                               not_counted(budget.group_file_bytes);
      room = std::min(room.value_or(in_group), in_group);
    }
    return room;
  }

  void Run() {
    PrefetchEnd end = PrefetchEnd::kDone;
    std::string problem;
    const Status status = ReadParts();
    if (!status.ok()) {
      const ErrorCode code = status.error().code();
      end = code == ErrorCode::kInterrupted ? PrefetchEnd::kCancelled
            : code == ErrorCode::kExhausted ? PrefetchEnd::kMemory
                                            : PrefetchEnd::kFailed;
      problem = status.error().message();
    } else if (too_large_) {
      end = PrefetchEnd::kMemory;
      problem = "the file does not fit into the memory that is left";
    }
    {
      const std::lock_guard lock(report_mutex_);
      report_.end = end;
      report_.problem = problem;
      report_.ended = MonoNow();
    }
    Remember();
  }

  // One file, and what is missing of it.
  struct Part {
    std::string path;
    int64_t bytes = 0;
    std::optional<int64_t> resident_bytes;
    Work work;
  };

  Status ReadParts() {
    std::vector<Part> parts;
    for (const std::string& path : options_.parts) {
      ASSIGN_OR_RETURN(Part part, Look(path));
      parts.push_back(std::move(part));
    }
    int64_t keep_bytes = KeepBytes(parts);
    for (Part& part : parts) {
      const int64_t keep_of_part = std::min(keep_bytes, part.bytes);
      keep_bytes -= keep_of_part;
      if (!part.work.windows.empty()) RETURN_IF_ERROR(ReadPart(part, keep_of_part));
    }
    return {};
  }

  Result<Part> Look(const std::string& path) {
    ASSIGN_OR_RETURN(const Fd fd, OpenFile(path, O_RDONLY | O_NONBLOCK));
    Part part;
    part.path = path;
    ASSIGN_OR_RETURN(part.bytes, RegularFileBytes(fd.get(), path));
    part.work = AllOf(part.bytes, options_.setup.value_or(ReadSetup()).window_bytes);
    part.resident_bytes = SkipResident(path, part.work);
    const std::lock_guard lock(report_mutex_);
    report_.file_bytes += part.bytes;
    std::optional<int64_t>& sum = report_.resident_bytes;
    sum = sum && part.resident_bytes ? std::optional(*sum + *part.resident_bytes) : std::nullopt;
    return part;
  }

  static Work AllOf(int64_t file_bytes, int64_t window_bytes) {
    const gguf::FileRange all{0, file_bytes};
    Work work;
    work.windows = CutIntoWindows({&all, 1}, window_bytes, file_bytes, 0);
    work.wanted_bytes = file_bytes;
    return work;
  }

  // How much of the files, from their beginning, is to be in memory. Judged by all of them: what is
  // resident is no smaller a part of what is needed for being there already.
  int64_t KeepBytes(const std::vector<Part>& parts) {
    int64_t all_bytes = 0;
    int64_t resident_bytes = 0;
    bool missing = false;
    for (const Part& part : parts) {
      all_bytes += part.bytes;
      resident_bytes += part.resident_bytes.value_or(0);
      missing = missing || !part.work.windows.empty();
    }
    std::optional<int64_t> room_bytes;
    // What is wholly there fits, whatever the kernel says is left.
    if (options_.within_memory && missing) room_bytes = RoomFor(resident_bytes);
    too_large_ = room_bytes && *room_bytes < all_bytes;
    const bool single = parts.size() == 1;
    if (single && options_.on_fit) options_.on_fit(too_large_ ? room_bytes : std::nullopt);
    if (!too_large_) return all_bytes;
    return single ? PlanTail(all_bytes, *room_bytes).keep_bytes : *room_bytes;
  }

  Status ReadPart(Part& part, int64_t keep_bytes) {
    resident_is_known_ = part.resident_bytes.has_value();
    const ReadSetup setup = SetupFor(part.path, part.work);
    if (setup.window_bytes != ReadSetup().window_bytes) {
      part.work = AllOf(part.bytes, setup.window_bytes);
    }
    SkipResident(part.path, part.work);  // those of the probe
    if (too_large_) LeaveOutBeyond(keep_bytes, part.work);
    const Status status = Read(part.path, setup, part.work);
    return status.ok() ? status : Status(ExplainReadError(status.error(), part.path, part.bytes));
  }

  void LeaveOutBeyond(int64_t end, Work& work) {
    const auto beyond = [end](const Window& window) { return window.offset + window.bytes > end; };
    int64_t omitted_bytes = 0;
    for (const Window& window : work.windows) omitted_bytes += beyond(window) ? window.bytes : 0;
    std::erase_if(work.windows, beyond);
    const std::lock_guard lock(report_mutex_);
    report_.omitted_bytes += omitted_bytes;
  }

  Status Read(const std::string& path, const ReadSetup& setup, const Work& work) {
    const WarmOptions options = {.threads = setup.threads,
                                 .window_bytes = setup.window_bytes,
                                 .method = setup.method,
                                 .cancel = &cancel_};
    const MakeReader make = [&]() -> Result<std::unique_ptr<WindowReader>> {
      return std::unique_ptr<WindowReader>(
          std::make_unique<SwitchingReader>(*this, path, setup.method));
    };
    return RunWindows(work, make, options, {});
  }

  // What is remembered of the device, or what a probe finds. Once for all parts.
  ReadSetup SetupFor(const std::string& path, const Work& work) {
    if (options_.setup) return *options_.setup;
    if (profile_) return profile_->setup;
    ReadSetup setup;
    if (!CanPopulate(path)) setup.method = ReadMethod::kPread;
    if (!options_.profiles_path.empty()) {
      const std::string device = DeviceKey(os::ProcRoot::Real(), path);
      profile_ = FindProfile(options_.profiles_path, device);
      int64_t missing_bytes = 0;
      for (const Window& window : work.windows) missing_bytes += window.bytes;
      // What may be resident tells nothing of the device.
      const bool roomy = resident_is_known_ && missing_bytes >= kProbeFromBytes && !too_large_;
      if (NeedsProbe(profile_, WallNowNs() / kNsPerSecond)) {
        if (roomy && setup.method == ReadMethod::kPopulate) Probe(path, device, work);
      }
      if (profile_) setup = profile_->setup;
    }
    const std::lock_guard lock(report_mutex_);
    report_.setup = setup;
    return setup;
  }

  // What tells nothing (it was cancelled, or found its slices resident) is not remembered.
  void Probe(const std::string& path, const std::string& device, const Work& work) {
    std::vector<MeasuredSetup> measured = ProbeDevice(
        work,
        {.skip_resident = [&](Work& slice) { return SkipResident(path, slice).value_or(0); },
         .read = [&](const ReadSetup& setup,
                     const Work& slice) { return Read(path, setup, slice); },
         .cancelled = [&] { return cancel_.load(); }},
        RealClock());
    if (measured.empty() || measured.front().bytes_per_s.empty()) return;
    const MeasuredSetup& best = ChooseSetup(measured);
    profile_ = DeviceProfile{device, best.setup, best.Typical(), WallNowNs() / kNsPerSecond, 0};
    profile_is_new_ = true;
    const std::lock_guard lock(report_mutex_);
    report_.probed = std::move(measured);
  }

  // A cancelled or held-back load tells nothing of the device.
  void Remember() {
    if (!profile_ || options_.profiles_path.empty()) return;
    const PrefetchReport report = Report();
    if (report.end == PrefetchEnd::kDone && report.slept_ns == 0) {
      LearnRate(*profile_, report.read_bytes, report.ended - report.started);
    } else if (!profile_is_new_) {
      return;
    }
    // Without that memory the next load probes again; nothing to tell anybody.
    const Status saved = SaveProfile(options_.profiles_path, *profile_);
    static_cast<void>(saved.ok());
  }

  const Options options_;
  Pacer pacer_;
  std::atomic<bool> cancel_{false};
  std::atomic<int64_t> walked_bytes_{0};  // of windows that were read, resident or not
  std::atomic<int64_t> read_bytes_{0};
  std::atomic<int64_t> mapped_bytes_{0};
  std::atomic<int64_t> next_memory_look_{kLookAtMemoryEveryBytes};
  std::shared_mutex mappings_mutex_;  // held shared while a window is read through one
  std::vector<MappedPart> mappings_;
  mutable std::mutex report_mutex_;
  PrefetchReport report_;
  // Of the reading thread only.
  std::optional<DeviceProfile> profile_;
  bool profile_is_new_ = false;
  bool too_large_ = false;
  bool resident_is_known_ = true;  // of the part that is read; threads of RunWindows() see it too
  std::mutex join_mutex_;
  std::thread thread_;
};

SwitchingReader::SwitchingReader(PrefetcherImpl& owner, const std::string& path, ReadMethod method)
    : owner_(owner), path_(path), method_(method), pace_(owner.pacer()) {}

Status SwitchingReader::ReadWindow(const Window& window) {
  if (!pace_.Pause(owner_.cancel())) {
    return Error(ErrorCode::kExhausted, "tasks of this machine wait for memory");
  }
  RETURN_IF_ERROR(owner_.CheckMemory());
  const int64_t disk_bytes_before = os::DiskBytesReadByThisThread();
  std::optional<Status> status = owner_.ReadMapped(path_, window);
  const bool mapped = status.has_value();
  if (!mapped) {
    if (own_ == nullptr) {
      ASSIGN_OR_RETURN(own_, FileReaderMaker(method_, path_)());
    }
    status = own_->ReadWindow(window);
  }
  if (status->ok()) {
    owner_.Count(window, os::DiskBytesReadByThisThread() - disk_bytes_before, mapped);
  }
  return *std::move(status);
}

}  // namespace

std::string_view PrefetchEndName(PrefetchEnd end) {
  switch (end) {
    case PrefetchEnd::kRunning:
      return "running";
    case PrefetchEnd::kDone:
      return "done";
    case PrefetchEnd::kCancelled:
      return "cancelled";
    case PrefetchEnd::kMemory:
      return "memory";
    case PrefetchEnd::kFailed:
      return "failed";
  }
  CHECK(false);
}

std::unique_ptr<Prefetcher> Prefetcher::Start(Options options) {
  return std::make_unique<PrefetcherImpl>(std::move(options));
}

}  // namespace rouse::loader
