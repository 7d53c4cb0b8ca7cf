#include "loader/tail_stream.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/time.h"

namespace rouse::loader {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kPageBytes = 4096;
constexpr int64_t kWindowBytes = 2 * kMiB;
constexpr int64_t kPollNs = 2 * kNsPerMs;
// Computing is looked for so far ahead of where it was seen last. Threads share out an operation's
// rows, so that they are at several places of one tensor.
constexpr size_t kLookAheadWindows = 128;

class TailStreamImpl : public TailStream {
 public:
  TailStreamImpl(MappedPart part, TailPlan plan, Fd file, Fd pagemap)
      : part_(std::move(part)),
        plan_(plan),
        file_(std::move(file)),
        pagemap_(std::move(pagemap)),
        into_file_((kWindowBytes - part_.file_offset % kWindowBytes) % kWindowBytes),
        first_(plan.keep_bytes / kWindowBytes),
        windows_(CountWindows(part_.bytes - into_file_, first_)) {
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "rouse-tail");
      Run();
    });
  }

  ~TailStreamImpl() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void SetComputing(bool computing) override {
    {
      const std::lock_guard lock(mutex_);
      computing_ = computing;
    }
    changed_.notify_all();
  }

  Report Told() const override { return {passes_, given_up_bytes_, ahead_bytes_}; }

 private:
  struct Window {
    bool used = false;   // in used_, until it is given up
    bool asked = false;  // the kernel was asked to read it
  };

  void Run() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      changed_.wait(lock, [&] { return stop_ || computing_; });
      if (stop_) return;
      lock.unlock();
      Look();
      lock.lock();
      changed_.wait_for(lock, std::chrono::nanoseconds(kPollNs), [&] { return stop_; });
    }
  }

  void Look() {
    if (windows_.empty()) return;
    // At the beginning again: a new pass, whose first windows are not in used_ any more.
    if (front_ >= windows_.size() / 2 && !windows_[0].used && Touched(0)) {
      front_ = 0;
      ++passes_;
    }
    const size_t end = std::min(windows_.size(), front_ + kLookAheadWindows);
    size_t newest = front_;
    for (size_t i = front_ > kLookAheadWindows ? front_ - kLookAheadWindows : 0; i < end; ++i) {
      if (windows_[i].used || !Touched(i)) continue;
      windows_[i] = {.used = true, .asked = false};
      used_.push_back(i);
      newest = std::max(newest, i);
    }
    front_ = newest;
    while (static_cast<int64_t>(used_.size()) * kWindowBytes > plan_.behind_bytes) {
      GiveUp(used_.front());
      used_.pop_front();
    }
    const auto ahead = static_cast<size_t>(plan_.ahead_bytes / kWindowBytes);
    for (size_t i = 1; i <= ahead; ++i) AskFor((front_ + i) % windows_.size());
  }

  static size_t CountWindows(int64_t bytes, int64_t first) {
    return static_cast<size_t>(
        std::max<int64_t>(0, (bytes + kWindowBytes - 1) / kWindowBytes - first));
  }
  int64_t OffsetOf(size_t window) const {
    return (first_ + static_cast<int64_t>(window)) * kWindowBytes + into_file_;
  }
  int64_t BytesOf(size_t window) const {
    return std::min(kWindowBytes, part_.bytes - OffsetOf(window));
  }

  // Whether the window's last page is mapped: bit 63 of its entry in the page table.
  bool Touched(size_t window) const {
    const int64_t last = OffsetOf(window) + BytesOf(window) - 1;
    const auto page = (reinterpret_cast<uintptr_t>(part_.address) + static_cast<uintptr_t>(last)) /
                      static_cast<uintptr_t>(kPageBytes);
    uint64_t entry = 0;
    const auto at = static_cast<off_t>(page * sizeof entry);
    if (pread(pagemap_.get(), &entry, sizeof entry, at) != sizeof entry) return false;
    return (entry >> 63U) != 0;
  }

  void GiveUp(size_t window) {
    auto* const address = const_cast<std::byte*>(part_.address) + OffsetOf(window);
    const int64_t bytes = BytesOf(window);
    // First out of the page table, for mapped pages are kept.
    madvise(address, static_cast<size_t>(bytes), MADV_DONTNEED);
    posix_fadvise(file_.get(), part_.file_offset + OffsetOf(window), bytes, POSIX_FADV_DONTNEED);
    windows_[window] = {};
    given_up_bytes_ += bytes;
  }

  void AskFor(size_t window) {
    if (windows_[window].used || windows_[window].asked) return;
    const int64_t bytes = BytesOf(window);
    posix_fadvise(file_.get(), part_.file_offset + OffsetOf(window), bytes, POSIX_FADV_WILLNEED);
    windows_[window].asked = true;
    ahead_bytes_ += bytes;
  }

  const MappedPart part_;
  const TailPlan plan_;
  const Fd file_;
  const Fd pagemap_;
  // Windows begin where the file's large pages do: of those, the kernel gives up only whole ones.
  const int64_t into_file_;
  const int64_t first_;  // window of the mapping with which the tail begins
  // Of the thread only.
  std::vector<Window> windows_;
  std::deque<size_t> used_;  // in the order of use
  size_t front_ = 0;

  std::atomic<int64_t> passes_{0};
  std::atomic<int64_t> given_up_bytes_{0};
  std::atomic<int64_t> ahead_bytes_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  bool computing_ = false;
  std::thread thread_;
};

}  // namespace

TailPlan PlanTail(int64_t mapped_bytes, int64_t memory_bytes) {
  TailPlan plan;
  if (mapped_bytes <= memory_bytes) {
    plan.keep_bytes = mapped_bytes;
    return plan;
  }
  plan.ahead_bytes = std::min(32 * kMiB, memory_bytes / 8);
  plan.behind_bytes = std::min(64 * kMiB, memory_bytes / 4);
  // The kernel itself reads some ahead of page faults, and needs room to work with.
  const int64_t slack_bytes = std::min(64 * kMiB, memory_bytes / 8);
  plan.keep_bytes =
      std::max<int64_t>(0, memory_bytes - plan.ahead_bytes - plan.behind_bytes - slack_bytes);
  return plan;
}

Result<std::unique_ptr<TailStream>> TailStream::Start(MappedPart part, TailPlan plan) {
  ASSIGN_OR_RETURN(Fd file, OpenFile(part.path, O_RDONLY));
  Result<Fd> pagemap = OpenFile("/proc/self/pagemap", O_RDONLY);
  if (!pagemap.ok()) {
    return Error(ErrorCode::kUnsupported, "the kernel does not show this process's page table");
  }
  return std::unique_ptr<TailStream>(std::make_unique<TailStreamImpl>(
      std::move(part), plan, std::move(file), *std::move(pagemap)));
}

}  // namespace rouse::loader
