// What each reader of os/ costs: raw times in ns, one JSON line a reader, all samples kept. The
// table in docs/counters.md is made from such lines; the choice of what may be read inside an
// attempt follows from it.
//
//   os_readers [--smoke] [--file FILE] [--samples N]
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "os/block_device.h"
#include "os/boot.h"
#include "os/cgroup.h"
#include "os/cpu_facts.h"
#include "os/delay_accounting.h"
#include "os/diskstats.h"
#include "os/gpu.h"
#include "os/loadavg.h"
#include "os/meminfo.h"
#include "os/page_cache.h"
#include "os/proc_io.h"
#include "os/proc_stat.h"
#include "os/proc_status.h"
#include "os/process.h"
#include "os/process_tree_counters.h"
#include "os/psi.h"
#include "os/schedstat.h"
#include "os/smaps_rollup.h"
#include "os/swaps.h"
#include "os/thermal.h"
#include "os/vmstat.h"

namespace rouse::os {
namespace {

struct Options {
  int samples = 1000;
  std::string file = "/proc/self/exe";
};

// The reader says whether it gave something: one that fails is measured too, and marked.
struct Reader {
  std::string_view name;
  std::function<bool()> read;
};

void Measure(const Reader& reader, int samples) {
  bool worked = reader.read();  // the first reading pays for caches of the kernel
  std::vector<int64_t> times;
  for (int i = 0; i < samples; ++i) {
    const MonoTime start = MonoNow();
    worked = reader.read() && worked;
    times.push_back(MonoNow() - start);
  }
  std::vector<int64_t> sorted = times;
  std::sort(sorted.begin(), sorted.end());
  std::printf(
      "{\"reader\": \"%s\", \"ok\": %s, \"samples\": %zu, \"median_ns\": %lld, "
      "\"p99_ns\": %lld, \"max_ns\": %lld, \"times_ns\": [",
      std::string(reader.name).c_str(), worked ? "true" : "false", sorted.size(),
      static_cast<long long>(sorted[sorted.size() / 2]),
      static_cast<long long>(sorted[sorted.size() * 99 / 100]),
      static_cast<long long>(sorted.back()));
  for (size_t i = 0; i < times.size(); ++i) {
    std::printf("%s%lld", i == 0 ? "" : ",", static_cast<long long>(times[i]));
  }
  std::printf("]}\n");
}

Result<Residency> ResidencyBy(ResidencyProof proof, const std::string& file) {
  const ByteRange whole{0, int64_t{1} << 60};
  const Result<std::vector<Residency>> answers =
      ReadResidencyRangesBy(file, {&whole, 1}, {&proof, 1});
  if (!answers.ok()) return answers.error();
  return (*answers)[0];
}

std::vector<Reader> Readers(const std::string& file, const Child& child) {
  const ProcRoot& root = ProcRoot::Real();
  const int self = getpid();
  const std::vector<int> tree = child.Tree();
  return {
      {"proc_io", [&root, self] { return ReadProcIo(root, self).ok(); }},
      {"proc_stat", [&root, self] { return ReadProcStat(root, self).ok(); }},
      {"proc_status", [&root, self] { return ReadProcStatus(root, self).ok(); }},
      {"schedstat", [&root, self] { return ReadSchedstat(root, self).ok(); }},
      {"smaps_rollup", [&root, self] { return ReadSmapsRollup(root, self).ok(); }},
      {"delay_accounting", [self] { return ReadDelayAccounting(self).ok(); }},
      {"process_tree", [&child] { return !ProcessTree(child.pid()).empty(); }},
      {"child_tree", [&child] { return !child.Tree().empty(); }},
      {"tree_counters_1_process",
       [&root, tree] { return ReadProcessTreeCounters(root, tree).read_bytes.has_value(); }},
      {"psi", [&root] { return ReadPsi(root, PsiResource::kIo).ok(); }},
      {"cgroup", [&root, self] { return ReadCgroupCounters(root, self).ok(); }},
      {"meminfo", [&root] { return ReadMeminfo(root).ok(); }},
      {"vmstat", [&root] { return ReadVmstat(root).ok(); }},
      {"swaps", [&root] { return ReadSwaps(root).ok(); }},
      {"diskstats", [&root] { return ReadDiskstats(root, "vda").ok(); }},
      {"loadavg", [&root] { return ReadLoadavg(root).ok(); }},
      {"boot", [&root] { return ReadBoot(root).ok(); }},
      {"storage", [&root, file] { return ReadStorage(root, file).ok(); }},
      {"cpu_facts", [&root] { return ReadCpuFacts(root).ok(); }},
      {"thermal", [&root] { return ReadThermal(root).zones.size() < 1000; }},
      {"gpu_nvml", [] { return ReadNvidiaGpus().ok(); }},
      {"gpu_sysfs", [&root] { return ReadSysfsGpus(root).size() < 1000; }},
      {"page_cache_cachestat",
       [file] { return ResidencyBy(ResidencyProof::kCachestat, file).ok(); }},
      {"page_cache_mincore", [file] { return ResidencyBy(ResidencyProof::kMincore, file).ok(); }},
      {"page_cache_sampled", [file] { return ResidencyBy(ResidencyProof::kSampled, file).ok(); }},
      {"find_mappers", [&root, file] { return FindMappers(root, file).ok(); }},
  };
}

int Main(const Options& options) {
  SpawnOptions spawn;
  spawn.argv = {"sleep", "1000"};
  const Result<Child> child = Spawn(spawn);
  if (!child.ok()) {
    std::fprintf(stderr, "os_readers: %s\n", child.error().message().c_str());
    return 3;
  }
  const Reader spawn_and_kill{"spawn_and_kill", [&spawn] {
                                Result<Child> one = Spawn(spawn);
                                return one.ok() && one->KillTree().ok();
                              }};
  Measure(spawn_and_kill, std::max(5, options.samples / 20));
  for (const Reader& reader : Readers(options.file, *child)) Measure(reader, options.samples);
  return 0;
}

}  // namespace
}  // namespace rouse::os

int main(int argc, char** argv) {
  rouse::os::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--smoke") {
      options.samples = 20;
    } else if (argument == "--file" && i + 1 < argc) {
      options.file = argv[++i];
    } else if (argument == "--samples" && i + 1 < argc) {
      options.samples = std::max(1, std::atoi(argv[++i]));
    } else {
      std::fprintf(stderr, "usage: os_readers [--smoke] [--file FILE] [--samples N]\n");
      return 2;
    }
  }
  return rouse::os::Main(options);
}
