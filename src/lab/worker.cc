#include "lab/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/fd.h"
#include "base/result.h"
#include "base/strings.h"
#include "base/time.h"
#include "base/units.h"
#include "lab/storage_tiers.h"
#include "wire/client.h"

namespace rouse::lab {
namespace {

using Json = nlohmann::json;

// Longer than a timer tick (4 ms as a rule): the kernel lets whoever has slept run at once, and
// takes the core away again only at a tick. Units of 0.1 to 2 ms did not notice a spinner on every
// core (their median stayed); units of 3.4 ms and more took twice as long.
constexpr int64_t kSentinelUnitNs = 4500 * kNsPerUs;

void PrintLine(const Json& line) {
  // The reader may be gone; then the process is about to be killed anyway.
  (void)WriteAll(STDOUT_FILENO, line.dump() + "\n").ok();
}

// Waits for SIGTERM, which was blocked before any thread was started.
class StopSignal {
 public:
  StopSignal() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    fd_.Reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  // Returns at `deadline` or when the signal came; true in the second case.
  bool WaitUntil(std::optional<MonoTime> deadline) const {
    while (true) {
      int timeout_ms = -1;
      if (deadline) {
        const int64_t left_ns = *deadline - MonoNow();
        if (left_ns <= 0) return Pending();
        timeout_ms = static_cast<int>(left_ns / kNsPerMs + 1);
      }
      pollfd entry{.fd = fd_.get(), .events = POLLIN, .revents = 0};
      if (poll(&entry, 1, timeout_ms) > 0) return true;
    }
  }
  bool Pending() const {
    pollfd entry{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    return poll(&entry, 1, 0) > 0;
  }

 private:
  Fd fd_;
};

// xorshift64: Marsaglia, "Xorshift RNGs", J. Stat. Software 8 (2003). Only to make pages differ.
uint64_t NextRandom(uint64_t& state) {
  state ^= state << 13U;
  state ^= state >> 7U;
  state ^= state << 17U;
  return state;
}

// Every page gets its own content: pages of zeros would be shared or compressed away.
void FillPages(std::byte* data, int64_t bytes) {
  uint64_t state = 0x9E3779B97F4A7C15U;
  constexpr int64_t kPage = 4096;
  for (int64_t offset = 0; offset + kPage <= bytes; offset += kPage) {
    for (int64_t word = 0; word < kPage; word += 64) {
      const uint64_t value = NextRandom(state);
      std::memcpy(data + offset + word, &value, sizeof value);
    }
  }
}

Result<Json> HoldBallast(int64_t bytes, const StopSignal& stop) {
  void* const address = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return Error::FromErrno(errno, "cannot map " + FormatBytes(bytes) + " of ballast");
  }
  FillPages(static_cast<std::byte*>(address), bytes);
  // Locked where that is permitted, so that the kernel cannot take the ballast instead of what it
  // is meant to press on.
  const bool locked = mlock(address, static_cast<size_t>(bytes)) == 0;
  PrintLine({{"ready", true}, {"bytes", bytes}, {"locked", locked}});
  stop.WaitUntil(std::nullopt);
  return Json{{"report", true}, {"bytes", bytes}};
}

Result<Json> BurnCpu(int64_t threads, const StopSignal& stop) {
  std::atomic<bool> done{false};
  std::atomic<uint64_t> units{0};
  std::vector<std::thread> workers;
  for (int64_t i = 0; i < threads; ++i) {
    workers.emplace_back([&] {
      while (!done.load(std::memory_order_relaxed)) {
        if (SentinelUnit() != 0) units.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  PrintLine({{"ready", true}, {"threads", threads}});
  stop.WaitUntil(std::nullopt);
  done = true;
  for (std::thread& worker : workers) worker.join();
  return Json{{"report", true}, {"units", units.load()}};
}

// Reads the file around and around with O_DIRECT: the disk works, the page cache stays as it is.
Result<Json> ReadDisk(const std::string& path, const StopSignal& stop) {
  ASSIGN_OR_RETURN(const Fd fd, OpenFile(path, O_RDONLY | O_DIRECT));
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return Error::FromErrno(errno, "cannot stat " + path);
  constexpr size_t kBlock = 1U << 20U;
  if (info.st_size < static_cast<off_t>(kBlock)) {
    return Error(ErrorCode::kUsage, path + " is smaller than 1 MiB: too small to keep a disk busy");
  }
  const std::unique_ptr<void, decltype(&std::free)> buffer(std::aligned_alloc(4096, kBlock),
                                                           &std::free);
  if (buffer == nullptr) return Error(ErrorCode::kExhausted, "no memory for a 1 MiB buffer");
  int64_t read_bytes = 0;
  off_t offset = 0;
  bool told = false;
  const MonoTime start = MonoNow();
  while (!stop.Pending()) {
    const ssize_t count = pread(fd.get(), buffer.get(), kBlock, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error::FromErrno(errno, "cannot read " + path);
    read_bytes += count;
    offset += count;
    // A short read is the file's end; its next offset would not be aligned either.
    if (count < static_cast<ssize_t>(kBlock)) offset = 0;
    if (!told) PrintLine({{"ready", true}, {"file", path}});
    told = true;
  }
  return Json{{"report", true}, {"read_bytes", read_bytes}, {"elapsed_ns", MonoNow() - start}};
}

// Keeps `streams` requests running against the server under test.
Result<Json> SendRequests(const std::vector<std::string>& arguments, const StopSignal& stop) {
  wire::RequestSpec spec;
  spec.url = arguments.at(1);
  spec.api = wire::ApiFromName(arguments.at(2));
  spec.model = arguments.at(3);
  const int64_t streams = ParseInt64(arguments.at(4)).value_or(0);
  if (!spec.api || streams < 1) return Error(ErrorCode::kUsage, "worker: bad api or streams");
  for (size_t i = 5; i < arguments.size(); ++i) {
    const size_t equals = arguments[i].find('=');
    const char* const value =
        equals == std::string::npos ? nullptr : std::getenv(arguments[i].c_str() + equals + 1);
    if (value != nullptr) spec.headers.push_back({arguments[i].substr(0, equals), value});
  }
  spec.prompt = "Write one sentence about the sea.";
  spec.max_tokens = 32;
  ASSIGN_OR_RETURN(const wire::PreparedRequest request, wire::Prepare(spec));
  std::atomic<bool> done{false};
  std::atomic<int64_t> answered{0};
  std::vector<std::thread> clients;
  for (int64_t i = 0; i < streams; ++i) {
    clients.emplace_back([&] {
      wire::PerformOptions options;
      options.interrupt = &done;
      while (!done) {
        const wire::Exchange exchange = wire::Perform(request, options);
        // One that is cut at the end counts when its answer had begun.
        if (exchange.marks.first_token) ++answered;
        if (exchange.outcome == wire::Outcome::kOk) continue;
        // A server that refuses must not be hammered.
        RealClock().SleepFor(20 * kNsPerMs);
      }
    });
  }
  PrintLine({{"ready", true}, {"streams", streams}});
  stop.WaitUntil(std::nullopt);
  done = true;
  for (std::thread& client : clients) client.join();
  return Json{{"report", true}, {"answered", answered.load()}};
}

// How often the work is done in one unit, so that a unit takes about kSentinelUnitNs alone. The
// fastest of some tries: what runs beside us must not make the unit smaller.
int64_t RepeatsOfAUnit() {
  int64_t fastest_ns = kSentinelUnitNs;
  for (int i = 0; i < 20; ++i) {
    const MonoTime start = MonoNow();
    SentinelUnit();
    fastest_ns = std::min(fastest_ns, std::max<int64_t>(1, MonoNow() - start));
  }
  return kSentinelUnitNs / fastest_ns + 1;
}

// Does one unit of work every period, and tells when each began and how long it took: a stand-in
// for any other service on this machine that wants some processor time regularly.
Result<Json> WatchAsSentinel(int64_t period_ns, const StopSignal& stop) {
  const int64_t repeats = RepeatsOfAUnit();  // the buffer's pages are there from now on as well
  PrintLine({{"ready", true}, {"period_ns", period_ns}});
  Json starts = Json::array();
  Json durations = Json::array();
  MonoTime next = MonoNow();
  while (!stop.WaitUntil(next)) {
    // Late starts count: a service that is not let onto a core is slowed as much as one that runs
    // slowly there. So the unit is timed from the moment at which it wanted to begin.
    for (int64_t i = 0; i < repeats; ++i) SentinelUnit();
    starts.push_back(next.ns);
    durations.push_back(MonoNow() - next);
    next = next + period_ns;
    const MonoTime now = MonoNow();
    if (next < now) next = now;
  }
  return Json{{"report", true}, {"start_ns", starts}, {"duration_ns", durations}};
}

Result<Json> MeasureTier(const std::string& directory, int64_t bytes, const StopSignal& stop) {
  ASSIGN_OR_RETURN(const TierReport report,
                   ProbeTier(directory, bytes, [&stop] { return stop.Pending(); }));
  return Json::parse(TierReportJson(report));
}

Result<Json> Dispatch(const std::vector<std::string>& arguments, const StopSignal& stop) {
  const Error usage(ErrorCode::kUsage, "worker: unknown role or arguments");
  if (arguments.empty()) return usage;
  const std::string& role = arguments[0];
  if (role == "disk" && arguments.size() == 2) return ReadDisk(arguments[1], stop);
  if (role == "requests" && arguments.size() >= 5) return SendRequests(arguments, stop);
  const std::optional<int64_t> number =
      arguments.size() < 2 ? std::nullopt : ParseInt64(arguments.back());
  if (!number || *number <= 0) return usage;
  if (role == "tier" && arguments.size() == 3) return MeasureTier(arguments[1], *number, stop);
  if (role == "ballast" && arguments.size() == 2) return HoldBallast(*number, stop);
  if (role == "cpu" && arguments.size() == 2) return BurnCpu(*number, stop);
  if (role == "sentinel" && arguments.size() == 2) return WatchAsSentinel(*number, stop);
  return usage;
}

}  // namespace

uint64_t SentinelUnit() {
  static const std::array<uint64_t, 16384> words = [] {
    std::array<uint64_t, 16384> filled{};
    uint64_t state = 88172645463325252U;
    for (uint64_t& word : filled) word = NextRandom(state);
    return filled;
  }();
  // FNV-1a over words: Fowler, Noll, Vo; a chain of multiplications that can't be vectorized.
  uint64_t hash = 14695981039346656037U;
  for (int pass = 0; pass < 2; ++pass) {
    for (const uint64_t word : words) hash = (hash ^ word) * 1099511628211U;
  }
  return hash;
}

int RunWorker(const std::vector<std::string>& arguments) {
  const StopSignal stop;
  const Result<Json> report = Dispatch(arguments, stop);
  if (!report.ok()) {
    PrintLine({{"error", report.error().message()}});
    return ExitStatus(report.error());
  }
  PrintLine(*report);
  return 0;
}

}  // namespace rouse::lab
