#include "os/process_tree_counters.h"

#include <unistd.h>

#include <algorithm>

#include "base/strings.h"
#include "base/time.h"
#include "os/delay_accounting.h"
#include "os/proc_io.h"
#include "os/proc_stat.h"
#include "os/proc_status.h"
#include "os/schedstat.h"
#include "os/smaps_rollup.h"

namespace rouse::os {
namespace {

using Counter = std::optional<int64_t> ProcessTreeCounters::*;
struct NamedCounter {
  const char* name;
  Counter field;
};

constexpr NamedCounter kIoCounters[] = {
    {"read_bytes", &ProcessTreeCounters::read_bytes},
    {"write_bytes", &ProcessTreeCounters::write_bytes},
    {"read_syscall_bytes", &ProcessTreeCounters::read_syscall_bytes},
};
constexpr NamedCounter kStatCounters[] = {
    {"major_faults", &ProcessTreeCounters::major_faults},
    {"minor_faults", &ProcessTreeCounters::minor_faults},
    {"user_cpu_ns", &ProcessTreeCounters::user_cpu_ns},
    {"system_cpu_ns", &ProcessTreeCounters::system_cpu_ns},
};
constexpr NamedCounter kSchedstatCounters[] = {
    {"cpu_ns", &ProcessTreeCounters::cpu_ns},
    {"run_queue_wait_ns", &ProcessTreeCounters::run_queue_wait_ns},
};
constexpr NamedCounter kThreadCounters[] = {
    {"voluntary_context_switches", &ProcessTreeCounters::voluntary_context_switches},
    {"involuntary_context_switches", &ProcessTreeCounters::involuntary_context_switches},
};
constexpr NamedCounter kDelayCounters[] = {
    {"block_io_delay_ns", &ProcessTreeCounters::block_io_delay_ns},
};
constexpr NamedCounter kStatusLevels[] = {
    {"rss_bytes", &ProcessTreeCounters::rss_bytes},
    {"rss_anon_bytes", &ProcessTreeCounters::rss_anon_bytes},
    {"rss_file_bytes", &ProcessTreeCounters::rss_file_bytes},
    {"swap_bytes", &ProcessTreeCounters::swap_bytes},
    {"locked_bytes", &ProcessTreeCounters::locked_bytes},
};
constexpr NamedCounter kThreadLevels[] = {{"threads", &ProcessTreeCounters::threads}};
constexpr NamedCounter kSmapsLevels[] = {{"pss_bytes", &ProcessTreeCounters::pss_bytes}};

// The sums while they grow. A counter that once could not be read is given up for the whole tree.
class Sums {
 public:
  explicit Sums(ProcessTreeCounters& counters) : counters_(counters) {}

  void Add(const NamedCounter& counter, std::optional<int64_t> value, int pid) {
    if (!value) {
      GiveUp(counter, "/proc/" + std::to_string(pid) + " does not have it in this kernel");
    } else if (!counters_.null_reasons.contains(counter.name)) {
      std::optional<int64_t>& sum = counters_.*counter.field;
      sum = sum.value_or(0) + *value;
    }
  }

  template <size_t kCount>
  void GiveUp(const NamedCounter (&counters)[kCount], const Error& error) {
    for (const NamedCounter& counter : counters) GiveUp(counter, error.message());
  }

  void GiveUp(const NamedCounter& counter, const std::string& reason) {
    (counters_.*counter.field).reset();
    counters_.null_reasons.emplace(counter.name, reason);
  }

