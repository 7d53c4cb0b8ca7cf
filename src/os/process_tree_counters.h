// What a server's processes have used so far, summed over its whole tree: read before and after an
// attempt, their difference is the attempt's. Sources: /proc/PID/{io,stat,status,schedstat} and, on
// request, smaps_rollup. Definitions, costs and cross-checks: docs/counters.md.
//
// A sum is empty when one of its parts could not be read: a sum over fewer processes would be a
// wrong number. A process that ended while we read it is left out, as if it had ended just before.
// Processes that ended and were waited for stay counted: by /proc/PID/io of the process that
// waited, and by the c-fields of its stat.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "os/proc_root.h"

namespace rouse::os {

struct ProcessId {
  int pid = 0;
  int64_t start_time_ticks = 0;
  auto operator<=>(const ProcessId&) const = default;
};

struct ProcessTreeCounters {
  std::vector<ProcessId> processes;

  // Totals since each process began.
  std::optional<int64_t> read_bytes;          // from the block layer (io: read_bytes)
  std::optional<int64_t> write_bytes;         // io: write_bytes
  std::optional<int64_t> read_syscall_bytes;  // io: rchar; page cache hits and pipes included
  std::optional<int64_t> major_faults;        // stat: majflt + cmajflt
  std::optional<int64_t> minor_faults;        // stat: minflt + cminflt
  std::optional<int64_t> user_cpu_ns;         // stat: utime + cutime; clock ticks of 10 ms
  std::optional<int64_t> system_cpu_ns;       // stat: stime + cstime
  std::optional<int64_t> cpu_ns;              // schedstat, all threads; exact, living threads only
  std::optional<int64_t> run_queue_wait_ns;   // schedstat: runnable and waiting for a CPU
  std::optional<int64_t> block_io_delay_ns;   // stat: delayacct_blkio_ticks; empty unless
                                              // kernel.task_delayacct is on
  std::optional<int64_t> voluntary_context_switches;
  std::optional<int64_t> involuntary_context_switches;

  // Levels at the time of reading.
  std::optional<int64_t> rss_bytes;       // status: VmRSS; shared pages count once per process
  std::optional<int64_t> rss_anon_bytes;  // status: RssAnon
  std::optional<int64_t> rss_file_bytes;  // status: RssFile
  std::optional<int64_t> swap_bytes;      // status: VmSwap
  std::optional<int64_t> locked_bytes;    // status: VmLck
  std::optional<int64_t> pss_bytes;       // smaps_rollup: Pss; only with `with_smaps`
  std::optional<int64_t> threads;

  // Field name ("read_bytes") -> why it is empty.
  std::map<std::string, std::string> null_reasons;
};

// `with_smaps`: also smaps_rollup, which walks page tables: about 1 ms per GB mapped, and holds the
// target's mmap lock meanwhile. Never between send and first token.
ProcessTreeCounters ReadProcessTreeCounters(const ProcRoot& root, std::span<const int> pids,
                                            bool with_smaps = false);

// after - before for the totals; the levels are those of `after`. Processes that are new in `after`
// count from their start. A total is empty (with the reason) when a process of `before` is gone
// from `after`, since what it did in between is not known, unless the caller knows better.
ProcessTreeCounters CountersBetween(const ProcessTreeCounters& before,
                                    const ProcessTreeCounters& after);

}  // namespace rouse::os
