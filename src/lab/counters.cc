#include "lab/counters.h"

#include <array>
#include <string_view>

#include "os/psi.h"

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

CounterSnapshot ReadCounters(const os::ProcRoot& root, std::span<const int> pids) {
  CounterSnapshot snapshot;
  snapshot.tree = os::ReadProcessTreeCounters(root, pids);
  ReadPressure(root, os::PsiResource::kCpu, "cpu", false, snapshot);
  ReadPressure(root, os::PsiResource::kIo, "io", true, snapshot);
  ReadPressure(root, os::PsiResource::kMemory, "memory", true, snapshot);
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
}

}  // namespace rouse::lab