 private:
  ProcessTreeCounters& counters_;
};

std::optional<int64_t> Plus(std::optional<int64_t> a, std::optional<int64_t> b) {
  if (!a || !b) return std::nullopt;
  return *a + *b;
}

std::optional<int64_t> TicksToNs(std::optional<int64_t> ticks) {
  static const int64_t ns_per_tick = kNsPerSecond / sysconf(_SC_CLK_TCK);
  if (!ticks) return std::nullopt;
  return *ticks * ns_per_tick;
}

bool HasEnded(const Error& error) { return error.code() == ErrorCode::kNotFound; }

struct ThreadSums {
  std::optional<int64_t> voluntary;
  std::optional<int64_t> involuntary;
  std::optional<int64_t> block_io_delay_ticks;
};

// What the files of a process tell about its main thread only, over all living threads.
Result<ThreadSums> ReadThreads(const ProcRoot& root, int pid, bool with_delays) {
  ThreadSums sums;
  std::optional<Error> failure;
  for (const std::string& name : root.List("proc/" + std::to_string(pid) + "/task")) {
    const int tid = static_cast<int>(ParseInt64(name).value_or(0));
    const Result<ProcStatus> status = ReadThreadStatus(root, pid, tid);
    if (!status.ok()) {
      if (!HasEnded(status.error())) return status.error();
      failure = status.error();
      continue;
    }
    const auto add = [](std::optional<int64_t>& sum, std::optional<int64_t> value) {
      if (value) sum = sum.value_or(0) + *value;
    };
    add(sums.voluntary, status->voluntary_context_switches);
    add(sums.involuntary, status->involuntary_context_switches);
    if (!with_delays) continue;
    const Result<ProcStat> stat = ReadThreadStat(root, pid, tid);
    if (stat.ok()) add(sums.block_io_delay_ticks, stat->block_io_delay_ticks);
  }
  if (!sums.voluntary && failure) return *failure;
  return sums;
}

// Everything of one process but its identity. False when it has ended meanwhile.
void AddProcess(const ProcRoot& root, int pid, const ProcStat& stat, bool with_delays,
                bool with_smaps, Sums& sums) {
  const Result<ProcIo> io = ReadProcIo(root, pid);
  const Result<ProcStatus> status = ReadProcStatus(root, pid);
  const Result<Schedstat> schedstat = ReadSchedstat(root, pid);
  const Result<ThreadSums> threads = ReadThreads(root, pid, with_delays);

  sums.Add(kStatCounters[0], Plus(stat.major_faults, stat.children_major_faults), pid);
  sums.Add(kStatCounters[1], Plus(stat.minor_faults, stat.children_minor_faults), pid);
  sums.Add(kStatCounters[2], TicksToNs(Plus(stat.user_ticks, stat.children_user_ticks)), pid);
  sums.Add(kStatCounters[3], TicksToNs(Plus(stat.system_ticks, stat.children_system_ticks)), pid);
  sums.Add(kThreadLevels[0], stat.threads, pid);
  if (io.ok()) {
    sums.Add(kIoCounters[0], io->read_bytes, pid);
    sums.Add(kIoCounters[1], io->write_bytes, pid);
    sums.Add(kIoCounters[2], io->read_syscall_bytes, pid);
  } else if (!HasEnded(io.error())) {
    sums.GiveUp(kIoCounters, io.error());
  }
  if (schedstat.ok()) {
    sums.Add(kSchedstatCounters[0], schedstat->cpu_ns, pid);
    sums.Add(kSchedstatCounters[1], schedstat->run_queue_wait_ns, pid);
  } else if (!HasEnded(schedstat.error())) {
    sums.GiveUp(kSchedstatCounters, schedstat.error());
  }
  if (threads.ok()) {
    sums.Add(kThreadCounters[0], threads->voluntary, pid);
    sums.Add(kThreadCounters[1], threads->involuntary, pid);
    if (with_delays) sums.Add(kDelayCounters[0], TicksToNs(threads->block_io_delay_ticks), pid);
  } else if (!HasEnded(threads.error())) {
    sums.GiveUp(kThreadCounters, threads.error());
  }
  // A zombie has no memory left: none is 0 there, not unknown.
  if (status.ok() && stat.state != 'Z') {
    sums.Add(kStatusLevels[0], status->rss_bytes, pid);
    sums.Add(kStatusLevels[1], status->rss_anon_bytes, pid);
    sums.Add(kStatusLevels[2], status->rss_file_bytes, pid);
    sums.Add(kStatusLevels[3], status->swap_bytes, pid);
    sums.Add(kStatusLevels[4], status->locked_bytes, pid);
  } else if (!status.ok() && !HasEnded(status.error())) {
    sums.GiveUp(kStatusLevels, status.error());
  }
  if (!with_smaps) return;
  const Result<SmapsRollup> smaps = ReadSmapsRollup(root, pid);
  if (smaps.ok()) {
    sums.Add(kSmapsLevels[0], smaps->pss_bytes, pid);
  } else if (!HasEnded(smaps.error())) {
    sums.GiveUp(kSmapsLevels, smaps.error());
  }
}

template <size_t kCount>
void Subtract(const NamedCounter (&counters)[kCount], const ProcessTreeCounters& before,
              const ProcessTreeCounters& after, ProcessTreeCounters& difference) {
  for (const NamedCounter& counter : counters) {
    const std::optional<int64_t>& earlier = before.*counter.field;
    const std::optional<int64_t>& later = after.*counter.field;
    std::optional<int64_t>& result = difference.*counter.field;
    result.reset();
    if (earlier && later) {
      result = *later - *earlier;
    } else if (later && before.null_reasons.contains(counter.name)) {
      difference.null_reasons.emplace(counter.name, before.null_reasons.at(counter.name));
    }
  }
}

template <size_t kCount>
void Void(const NamedCounter (&counters)[kCount], const std::string& reason,
          ProcessTreeCounters& counters_of) {
  for (const NamedCounter& counter : counters) {
    (counters_of.*counter.field).reset();
    counters_of.null_reasons.insert_or_assign(counter.name, reason);
  }
}

}  // namespace

ProcessTreeCounters ReadProcessTreeCounters(const ProcRoot& root, std::span<const int> pids,
                                            bool with_smaps) {
  ProcessTreeCounters counters;
  Sums sums(counters);
  const bool with_delays = DelayAccountingIsOn(root);
  if (!with_delays) {
    sums.GiveUp(kDelayCounters[0],
                "kernel.task_delayacct is off: sysctl kernel.task_delayacct=1 before the target "
                "starts");
  }
  if (!with_smaps) sums.GiveUp(kSmapsLevels[0], "not asked for: reading it disturbs the target");
  for (const int pid : pids) {
    const Result<ProcStat> stat = ReadProcStat(root, pid);
    if (!stat.ok()) {
      if (!HasEnded(stat.error())) sums.GiveUp(kStatCounters, stat.error());
      continue;
    }
    counters.processes.push_back({pid, stat->start_time_ticks.value_or(0)});
    AddProcess(root, pid, *stat, with_delays, with_smaps, sums);
  }
  std::sort(counters.processes.begin(), counters.processes.end());
  return counters;
}

ProcessTreeCounters CountersBetween(const ProcessTreeCounters& before,
                                    const ProcessTreeCounters& after) {
  ProcessTreeCounters difference = after;
  for (const ProcessId& process : before.processes) {
    if (std::binary_search(after.processes.begin(), after.processes.end(), process)) continue;
    const std::string reason = "process " + std::to_string(process.pid) + " ended meanwhile";
    Void(kIoCounters, reason, difference);
    Void(kStatCounters, reason, difference);
    Void(kSchedstatCounters, reason, difference);
    Void(kThreadCounters, reason, difference);
    Void(kDelayCounters, reason, difference);
    return difference;
  }
  Subtract(kIoCounters, before, after, difference);
  Subtract(kStatCounters, before, after, difference);
  Subtract(kSchedstatCounters, before, after, difference);
  Subtract(kThreadCounters, before, after, difference);
  Subtract(kDelayCounters, before, after, difference);
  return difference;
}

}  // namespace rouse::os
