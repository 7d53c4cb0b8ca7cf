#include "lab/sampler.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "os/page_cache_probe.h"
#include "os/proc_children.h"
#include "os/proc_io.h"
#include "os/proc_stat.h"
#include "os/psi.h"
#include "results/samples.h"

namespace rouse::lab {
namespace {

// When there are so many, every second one is dropped and the period doubled: as many as a picture
// can show, however long the attempt.
constexpr size_t kMostSamples = 128;
constexpr int kFileParts = 32;
// Children are looked for once in so many samples.
constexpr int kChildrenEvery = 5;

using Total = std::optional<int64_t>;

// What one process has counted. A counter that could not be read is empty, and so is then the sum.
struct ProcessTotals {
  Total major_faults;
  Total minor_faults;
  Total read_bytes;
};

constexpr std::array<Total ProcessTotals::*, 3> kProcessTotals = {
    &ProcessTotals::major_faults, &ProcessTotals::minor_faults, &ProcessTotals::read_bytes};
constexpr std::array<const char*, 3> kProcessNames = {"target_major_faults", "target_minor_faults",
                                                      "target_read_bytes"};
constexpr std::array<const char*, 5> kPressureNames = {"psi_cpu_some_us", "psi_io_some_us",
                                                       "psi_io_full_us", "psi_memory_some_us",
                                                       "psi_memory_full_us"};

struct Sample {
  MonoTime at;
  std::array<Total, kProcessNames.size()> of_target;
  std::array<Total, kPressureNames.size()> pressure;
  std::string page_cache;
};

// The same clock in the library's words: libstdc++'s steady_clock is CLOCK_MONOTONIC.
std::chrono::steady_clock::time_point SteadyTime(MonoTime time) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(time.ns));
}

int64_t ThreadCpuNs() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return used.tv_sec * kNsPerSecond + used.tv_nsec;
}

// The processes of the target, those among them that have ended included: their last totals stay.
class Followed {
 public:
  Followed(const os::ProcRoot& root, std::span<const int> pids) : root_(root) {
    for (const int pid : pids) Add(pid, true);
  }

  // What a process had before it was followed is not counted, unless it is new.
  void Add(int pid, bool was_there) {
    if (processes_.contains(pid)) return;
    Process& process = processes_[pid];
    if (was_there) process.base = Read(pid);
    process.last = process.base;
  }

  void LookForChildren() {
    std::vector<int> pids;
    for (const auto& [pid, process] : processes_) pids.push_back(pid);
    for (const int pid : pids) {
      for (const int child : os::ReadChildren(root_, pid)) Add(child, false);
    }
  }

  std::array<Total, kProcessNames.size()> Totals() {
    std::array<Total, kProcessNames.size()> sums{};
    if (!processes_.empty()) sums.fill(0);
    for (auto& [pid, process] : processes_) {
      if (const std::optional<ProcessTotals> now = Read(pid)) process.last = now;
      for (size_t i = 0; i < sums.size(); ++i) Sum(process, kProcessTotals.at(i), sums.at(i));
    }
    return sums;
  }

 private:
  struct Process {
    std::optional<ProcessTotals> base;
    std::optional<ProcessTotals> last;
  };

  static void Sum(const Process& process, Total ProcessTotals::* field, Total& sum) {
    if (!process.last) return;  // it ended before anybody looked
    const Total& last = (*process.last).*field;
    const Total base = process.base ? (*process.base).*field : Total(0);
    sum = sum && last && base ? Total(*sum + *last - *base) : std::nullopt;
  }

  // Empty once it has ended.
  std::optional<ProcessTotals> Read(int pid) const {
    const Result<os::ProcStat> stat = os::ReadProcStat(root_, pid);
    if (!stat.ok() || stat->state == 'Z') return std::nullopt;
    const Result<os::ProcIo> io = os::ReadProcIo(root_, pid);
    return ProcessTotals{.major_faults = stat->major_faults,
                         .minor_faults = stat->minor_faults,
                         .read_bytes = io.ok() ? io->read_bytes : std::nullopt};
  }

  const os::ProcRoot& root_;
  std::map<int, Process> processes_;
};

std::array<Total, kPressureNames.size()> ReadPressure(const os::ProcRoot& root) {
  const auto read = [&root](os::PsiResource resource) {
    const Result<os::Psi> psi = os::ReadPsi(root, resource);
    return psi.ok() ? std::pair(psi->some.total_us, psi->full.total_us) : std::pair<Total, Total>();
  };
  const auto cpu = read(os::PsiResource::kCpu);
  const auto io = read(os::PsiResource::kIo);
  const auto memory = read(os::PsiResource::kMemory);
  return {cpu.first, io.first, io.second, memory.first, memory.second};
}

class ThreadSampler : public Sampler {
 public:
  ThreadSampler(const os::ProcRoot& root, int64_t period_ns)
      : root_(root), first_period_ns_(period_ns) {}
  ~ThreadSampler() override { Stop(); }
  ThreadSampler(const ThreadSampler&) = delete;
  ThreadSampler& operator=(const ThreadSampler&) = delete;

