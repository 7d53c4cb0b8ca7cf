// What `rouse ui` knows of the database: its runs as lines of JSON, read anew only when somebody
// has written to it, and what has become of the file itself: not there yet, locked, replaced by
// another, gone. Reads only. Not safe for use by two threads. For this folder only.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "results/store.h"

namespace rouse::cli {

// What came out of runs that are not running, by their numbers.
struct KnownResult {
  int64_t attempts = 0;  // that it was read from
  std::string json;      // report::RunResultJson()
};
using KnownResults = std::map<int64_t, KnownResult>;

// The database, opened when it is there, and anew when another file stands in its place: SQLite
// would go on with the old one for as long as it is open.
class UiDatabase {
 public:
  explicit UiDatabase(std::string path) : path_(std::move(path)) {}

  // Calls `read(store)` and returns what it returned. kNotFound: no such file, or none with runs.
  template <typename Read>
  auto With(Read&& read) -> decltype(read(std::declval<results::Store&>())) {
    const Status ready = Ready();
    if (!ready.ok()) return ready.error();
    auto result = read(*store_);
    if (!result.ok() && result.error().code() != ErrorCode::kUsage) store_.reset();
    return result;
  }

  // Grows with each file that was opened.
  int64_t opened() const { return opened_; }

  // Of the file that is open.
  KnownResults& known_results() { return known_results_; }

 private:
  Status Ready();

  const std::string path_;
  std::optional<results::Store> store_;
  std::optional<std::pair<dev_t, ino_t>> file_;  // of store_
  int64_t opened_ = 0;
  KnownResults known_results_;
};

struct ListedRun {
  int64_t id = 0;
  bool running = false;
  std::string json;  // one line: as `rouse list --json` has it, with "progress" and "recent"
};

// "[{...},{...}]"
std::string JsonList(const std::vector<ListedRun>& runs);

// All runs, oldest first, each with its "result" (`known` spares reading it again). A running one
// has "progress" (run_progress.h, or null) and "recent": the last attempts, as {"id", "condition",
// "outcome", "prime", "ttft_ns", "end_ns"}.
Result<std::vector<ListedRun>> ListOf(results::Store& store, KnownResults& known);

// The list as it was when it was last looked at, and what has changed since.
class UiRuns {
 public:
  struct Change {
    bool all = false;  // the file is another one, or its problem came or went: tell everything
    std::vector<ListedRun> changed;
    std::vector<int64_t> removed;
  };

  explicit UiRuns(std::string path) : database_(path), path_(std::move(path)) {}

  Change Look();

  const std::vector<ListedRun>& runs() const { return runs_; }
  // Why the list may not be up to date, for a person; "" when it is.
  const std::string& problem() const { return problem_; }
  // {"database", "exists", "problem", "runs"}; of one run only when `only` is given.
  std::string AllJson(std::optional<int64_t> only) const;

 private:
  Change Took(std::vector<ListedRun> runs);

  UiDatabase database_;
  const std::string path_;
  std::vector<ListedRun> runs_;
  std::map<int64_t, std::string> told_;
  std::string problem_;
  bool exists_ = false;
  int64_t opened_ = -1;
  int64_t version_ = -1;
  bool running_ = false;  // a run of the last list
  MonoTime read_at_;      // when the list was read
};

}  // namespace rouse::cli
