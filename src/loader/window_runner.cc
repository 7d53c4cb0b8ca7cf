#include "loader/window_runner.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include "base/time.h"

namespace rouse::loader {
namespace {

constexpr int64_t kProgressIntervalNs = 50 * kNsPerMs;

class Runner {
 public:
  Runner(const Work& work, const MakeReader& make_reader, const WarmOptions& options,
         const WarmProgressFn& progress)
      : work_(work),
        make_reader_(make_reader),
        options_(options),
        progress_(progress),
        start_(MonoNow()),
        last_report_(start_),
        done_bytes_(work.done_before_bytes) {}

  Status Run() {
    const auto most = std::max<size_t>(1, work_.windows.size());
    const size_t count =
        std::clamp<size_t>(static_cast<size_t>(std::max(1, options_.threads)), 1, most);
    if (count == 1) {
      WorkOff();
    } else {
      std::vector<std::jthread> threads;
      for (size_t i = 0; i < count; ++i) threads.emplace_back([this] { WorkOff(); });
    }
    if (error_.has_value()) return *error_;
    if (progress_) Report(MonoNow());
    return {};
  }

 private:
  void WorkOff() {
    const Status status = ReadWindows();
    if (status.ok()) return;
    const std::scoped_lock lock(mutex_);
    if (!error_.has_value()) error_ = status.error();
    failed_ = true;
  }

  Status ReadWindows() {
    if (work_.windows.empty()) return {};
    ASSIGN_OR_RETURN(const std::unique_ptr<WindowReader> reader, make_reader_());
    while (!failed_) {
      const size_t index = next_.fetch_add(1);
      if (index >= work_.windows.size()) break;
      if (options_.cancel != nullptr && options_.cancel->load()) {
        return Error(ErrorCode::kInterrupted, "interrupted; what was read so far stays");
      }
      const Window& window = work_.windows[index];
      RETURN_IF_ERROR(reader->ReadWindow(window));
      done_bytes_ += window.bytes;
      MaybeReport();
    }
    return {};
  }

  void MaybeReport() {
    if (!progress_) return;
    const MonoTime now = MonoNow();
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || now - last_report_ < kProgressIntervalNs) return;
    last_report_ = now;
    Report(now);
  }

  void Report(MonoTime now) {
    progress_({.done_bytes = done_bytes_.load(),
               .wanted_bytes = work_.wanted_bytes,
               .elapsed_ns = now - start_});
  }

  const Work& work_;
  const MakeReader& make_reader_;
  const WarmOptions& options_;
  const WarmProgressFn& progress_;
  const MonoTime start_;
  std::mutex mutex_;  // guards the two below and serializes progress
  MonoTime last_report_;
  std::optional<Error> error_;
  std::atomic<bool> failed_{false};
  std::atomic<size_t> next_{0};
  std::atomic<int64_t> done_bytes_;
};

}  // namespace

Status RunWindows(const Work& work, const MakeReader& make_reader, const WarmOptions& options,
                  const WarmProgressFn& progress) {
  return Runner(work, make_reader, options, progress).Run();
}

}  // namespace rouse::loader