  void Begin(std::span<const int> pids, const std::string& model_file) override {
    Stop();
    samples_.clear();
    samples_.reserve(kMostSamples + 1);
    cpu_ns_ = 0;
    why_no_strip_.clear();
    why_not_.clear();
    new_pid_ = 0;
    period_ns_ = first_period_ns_;
    followed_.emplace(root_, pids);
    probe_.reset();
    if (model_file.empty()) {
      why_no_strip_ = "no model file is known";
    } else if (Result<os::PageCacheProbe> probe = os::PageCacheProbe::Open(model_file, kFileParts);
               probe.ok()) {
      probe_ = std::move(probe).value();
    } else {
      why_no_strip_ = probe.error().message();
    }
    Take();
    stopping_ = false;
    begun_ = true;
    // What std::thread throws when the machine has no thread left ends here.
    try {
      thread_ = std::thread([this] { Loop(); });
    } catch (const std::system_error& error) {
      why_not_ = std::string("no thread could be started: ") + error.what();
    }
  }

  void Follow(int pid) override {
    const std::lock_guard lock(mutex_);
    new_pid_ = pid;
  }

  void End(MonoTime intended, results::Attempt& attempt) override {
    if (!begun_) return;
    Stop();
    begun_ = false;
    if (!why_not_.empty()) {
      attempt.null_reasons["samples"] = why_not_;
      return;
    }
    Take();
    attempt.counters["sampler_cpu_ns"] = cpu_ns_;
    if (!why_no_strip_.empty()) attempt.null_reasons["samples.page_cache"] = why_no_strip_;
    attempt.samples_json = results::SamplesJson(Stored(intended));
  }

 private:
  void Stop() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  void Loop() {
    const int64_t before_ns = ThreadCpuNs();
    std::unique_lock lock(mutex_);
    MonoTime next = samples_.front().at + period_ns_;
    while (!stopping_) {
      const bool stopped = wake_.wait_until(lock, SteadyTime(next), [this] { return stopping_; });
      if (stopped) break;
      const int started = std::exchange(new_pid_, 0);
      lock.unlock();
      if (started != 0) followed_->Add(started, false);
      if (samples_.size() % kChildrenEvery == 1) followed_->LookForChildren();
      Take();
      if (samples_.size() >= kMostSamples) Thin();
      // A sample that came late is not made up for.
      while (next <= samples_.back().at) next = next + period_ns_;
      lock.lock();
    }
    cpu_ns_ = ThreadCpuNs() - before_ns;
  }

  void Take() {
    Sample sample;
    sample.at = MonoNow();
    sample.of_target = followed_->Totals();
    sample.pressure = ReadPressure(root_);
    if (probe_) {
      Result<std::string> strip = probe_->Read();
      if (strip.ok()) sample.page_cache = std::move(strip).value();
    }
    samples_.push_back(std::move(sample));
  }

  // Every second one, the first among them.
  void Thin() {
    size_t kept = 0;
    for (size_t i = 0; i < samples_.size(); i += 2) samples_[kept++] = std::move(samples_[i]);
    samples_.resize(kept);
    period_ns_ *= 2;
  }

  results::Samples Stored(MonoTime intended) const {
    results::Samples stored;
    const Sample& first = samples_.front();
    const bool strips = std::all_of(samples_.begin(), samples_.end(), [&first](const Sample& each) {
      return !each.page_cache.empty() && each.page_cache.size() == first.page_cache.size();
    });
    for (const Sample& sample : samples_) {
      stored.at_ns.push_back(sample.at - intended);
      if (strips) stored.page_cache.push_back(sample.page_cache);
      for (size_t i = 0; i < kProcessNames.size(); ++i) {
        stored.totals[kProcessNames.at(i)].push_back(sample.of_target.at(i));
      }
      for (size_t i = 0; i < kPressureNames.size(); ++i) {
        const Total& now = sample.pressure.at(i);
        const Total& before = first.pressure.at(i);
        stored.totals[kPressureNames.at(i)].push_back(now && before ? Total(*now - *before)
                                                                    : std::nullopt);
      }
    }
    // Before a process was started it had counted nothing.
    for (const char* const name : kProcessNames) {
      std::vector<Total>& column = stored.totals[name];
      const auto known = std::find_if(column.begin(), column.end(),
                                      [](const Total& value) { return value.has_value(); });
      if (known != column.end()) std::fill(column.begin(), known, 0);
    }
    // What was never read is left out.
    std::erase_if(stored.totals, [](const auto& column) {
      return std::none_of(column.second.begin(), column.second.end(),
                          [](const Total& value) { return value.has_value(); });
    });
    return stored;
  }

  const os::ProcRoot& root_;
  const int64_t first_period_ns_;
  // The thread's own between Begin and Stop.
  int64_t period_ns_ = 0;
  std::vector<Sample> samples_;
  std::optional<Followed> followed_;
  std::optional<os::PageCacheProbe> probe_;
  int64_t cpu_ns_ = 0;

  bool begun_ = false;
  std::string why_not_;
  std::string why_no_strip_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // guarded by mutex_, as the next one
  int new_pid_ = 0;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Sampler> MakeSampler(const os::ProcRoot& root, int64_t period_ns) {
  return std::make_unique<ThreadSampler>(root, period_ns);
}

}  // namespace rouse::lab
