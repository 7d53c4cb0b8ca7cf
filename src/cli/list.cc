// `rouse list`: the stored runs.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/terminal_text.h"
#include "base/time.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "report/json.h"
#include "report/terminal.h"
#include "results/store.h"

namespace rouse::cli {
namespace {

using results::RunSummary;

constexpr int64_t kPollNs = 500 * kNsPerMs;
constexpr int kWideEnough = 72;  // for conditions and words beside the counts

// One line of at most `columns`: the name gives way, the counts stay.
std::string Row(const RunSummary& run, int columns) {
  const std::string failed = std::to_string(run.failed);
  std::string counts = "  " + std::to_string(run.attempts);
  if (columns < kWideEnough) {
    counts += run.failed == 0 ? "" : " (" + failed + " x)";
  } else {
    counts += " in " + std::to_string(run.conditions);
    counts += run.failed == 0 ? "" : ", " + failed + " failed";
  }
  char head[64];
  std::snprintf(head, sizeof head, "%4lld  %s  %-11s  ", static_cast<long long>(run.id),
                FormatWallTime(run.started_wall_ns).substr(0, 16).c_str(), run.status.c_str());
  std::string what = run.name;
  if (!run.target.empty()) what += " on " + run.target;
  const int left = columns - DisplayColumns(head) - DisplayColumns(counts);
  constexpr int kNameMin = 10;
  return head + PadRight(FitText(what, std::max(left, kNameMin)), left) + counts;
}

void Print(const std::vector<RunSummary>& runs, const CommonFlags& flags, const std::string& path) {
  if (flags.json) {
    std::printf("%s\n", report::RunListJson(runs).c_str());
    return;
  }
  if (runs.empty()) {
    std::printf("No runs yet in %s. rouse measure makes one.\n", path.c_str());
    return;
  }
  const int columns = TerminalOf(flags, fileno(stdout)).columns;
  const std::string counts = columns < kWideEnough ? "  attempts" : "  attempts in conditions";
  std::string head = " run  started (UTC)     status       name";
  std::printf("%s\n", (PadRight(head, columns - DisplayColumns(counts)) + counts).c_str());
  for (const RunSummary& run : runs) std::printf("%s\n", Row(run, columns).c_str());
}

// What of a run may change while one looks on.
std::string Fingerprint(const RunSummary& run) {
  return run.status + " " + std::to_string(run.attempts) + " " + std::to_string(run.failed);
}

// Prints a line for each run that is new or has changed, until the user says stop.
int Follow(results::Store& store, const CommonFlags& flags) {
  std::map<int64_t, std::string> shown;
  const int columns = TerminalOf(flags, fileno(stdout)).columns;
  int64_t version = -1;
  while (!InterruptRequested()) {
    const Result<int64_t> now = store.DataVersion();
    if (!now.ok()) return Fail(now.error());
    if (*now != version) {
      version = *now;
      const Result<std::vector<RunSummary>> runs = store.ListRuns();
      if (!runs.ok()) return Fail(runs.error());
      for (const RunSummary& run : *runs) {
        std::string& last = shown[run.id];
        if (last == Fingerprint(run)) continue;
        last = Fingerprint(run);
        const std::string line = flags.json ? report::RunLineJson(run) : Row(run, columns);
        std::printf("%s\n", line.c_str());
      }
      if (std::fflush(stdout) != 0) return 0;  // nobody reads any more
    }
    RealClock().SleepFor(kPollNs);
  }
  return ExitStatus(Error(ErrorCode::kInterrupted, ""));
}

int List(const std::string& database, bool follow, const CommonFlags& flags) {
  const Result<std::string> path = results::StorePath(database);
  if (!path.ok()) return Fail(path.error());
  struct stat info{};
  // Before the first run there is no database, and that is no fault unless one was named.
  if (database.empty() && !follow && stat(path->c_str(), &info) != 0) {
    Print({}, flags, *path);
    return 0;
  }
  Result<results::Store> store = results::Store::Open(*path, results::OpenMode::kReadOnly);
  if (!store.ok()) return Fail(store.error());
  if (follow) return Follow(*store, flags);
  const Result<std::vector<RunSummary>> runs = store->ListRuns();
  if (!runs.ok()) return Fail(runs.error());
  Print(*runs, flags, *path);
  return 0;
}

}  // namespace

int RunList(int argc, const char* const* argv) {
  CLI::App app("List the stored runs, oldest first.", "list");
  CommonFlags flags;
  std::string database;
  bool follow = false;
  app.add_option("--db", database, "The database (default: $ROUSE_DB or the user's own)");
  app.add_flag("--follow", follow, "Go on and print a line whenever a run changes");
  AddCommonFlags(app, flags);
  app.footer("Example:\n  rouse list\n  rouse report 3\n");
  if (const auto status = ParseArguments(app, argc, argv)) return *status;
  InstallInterruptHandler();
  return List(database, follow, flags);
}

}  // namespace rouse::cli
