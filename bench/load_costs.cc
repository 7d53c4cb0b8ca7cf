// What the lab's own loads, its sentinel and its readings cost the machine that is measured: one
// JSON line a thing, all samples kept. The numbers in docs/counters.md are from such lines.
//
//   load_costs [--smoke] [--file FILE]       FILE of at least 1 MiB, for the disk load
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/time.h"
#include "base/units.h"
#include "lab/contention.h"
#include "lab/counters.h"
#include "lab/sampler.h"
#include "lab/worker.h"
#include "os/process.h"
#include "os/process_tree_counters.h"

namespace rouse::lab {
namespace {

struct Options {
  int samples = 300;
  int64_t watch_ns = 4 * kNsPerSecond;
  std::string file;
};

MonoTime Soon() { return MonoNow() + 30 * kNsPerSecond; }

void Print(const std::string& what, const std::string& unit, std::vector<double> samples) {
  const std::vector<double> all = samples;
  std::sort(samples.begin(), samples.end());
  std::printf(
      "{\"what\": \"%s\", \"unit\": \"%s\", \"median\": %.6g, \"p99\": %.6g, \"samples\": [",
      what.c_str(), unit.c_str(), samples[samples.size() / 2], samples[samples.size() * 99 / 100]);
  for (size_t i = 0; i < all.size(); ++i) std::printf("%s%.6g", i == 0 ? "" : ",", all[i]);
  std::printf("]}\n");
  std::fflush(stdout);
}

// Our own worker process of this role, by its arguments.
std::optional<int> WorkerPid(const std::string& role) {
  const os::ProcRoot& root = os::ProcRoot::Real();
  for (const int pid : root.Pids()) {
    const Result<std::string> arguments = root.ReadOf(pid, "cmdline");
    const std::string wanted = std::string("load_costs") + '\0' + "worker" + '\0' + role + '\0';
    if (arguments.ok() && arguments->find(wanted) != std::string::npos) return pid;
  }
  return std::nullopt;
}

std::optional<int64_t> CpuNs(int pid) {
  const std::array<int, 1> pids = {pid};
  return os::ReadProcessTreeCounters(os::ProcRoot::Real(), pids).cpu_ns;
}

// CPU time per second of wall time while it runs, in percent of one core.
void WatchWorker(const std::string& role, const std::string& what, const Options& options) {
  const std::optional<int> pid = WorkerPid(role);
  const std::optional<int64_t> before = pid ? CpuNs(*pid) : std::nullopt;
  const MonoTime start = MonoNow();
  RealClock().SleepFor(options.watch_ns);
  const std::optional<int64_t> after = pid ? CpuNs(*pid) : std::nullopt;
  if (!before || !after) return;
  Print(what, "% of a core",
        {100 * static_cast<double>(*after - *before) / static_cast<double>(MonoNow() - start)});
}

// A thread of work as ours, and how long each unit took: what a neighbour loses.
std::vector<double> UnitTimes(int64_t during_ns) {
  std::vector<double> times;
  const MonoTime end = MonoNow() + during_ns;
  while (MonoNow() < end) {
    const MonoTime start = MonoNow();
    if (SentinelUnit() != 0) times.push_back(static_cast<double>(MonoNow() - start));
  }
  return times;
}

// Units done on every core at once, per second: with and without the sentinel beside them.
double UnitsPerSecond(int64_t during_ns) {
  std::vector<std::thread> threads;
  std::vector<size_t> counts(std::max(1U, std::thread::hardware_concurrency()));
  for (size_t& count : counts) {
    threads.emplace_back([&count, during_ns] { count = UnitTimes(during_ns).size(); });
  }
  for (std::thread& thread : threads) thread.join();
  size_t sum = 0;
  for (const size_t count : counts) sum += count;
  return static_cast<double>(sum) * 1e9 / static_cast<double>(during_ns);
}

void MeasureSentinel(const Options& options) {
  std::vector<double> share;
  for (int i = 0; i < 5; ++i) {  // alternating, so that a drift of the machine hits both
    const double alone = UnitsPerSecond(options.watch_ns / 8);
    const auto sentinel = RealLoadMaker().StartSentinel(Soon());
    if (!sentinel.ok()) return;
    const double beside = UnitsPerSecond(options.watch_ns / 8);
    (void)(*sentinel)->Finish(MonoNow(), MonoNow(), Soon());
    share.push_back(100 * (1 - beside / alone));
  }
  Print("throughput that all cores lose to the sentinel", "%", share);
  const auto sentinel = RealLoadMaker().StartSentinel(Soon());
  if (!sentinel.ok()) return;
  WatchWorker("sentinel", "CPU time of the sentinel", options);
  Print("one unit of the sentinel's work", "ns", UnitTimes(options.watch_ns / 8));
  (void)(*sentinel)->Finish(MonoNow(), MonoNow(), Soon());
}

void MeasureLoad(const LoadSpec& spec, const std::string& role, const Options& options) {
  std::vector<double> start_ns;
  std::vector<double> end_ns;
  for (int i = 0; i < 5; ++i) {
    const MonoTime begin = MonoNow();
    const Result<std::unique_ptr<Loads>> loads = RealLoadMaker().StartLoads(spec, Soon());
    if (!loads.ok()) {
      std::fprintf(stderr, "load_costs: %s: %s\n", role.c_str(), loads.error().message().c_str());
      return;
    }
    start_ns.push_back(static_cast<double>(MonoNow() - begin));
    if (i == 0) {
      WatchWorker(role, "CPU time of the load " + role, options);
      std::vector<double> read_ns;
      for (int k = 0; k < options.samples; ++k) {
        const MonoTime before = MonoNow();
        (void)(*loads)->Read();
        read_ns.push_back(static_cast<double>(MonoNow() - before));
      }
      Print("reading the load " + role, "ns", read_ns);
    }
    const MonoTime stop = MonoNow();
    (void)(*loads)->Finish(Soon());
    end_ns.push_back(static_cast<double>(MonoNow() - stop));
  }
  Print("starting the load " + role, "ns", start_ns);
  Print("ending the load " + role, "ns", end_ns);
}

void MeasureCounters(const Options& options) {
  os::SpawnOptions spawn;
  spawn.argv = {"sleep", "1000"};
  const Result<os::Child> child = os::Spawn(spawn);
  if (!child.ok()) return;
  const os::ProcRoot& root = os::ProcRoot::Real();
  const std::string disk = DiskOf(root, options.file);
  std::vector<double> times;
  for (int i = 0; i < options.samples; ++i) {
    const MonoTime start = MonoNow();
    const std::vector<int> tree = child->Tree();
    const CounterSnapshot snapshot = ReadCounters(root, tree, disk);
    times.push_back(static_cast<double>(MonoNow() - start));
  }
  Print("all counters of an attempt, once (a server of one process)", "ns", times);
}

// CPU time of one sample (lab/sampler.h) of this process, and what all cores lose to them.
void MeasureSamples(const Options& options) {
  constexpr int64_t kEveryNs = 20 * kNsPerMs;
  const auto sampler = MakeSampler(os::ProcRoot::Real(), kEveryNs);
  const std::vector<int> pids = {getpid()};
  std::vector<double> cpu_ns;
  std::vector<double> share;
  for (int i = 0; i < 10; ++i) {
    const double alone = UnitsPerSecond(options.watch_ns / 8);
    sampler->Begin(pids, options.file);
    const MonoTime begin = MonoNow();
    const double beside = UnitsPerSecond(options.watch_ns / 8);
    results::Attempt attempt;
    const double taken = static_cast<double>(MonoNow() - begin) / static_cast<double>(kEveryNs);
    sampler->End(begin, attempt);
    const auto& cost = attempt.counters["sampler_cpu_ns"];
    if (cost) cpu_ns.push_back(static_cast<double>(std::get<int64_t>(*cost)) / taken);
    share.push_back(100 * (1 - beside / alone));
  }
  if (!cpu_ns.empty()) Print("CPU time of one sample, all cores busy", "ns", cpu_ns);
  Print("throughput that all cores lose to samples every 20 ms", "%", share);
}

int Main(const Options& options) {
  MeasureCounters(options);
  MeasureSamples(options);
  MeasureSentinel(options);
  LoadSpec ballast;
  ballast.ballast_bytes = int64_t{64} << 20;
  MeasureLoad(ballast, "ballast", options);
  LoadSpec cpu;
  cpu.background = "cpu";
  MeasureLoad(cpu, "cpu", options);
  if (options.file.empty()) return 0;
  LoadSpec disk;
  disk.background = "disk";
  disk.disk_file = options.file;
  MeasureLoad(disk, "disk", options);
  return 0;
}

}  // namespace
}  // namespace rouse::lab

int main(int argc, char** argv) {
  // The loads run in processes of this same binary, as they do in rouse.
  if (argc > 1 && std::string_view(argv[1]) == "worker") {
    return rouse::lab::RunWorker(std::vector<std::string>(argv + 2, argv + argc));
  }
  rouse::lab::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--smoke") {
      options.samples = 5;
      options.watch_ns = 200 * rouse::kNsPerMs;
    } else if (argument == "--file" && i + 1 < argc) {
      options.file = argv[++i];
    } else {
      std::fprintf(stderr, "usage: load_costs [--smoke] [--file FILE]\n");
      return 2;
    }
  }
  return rouse::lab::Main(options);
}
