// The one table of what can make a first token late: what each row reads, its threshold and where
// that comes from, the stages in which it acts, and how it is looked for. To add a cause: one row
// in evidence.cc, its look, its line in docs/explain.md, and a test in causes_test.cc.
//
// Evidence is a difference between a subject and a reference. It supports a cause; it proves none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "explain/profile.h"

namespace rouse::explain {

enum class CauseId {
  kBusyQueue,
  kNewProcess,
  kMemoryReclaim,
  kSwapIn,
  kPageCacheCold,
  kModelUnloaded,
  kLongPrompt,
  kPrefixLost,
  kThrottled,
  kDiskBusy,
  kDiskSlow,
  kBuffered,
  kCpuBusy,
  kNewConnection,
  kClocks,
};
inline constexpr int kCauseCount = 15;

// What a cause is looked for in: one side against the other, and what the run knows beside them.
struct Case {
  const Profile& subject;
  const Profile& reference;
  double excess_ns = 0;                    // subject's TTFT less the reference's; above 0
  std::optional<double> model_bytes;       // the file, from the run's environment
  std::optional<double> disk_bytes_per_s;  // measured by reads of this run that met a cold file
};

struct Finding {
  enum class Seen { kNo, kYes, kUnknown };
  Seen seen = Seen::kUnknown;
  // The part of the excess that the evidence can account for. Empty with kYes: whatever its stages
  // hold that no row above it claims.
  std::optional<double> estimate_ns;
  std::string sentence;  // the numbers; for kUnknown what is missing
};

using StageMask = uint32_t;
constexpr StageMask Mask(results::Stage stage) { return 1U << static_cast<uint32_t>(stage); }

struct CauseRow {
  CauseId id;
  std::string_view name;       // "page_cache_cold", in JSON
  std::string_view layer;      // the layer of docs/plan.md that a contrast would change, or ""
  std::string_view title;      // "the model's file was not in the page cache"
  std::string_view reads;      // fields of rouse.attempt/1
  std::string_view threshold;  // what counts as present, and why
  StageMask stages;            // where it can act
  Finding (*look)(const Case&);
};

// In the order in which they claim time: what is measured directly before what is inferred.
std::span<const CauseRow> CauseRows();
const CauseRow& RowOf(CauseId id);

// The largest delay that clock frequencies can cause once: two steps of at most 10 ms each (the
// kernel's upper limit of cpufreq_policy_transition_delay_us(), drivers/cpufreq/cpufreq.c), for a
// governor that has to see the load first and then raise the clock.
inline constexpr double kClockRampNs = 20e6;

// Subject less reference of a counter; empty when either is missing.
std::optional<double> CounterExcess(const Case& each, std::string_view name);

// Time over the reference in the stages of the mask that both sides know, at least 0.
double StageExcess(const Case& each, StageMask mask);

// Bytes that the subject read from the disk beyond the reference.
std::optional<double> ReadExcess(const Case& each);

// For files of this folder only: the looks that read disk, page cache and memory (evidence_io.cc).
Finding LookMemoryReclaim(const Case& each);
Finding LookSwapIn(const Case& each);
Finding LookPageCache(const Case& each);
Finding LookDiskBusy(const Case& each);
Finding LookDiskSlow(const Case& each);

// "298 ms", "98.4 MB", "12.5 %" of doubles.
std::string Ms(double ns);
std::string Bytes(double bytes);
std::string Percent(double share);

}  // namespace rouse::explain
