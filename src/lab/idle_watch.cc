#include "lab/idle_watch.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/strings.h"
#include "base/units.h"
#include "os/kernel_text.h"
#include "os/machine_cpu.h"
#include "os/psi.h"
#include "os/vmstat.h"

namespace rouse::lab {
namespace {

using results::LayerReading;

// A tenth of one CPU, on average, is more than an idle desktop uses.
constexpr int64_t kBusyShare = 10;
// Below this share of what it was, a server's memory no longer holds its model.
constexpr double kMemoryKept = 0.95;
constexpr double kModelKept = 0.5;

constexpr const char* kMachineCpu = "machine_cpu_ns";
constexpr const char* kOwnCpu = "own_cpu_ns";
constexpr const char* kReclaimed = "idle_reclaimed_bytes";
constexpr const char* kProactive = "idle_proactively_reclaimed_bytes";
constexpr const char* kDamon = "idle_damon_reclaimed_bytes";
constexpr const char* kSwapIn = "idle_swap_in_bytes";
constexpr const char* kSwapOut = "idle_swap_out_bytes";
constexpr const char* kPressure = "idle_psi_memory_full_us";

constexpr std::string_view kDamonPath = "sys/module/damon_reclaim/parameters/";

int64_t OwnCpuNs() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ns = [](const timeval& time) {
    return int64_t{time.tv_sec} * kNsPerSecond + int64_t{time.tv_usec} * kNsPerUs;
  };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

void Put(IdleSnapshot& snapshot, const std::string& name, std::optional<int64_t> value,
         const std::string& reason) {
  snapshot.totals[name] = value;
  if (!value) snapshot.reasons[name] = reason;
}

void ReadMemory(const os::ProcRoot& root, IdleSnapshot& snapshot) {
  const Result<os::Vmstat> vmstat = os::ReadVmstat(root);
  const std::string reason =
      vmstat.ok() ? "this kernel does not count it in /proc/vmstat" : vmstat.error().message();
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  const auto bytes = [&](std::optional<int64_t> pages) {
    return pages ? std::optional<int64_t>(*pages * page_bytes) : std::nullopt;
  };
  const os::Vmstat counts = vmstat.ok() ? *vmstat : os::Vmstat();
  std::optional<int64_t> reclaimed;
  if (counts.reclaimed_by_kswapd_pages && counts.reclaimed_directly_pages) {
    reclaimed = *counts.reclaimed_by_kswapd_pages + *counts.reclaimed_directly_pages +
                counts.reclaimed_proactively_pages.value_or(0);
  }
  Put(snapshot, kReclaimed, bytes(reclaimed), reason);
  Put(snapshot, kProactive, bytes(counts.reclaimed_proactively_pages), reason);
  Put(snapshot, kSwapIn, bytes(counts.swapped_in_pages), reason);
  Put(snapshot, kSwapOut, bytes(counts.swapped_out_pages), reason);
  Put(snapshot, kDamon,
      os::ReadNumberFile(root, std::string(kDamonPath) + "bytes_reclaimed_regions"),
      "this kernel has no DAMON reclaim");
  const Result<os::Psi> psi = os::ReadPsi(root, os::PsiResource::kMemory);
  Put(snapshot, kPressure, psi.ok() ? psi->full.total_us : std::nullopt,
      psi.ok() ? "this kernel does not tell it" : psi.error().message());
}

std::optional<int64_t> Since(const IdleSnapshot& before, const IdleSnapshot& after,
                             const std::string& name) {
  const auto from = before.totals.find(name);
  const auto to = after.totals.find(name);
  if (from == before.totals.end() || to == after.totals.end()) return std::nullopt;
  if (!from->second || !to->second) return std::nullopt;
  return *to->second - *from->second;
}

void Store(results::Attempt& attempt, const std::string& name, std::optional<int64_t> value,
           const std::string& reason) {
  attempt.counters[name] = std::nullopt;
  if (value) attempt.counters[name] = *value;
  if (!value && !reason.empty()) attempt.null_reasons[name] = reason;
}

void StoreTarget(const os::ProcessTreeCounters& between, const std::string& no_process,
                 results::Attempt& attempt) {
  const auto reason = [&](const std::string& field) {
    const auto found = between.null_reasons.find(field);
    return found == between.null_reasons.end() ? no_process : found->second;
  };
  const bool has = no_process.empty();
  Store(attempt, "idle_target_wakeups", has ? between.voluntary_context_switches : std::nullopt,
        reason("voluntary_context_switches"));
  Store(attempt, "idle_target_cpu_ns", has ? between.cpu_ns : std::nullopt, reason("cpu_ns"));
}

// What is neither the target's nor our own, and whether it was much.
void StoreOthers(const IdleSnapshot& before, const IdleSnapshot& after,
                 std::optional<int64_t> target_cpu_ns, results::Attempt& attempt) {
  const std::optional<int64_t> machine = Since(before, after, kMachineCpu);
  const std::optional<int64_t> own = Since(before, after, kOwnCpu);
  std::optional<int64_t> others;
  // The machine's sum is in ticks of 10 ms: a difference of one tick below 0 is rounding.
  if (machine && own && target_cpu_ns) {
    others = std::max<int64_t>(0, *machine - *own - *target_cpu_ns);
  }
  const auto why = after.reasons.find(kMachineCpu);
  Store(attempt, "idle_others_cpu_ns", others,
        why != after.reasons.end() ? why->second : "the server's own share is not known");
  const int64_t idle_ns = after.at - before.at;
  if (!others || idle_ns < kNsPerSecond || *others * kBusyShare <= idle_ns) return;
  attempt.warnings.push_back({"others_busy", "other programs used " + FormatDuration(*others) +
                                                 " of CPU time during an idle time of " +
                                                 FormatDuration(idle_ns)});
}

void StoreReclaim(const IdleSnapshot& before, const IdleSnapshot& after,
                  results::Attempt& attempt) {
  for (const char* const name : {kReclaimed, kProactive, kDamon, kSwapIn, kSwapOut, kPressure}) {
    const auto why = after.reasons.find(name);
    Store(attempt, name, Since(before, after, name), why == after.reasons.end() ? "" : why->second);
  }
  const int64_t taken =
      Since(before, after, kProactive).value_or(0) + Since(before, after, kDamon).value_or(0);
  if (taken <= 0) return;
  attempt.warnings.push_back({"proactive_reclaim", "the kernel took back " + FormatBytes(taken) +
                                                       " of idle memory without any need for it "
                                                       "during the idle time"});
}

std::string Pids(const std::set<int>& pids) {
  std::string text;
  for (const int pid : pids) text += (text.empty() ? "" : ", ") + std::to_string(pid);
  return text;
}

// Resident now against before; empty when one side is not known.
std::optional<double> MemoryKept(const IdleSnapshot& before, const IdleSnapshot& after) {
  if (before.target.processes.empty() || before.target.rss_bytes.value_or(0) <= 0) return {};
  if (after.target.processes.empty()) return 0;
  if (!after.target.rss_bytes) return {};
  return static_cast<double>(*after.target.rss_bytes) /
         static_cast<double>(*before.target.rss_bytes);
}

LayerReading ReadMemoryLayer(const IdleSnapshot& before, const IdleSnapshot& after) {
  LayerReading reading;
  reading.wanted = "kept";
  const std::optional<double> kept = MemoryKept(before, after);
  if (!kept) {
    reading.detail = "the memory of the server's processes cannot be read";
    return reading;
  }
  reading.value = *kept;
  reading.proof = "resident memory of the server's processes, before and after the idle time";
  reading.reached = *kept >= kMemoryKept;
  reading.detail = FormatBytes(after.target.rss_bytes.value_or(0)) + " of " +
                   FormatBytes(*before.target.rss_bytes) + " resident";
  const int64_t swapped =
      after.target.swap_bytes.value_or(0) - before.target.swap_bytes.value_or(0);
  if (swapped > 0) reading.detail += ", " + FormatBytes(swapped) + " went to swap";
  return reading;
}

// Without asking: a model that was mapped is loaded as long as it is mapped. One that was read into
// memory is loaded as long as the memory is there (Ollama's runner takes it along when it ends).
LayerReading ReadModelLayer(const IdleSnapshot& before, const IdleSnapshot& after,
                            const Condition& condition) {
  LayerReading reading;
  reading.wanted = condition.Value(Layer::kModel);
  if (reading.wanted != "loaded" || before.target.processes.empty()) {
    reading.detail = "cannot be told without asking the server";
    return reading;
  }
  if (!before.mappers.empty()) {
    reading.proof = "the server's mapping of the file, in /proc/PID/maps";
    const bool mapped = !after.mappers.empty();
    reading.value = std::string(mapped ? "loaded" : "unloaded");
    reading.detail = mapped ? "mapped by process " + Pids(after.mappers)
                            : "process " + Pids(before.mappers) + " has unmapped it, or ended";
  } else {
    const std::optional<double> kept = MemoryKept(before, after);
    if (!kept) return reading;
    reading.proof = "resident memory of the server's processes (none of them maps the file)";
    reading.value = std::string(*kept >= kModelKept ? "loaded" : "unloaded");
    reading.detail = std::to_string(after.target.processes.size()) + " of " +
                     std::to_string(before.target.processes.size()) + " processes are there";
  }
  reading.reached = std::get<std::string>(reading.value) == "loaded";
  return reading;
}

}  // namespace

IdleSnapshot ReadIdleSnapshot(const os::ProcRoot& root, StateContext& context) {
  IdleSnapshot snapshot;
  snapshot.at = context.clock.Now();
  const std::vector<int> tree = context.target.Tree();
  snapshot.target = os::ReadProcessTreeCounters(root, tree);
  if (const std::string file = context.target.model_file(); !file.empty() && !tree.empty()) {
    for (const int pid : context.page_cache.Mappers(file)) {
      if (std::find(tree.begin(), tree.end(), pid) != tree.end()) snapshot.mappers.insert(pid);
    }
  }
  const Result<os::MachineCpu> machine = os::ReadMachineCpu(root);
  Put(snapshot, kMachineCpu, machine.ok() ? std::optional<int64_t>(machine->busy_ns) : std::nullopt,
      machine.ok() ? "" : machine.error().message());
  Put(snapshot, kOwnCpu, OwnCpuNs(), "");
  ReadMemory(root, snapshot);
  return snapshot;
}

void StoreIdle(const IdleSnapshot& before, const IdleSnapshot& after, const Condition& condition,
               results::Attempt& attempt) {
  const os::ProcessTreeCounters between = os::CountersBetween(before.target, after.target);
  const std::string no_process =
      before.target.processes.empty() ? "the server's processes are not to be seen" : "";
  StoreTarget(between, no_process, attempt);
  StoreOthers(before, after, no_process.empty() ? between.cpu_ns : std::nullopt, attempt);
  StoreReclaim(before, after, attempt);
  attempt.state_at_send["model"] = ReadModelLayer(before, after, condition);
  attempt.state_at_send["resident_memory"] = ReadMemoryLayer(before, after);
}

std::string AllNotReached(const results::LayerReadings& readings) {
  std::string all;
  for (const auto& [layer, reading] : readings) {
    const std::string why = WhyNotReached({{layer, reading}});
    if (!why.empty()) all += (all.empty() ? "" : "; ") + why;
  }
  return all;
}

std::string DamonReclaim(const os::ProcRoot& root) {
  const std::optional<std::string> enabled =
      os::ReadTextFile(root, std::string(kDamonPath) + "enabled");
  if (enabled) {
    if (*enabled != "Y") return "off";
    const std::optional<int64_t> age_us =
        os::ReadNumberFile(root, std::string(kDamonPath) + "min_age");
    return age_us ? "on, after " + FormatDuration(*age_us * kNsPerUs) + " of idleness" : "on";
  }
  return root.Read("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds").ok()
             ? "not as a module; DAMON is there"
             : "not in this kernel";
}

}  // namespace rouse::lab
