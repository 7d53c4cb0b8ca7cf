#include "lab/counters.h"

#include <unistd.h>

#include <array>
#include <string_view>

#include "base/strings.h"
#include "base/time.h"
#include "os/block_device.h"
#include "os/cgroup.h"
#include "os/diskstats.h"
#include "os/meminfo.h"
#include "os/psi.h"
#include "os/vmstat.h"

namespace rouse::lab {
namespace {

using Field = std::optional<int64_t> os::ProcessTreeCounters::*;

// Field of os/process_tree_counters.h, its name there (for reasons), row of the metric catalogue.
struct TreeCounter {
  Field field;
  std::string_view field_name;
  std::string_view metric;
};

using Tree = os::ProcessTreeCounters;
// Pss is not among them: reading it holds the target's memory map while the kernel counts.
constexpr std::array<TreeCounter, 18> kTreeCounters{{
    {&Tree::read_bytes, "read_bytes", "target_read_bytes"},
    {&Tree::write_bytes, "write_bytes", "target_write_bytes"},
    {&Tree::read_syscall_bytes, "read_syscall_bytes", "target_read_syscall_bytes"},
    {&Tree::major_faults, "major_faults", "target_major_faults"},
    {&Tree::minor_faults, "minor_faults", "target_minor_faults"},
    {&Tree::cpu_ns, "cpu_ns", "target_cpu_ns"},
    {&Tree::user_cpu_ns, "user_cpu_ns", "target_user_cpu_ns"},
    {&Tree::system_cpu_ns, "system_cpu_ns", "target_system_cpu_ns"},
    {&Tree::run_queue_wait_ns, "run_queue_wait_ns", "target_run_queue_wait_ns"},
    {&Tree::block_io_delay_ns, "block_io_delay_ns", "target_block_io_delay_ns"},
    {&Tree::voluntary_context_switches, "voluntary_context_switches",
     "target_voluntary_context_switches"},
    {&Tree::involuntary_context_switches, "involuntary_context_switches",
     "target_involuntary_context_switches"},
    {&Tree::rss_bytes, "rss_bytes", "target_rss_bytes"},
    {&Tree::rss_anon_bytes, "rss_anon_bytes", "target_rss_anon_bytes"},
    {&Tree::rss_file_bytes, "rss_file_bytes", "target_rss_file_bytes"},
    {&Tree::swap_bytes, "swap_bytes", "target_swap_bytes"},
    {&Tree::locked_bytes, "locked_bytes", "target_locked_bytes"},
    {&Tree::threads, "threads", "target_threads"},
}};

void ReadPressure(const os::ProcRoot& root, os::PsiResource resource, const std::string& name,
                  bool with_full, CounterSnapshot& snapshot) {
  const Result<os::Psi> psi = os::ReadPsi(root, resource);
  const std::string some = "psi_" + name + "_some_us";
  const std::string full = "psi_" + name + "_full_us";
  snapshot.machine_totals[some] = psi.ok() ? psi->some.total_us : std::nullopt;
  if (!psi.ok()) snapshot.reasons[some] = psi.error().message();
  if (!with_full) return;
  snapshot.machine_totals[full] = psi.ok() ? psi->full.total_us : std::nullopt;
  if (!psi.ok()) snapshot.reasons[full] = psi.error().message();
}

void PutTotal(const std::string& name, std::optional<int64_t> value, const std::string& reason,
              CounterSnapshot& snapshot) {
  snapshot.machine_totals[name] = value;
  if (!value) snapshot.reasons[name] = reason;
}

void ReadReclaim(const os::ProcRoot& root, CounterSnapshot& snapshot) {
  const Result<os::Vmstat> vmstat = os::ReadVmstat(root);
  const std::string reason =
      vmstat.ok() ? "this kernel does not count it in /proc/vmstat" : vmstat.error().message();
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  std::optional<int64_t> swapped;
  std::optional<int64_t> reclaimed;
  if (vmstat.ok() && vmstat->swapped_in_pages) swapped = *vmstat->swapped_in_pages * page_bytes;
  if (vmstat.ok() && vmstat->reclaimed_by_kswapd_pages && vmstat->reclaimed_directly_pages) {
    // Proactive reclaim has a field of its own on newer kernels only; elsewhere it is not told.
    reclaimed = (*vmstat->reclaimed_by_kswapd_pages + *vmstat->reclaimed_directly_pages +
                 vmstat->reclaimed_proactively_pages.value_or(0)) *
                page_bytes;
  }
  PutTotal("machine_swap_in_bytes", swapped, reason, snapshot);
  PutTotal("machine_reclaimed_bytes", reclaimed, reason, snapshot);
}

void ReadDisk(const os::ProcRoot& root, const std::string& disk, CounterSnapshot& snapshot) {
  const std::string name = "machine_disk_read_bytes";
  if (disk.empty()) {
    PutTotal(name, std::nullopt, "the disk under the model's file is not known", snapshot);
    return;
  }
  const Result<os::Diskstats> stats = os::ReadDiskstats(root, disk);
  PutTotal(name, stats.ok() ? stats->read_bytes : std::nullopt,
           stats.ok() ? "/proc/diskstats has no such column" : stats.error().message(), snapshot);
}

// The group of the target's first process; before it exists, ours, which it will inherit.
void ReadGroup(const os::ProcRoot& root, std::span<const int> pids, CounterSnapshot& snapshot) {
  const Result<os::CgroupCounters> group =
      os::ReadCgroupCounters(root, pids.empty() ? getpid() : pids.front());
  std::optional<int64_t> throttled_us;
  if (group.ok() && group->throttled_ns) throttled_us = *group->throttled_ns / kNsPerUs;
  PutTotal("cgroup_throttled_us", throttled_us,
           group.ok() ? "its control group has no CPU quota" : group.error().message(), snapshot);
  // Machine-wide this is 0 by definition.
  std::optional<int64_t> full_us;
  if (group.ok() && group->cpu_pressure) full_us = group->cpu_pressure->full.total_us;
  PutTotal("psi_cpu_full_us", full_us,
           group.ok() ? "its control group does not tell cpu.pressure (version 1, or the root)"
                      : group.error().message(),
           snapshot);
}

// Mean over the CPUs that tell a frequency; most virtual machines tell none.
void ReadClocks(const os::ProcRoot& root, CounterSnapshot& snapshot) {
  int64_t sum_khz = 0;
  int64_t count = 0;
  const int64_t cpus = sysconf(_SC_NPROCESSORS_CONF);
  for (int64_t cpu = 0; cpu < cpus; ++cpu) {
    const Result<std::string> text =
        root.Read("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpufreq/scaling_cur_freq");
    if (!text.ok()) continue;
    const std::optional<int64_t> khz = ParseInt64(TrimBlanks(*text));
    if (!khz) continue;
    sum_khz += *khz;
    ++count;
  }
  const std::string name = "cpu_clock_hz";
  snapshot.machine_levels[name] =
      count == 0 ? std::nullopt : std::optional<int64_t>(sum_khz * 1000 / count);
  if (count == 0) snapshot.reasons[name] = "no CPU tells its frequency in sysfs";
}

void ReadAvailable(const os::ProcRoot& root, CounterSnapshot& snapshot) {
  const Result<os::Meminfo> meminfo = os::ReadMeminfo(root);
  const std::string name = "machine_available_bytes";
  snapshot.machine_levels[name] = meminfo.ok() ? meminfo->available_bytes : std::nullopt;
  if (!snapshot.machine_levels[name]) {
    snapshot.reasons[name] =
        meminfo.ok() ? "this kernel does not tell MemAvailable" : meminfo.error().message();
  }
}

void Put(const std::string& metric, std::optional<int64_t> value, const std::string& reason,
         results::Attempt& attempt) {
  if (value) {
    attempt.counters[metric] = *value;
    return;
  }
  attempt.counters[metric] = std::nullopt;
  if (!reason.empty()) attempt.null_reasons[metric] = reason;
}

}  // namespace

std::string DiskOf(const os::ProcRoot& root, const std::string& file) {
  if (file.empty()) return "";
  const Result<os::Storage> storage = os::ReadStorage(root, file);
  return storage.ok() && storage->device ? storage->device->name : "";
}

CounterSnapshot ReadCounters(const os::ProcRoot& root, std::span<const int> pids,
                             const std::string& disk) {
  CounterSnapshot snapshot;
  snapshot.tree = os::ReadProcessTreeCounters(root, pids);
  ReadPressure(root, os::PsiResource::kCpu, "cpu", false, snapshot);
  ReadPressure(root, os::PsiResource::kIo, "io", true, snapshot);
  ReadPressure(root, os::PsiResource::kMemory, "memory", true, snapshot);
  ReadReclaim(root, snapshot);
  ReadDisk(root, disk, snapshot);
  ReadGroup(root, pids, snapshot);
  ReadClocks(root, snapshot);
  ReadAvailable(root, snapshot);
  return snapshot;
}

void StoreCounters(const CounterSnapshot& before, const CounterSnapshot& after, bool has_process,
                   results::Attempt& attempt) {
  // No process before: all that there is now counts from its start.
  const Tree difference =
      before.tree.processes.empty() ? after.tree : os::CountersBetween(before.tree, after.tree);
  for (const TreeCounter& counter : kTreeCounters) {
    const std::string metric(counter.metric);
    if (!has_process) {
      Put(metric, std::nullopt, "the server's processes are not ours", attempt);
      continue;
    }
    const auto reason = difference.null_reasons.find(std::string(counter.field_name));
    Put(metric, difference.*counter.field,
        reason == difference.null_reasons.end() ? "" : reason->second, attempt);
  }
  if (has_process) {
    Put("target_processes", static_cast<int64_t>(after.tree.processes.size()), "", attempt);
  }
  for (const auto& [metric, total] : after.machine_totals) {
    const auto start = before.machine_totals.find(metric);
    const auto reason = after.reasons.find(metric);
    const bool known = total && start != before.machine_totals.end() && start->second;
    Put(metric, known ? std::optional<int64_t>(*total - *start->second) : std::nullopt,
        reason == after.reasons.end() ? "" : reason->second, attempt);
  }
  // Clocks as the request found them; memory as it left it.
  for (const auto& [name, snapshot] :
       {std::pair("cpu_clock_hz", &before), std::pair("machine_available_bytes", &after)}) {
    const auto level = snapshot->machine_levels.find(name);
    const auto reason = snapshot->reasons.find(name);
    Put(name, level == snapshot->machine_levels.end() ? std::nullopt : level->second,
        reason == snapshot->reasons.end() ? "" : reason->second, attempt);
  }
}

}  // namespace rouse::lab
