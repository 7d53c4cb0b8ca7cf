// The store: runs and attempts in one SQLite file (docs/results_format.md has its tables and
// queries that work). An attempt is one transaction: killing the process at any instant loses at
// most the attempt in flight. Any number of readers may look on while one process writes.
//
// Errors name the file and what to do about it. kNotFound: no database there. kPermission: it or
// its directory may not be written. kCorrupt: not SQLite, not ours, or damaged. kState: written by
// a later version, or locked by another process for longer than 10 s. kIo: the disk is full or
// failed; what was stored before stays.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "results/attempt.h"
#include "results/run.h"

namespace rouse::results {

// The format that this version writes; `PRAGMA user_version` of the file.
inline constexpr int kStoreVersion = 4;

// Where results go: `flag` when it is not empty, else $ROUSE_DB, else
// $XDG_DATA_HOME/rouse/rouse.sqlite, else ~/.local/share/rouse/rouse.sqlite. Creates nothing.
Result<std::string> StorePath(const std::string& flag);

enum class OpenMode {
  kReadOnly,   // the file must be there; nothing is created or migrated
  kReadWrite,  // created when missing, with the directories above it
};

// How much of each attempt to load.
enum class Detail {
  kSummary,  // the columns of the attempts table: marks, stages, tokens, outcome; no child rows
  kReport,   // also states, segments, lanes, stream faults, warnings, and target_read_bytes: what
             // a report prints of a whole run, without the three dozen other counters of each
  kAll,      // also all counters and null reasons
};

struct RunSummary {
  int64_t id = 0;
  std::string name;
  std::string kind;
  std::string status;
  std::string target;
  std::string model;
  int64_t started_wall_ns = 0;
  std::optional<int64_t> ended_wall_ns;
  int64_t conditions = 0;
  int64_t attempts = 0;  // primes not included
  int64_t failed = 0;    // attempts that count in n and are not ok
};

// What a condition's sample says of the TTFT, and no more.
struct ConditionTtfts {
  std::string condition;
  std::vector<int64_t> ttft_ns;  // of those that got a first token
  int64_t failed = 0;
};

// One open database. Movable; not safe for use by two threads at once (open a second one).
class Store {
 public:
  // `busy_timeout_ms`: how long a reader waits for another process that has locked the file. Empty:
  // 10 s, as for what is asked once; what looks again and again (rouse ui) waits less.
  static Result<Store> Open(const std::string& path, OpenMode mode,
                            std::optional<int> busy_timeout_ms = std::nullopt);
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  const std::string& path() const;

  // Stores a run with its conditions, hypotheses, calibration and environment; returns its number.
  // `run.id` is ignored. Use status "running" for one that is about to begin.
  Result<int64_t> CreateRun(const Run& run);

  // Replaces everything about the run `*run.id` except its attempts (calibration that was measured
  // after the run was created, say). Unknown run: kUsage.
  Status UpdateRun(const Run& run);

  // Stores one attempt in one transaction and returns when it is on the disk. Sets `attempt.run`,
  // and `attempt.id` when it is empty: ids count from 1 within a run.
  Status AppendAttempt(int64_t run, Attempt& attempt);

  // Replaces what is known of the run's progress; one transaction, on the disk when it returns.
  Status SetProgress(int64_t run, const RunProgress& progress);
  // Empty for a run that never told any: an import, or one of an earlier version.
  Result<std::optional<RunProgress>> LoadProgress(int64_t run);

  // Sets the status ("complete", "paused", "interrupted", "failed") and the end time (now).
  Status FinishRun(int64_t run, const std::string& status);

  // A run and all of its attempts in one transaction: all or nothing. For imports.
  Result<int64_t> ImportRun(const Run& run, std::span<Attempt> attempts);

  // Unknown run: kUsage, with the numbers that exist.
  Result<Run> LoadRun(int64_t run);

  // In the order in which they were stored, primes included.
  Result<std::vector<Attempt>> LoadAttempts(int64_t run, Detail detail = Detail::kAll);

  // The last `count` that were stored, primes included, oldest first; no child rows (kSummary).
  Result<std::vector<Attempt>> LoadLastAttempts(int64_t run, int64_t count);

  // By the conditions' names; reads three columns, no child rows.
  Result<std::vector<ConditionTtfts>> LoadTtfts(int64_t run);

  // Oldest first.
  Result<std::vector<RunSummary>> ListRuns();

  // The run with the highest number; kNotFound when there is none.
  Result<int64_t> LatestRun();

  // Changes whenever another connection commits: a cheap poll for `rouse list --follow`.
  Result<int64_t> DataVersion();

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rouse::results
