// `rouse list`: the stored runs.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/terminal_text.h"
#include "base/time.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/run_progress.h"
#include "report/json.h"
#include "report/terminal.h"
#include "results/store.h"

namespace rouse::cli {
namespace {

using results::RunSummary;

constexpr int64_t kPollNs = 500 * kNsPerMs;
constexpr int kWideEnough = 72;  // for conditions and words beside the counts

// Of a command its program alone: "cmd:/opt/llama/llama-server -m x" is "llama-server".
std::string TargetWord(const std::string& target) {
  constexpr std::string_view kCommand = "cmd:";
  if (!target.starts_with(kCommand)) return target;
  const std::string program = target.substr(kCommand.size(), target.find(' ') - kCommand.size());
  return program.substr(program.rfind('/') + 1);
}

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
  if (!run.target.empty()) what += " on " + TargetWord(run.target);
  const int left = columns - DisplayColumns(head) - DisplayColumns(counts);
  constexpr int kNameMin = 10;
  return head + PadRight(FitText(what, std::max(left, kNameMin)), left) + counts;
}

// Where a run stands that is being measured, or was until its tool was killed. Of the database
// alone: nothing is asked of the tool or its server.
std::string ProgressText(int64_t run, const results::RunProgress& progress) {
  if (!IsAlive(progress)) {
    return "its process " + std::to_string(progress.tool_pid) +
           " is gone: rouse measure --resume " + std::to_string(run) + " goes on";
  }
  std::string text = std::to_string(progress.done) + "/" + std::to_string(progress.total) + " " +
                     progress.condition + ": ";
  if (progress.until_wall_ns) {
    // The end matters more than that nothing is touched until then.
    text += progress.doing.substr(0, progress.doing.find(',')) + " until " +
            FormatWallTime(*progress.until_wall_ns).substr(11, 8) + " UTC";
  } else {
    text += progress.doing;
  }
  return text + ", " + FormatDuration(progress.eta_ns) + " left";
}

std::optional<results::RunProgress> ProgressOf(results::Store& store, const RunSummary& run) {
  if (run.status != "running") return std::nullopt;
  const auto progress = store.LoadProgress(run.id);
  return progress.ok() ? *progress : std::nullopt;
}

std::string ProgressLine(const RunSummary& run, const results::RunProgress& progress, int columns) {
  return "      " + FitText(ProgressText(run.id, progress), columns - 6);
}

// The run's own line of JSON with what is in flight as "progress" (null when nothing is).
std::string LineJson(const RunSummary& run, const std::optional<results::RunProgress>& progress) {
  std::string json = report::RunLineJson(run);
  json.pop_back();
  return json + ",\"progress\":" + (progress ? ProgressJson(*progress) : "null") + "}";
}

// What came out; nullopt of a run that goes on.
Result<std::optional<report::RunResult>> ResultOf(results::Store& store, const RunSummary& run) {
  if (run.status == "running") return std::nullopt;
  ASSIGN_OR_RETURN(const std::vector<results::ConditionTtfts> ttfts, store.LoadTtfts(run.id));
  return report::ResultOf(ttfts);
}

// "      first token after 10.9 ms to 1.63 s": medians of the fastest condition and of the slowest.
std::string ResultLine(const report::RunResult& result) {
  if (result.conditions == 0) return "";
  std::string text = "      first token ";
  if (!result.fastest_ns) return text + "in too few attempts";
  text += "after " + FormatDuration(*result.fastest_ns);
  if (result.slowest_ns != result.fastest_ns) text += " to " + FormatDuration(*result.slowest_ns);
  if (result.without > 0) {
    text += ", in too few attempts of " + FormatCount(result.without, "condition");
  }
  return text;
}

Status PrintJson(const std::vector<RunSummary>& runs, results::Store* store) {
  std::map<int64_t, report::RunResult> results;
  for (const RunSummary& run : runs) {
    ASSIGN_OR_RETURN(const std::optional<report::RunResult> result, ResultOf(*store, run));
    if (result) results.emplace(run.id, *result);
  }
  std::printf("%s\n", report::RunListJson(runs, results).c_str());
  return {};
}

// The lines of one run: where it stands while it is measured, what came out of it afterwards.
Status PrintRun(results::Store& store, const RunSummary& run, int columns) {
  std::printf("%s\n", Row(run, columns).c_str());
  if (const auto progress = ProgressOf(store, run)) {
    std::printf("%s\n", ProgressLine(run, *progress, columns).c_str());
  }
  ASSIGN_OR_RETURN(const std::optional<report::RunResult> result, ResultOf(store, run));
  const std::string line = result ? ResultLine(*result) : "";
  if (!line.empty()) std::printf("%s\n", FitText(line, columns).c_str());
  return {};
}

// `store` is null where there is no database yet.
Status Print(const std::vector<RunSummary>& runs, results::Store* store, const CommonFlags& flags,
             const std::string& path) {
  if (flags.json) return PrintJson(runs, store);
  if (runs.empty()) {
    std::printf("No runs yet in %s. rouse measure makes one.\n", SafeText(path).c_str());
    return {};
  }
  const int columns = TerminalOf(flags, fileno(stdout)).columns;
  const std::string counts = columns < kWideEnough ? "  attempts" : "  attempts in conditions";
  std::string head = " run  started (UTC)     status       name";
  std::printf("%s\n", (PadRight(head, columns - DisplayColumns(counts)) + counts).c_str());
  for (const RunSummary& run : runs) RETURN_IF_ERROR(PrintRun(*store, run, columns));
  return {};
}

// What of a run may change while one looks on.
std::string Fingerprint(const RunSummary& run,
                        const std::optional<results::RunProgress>& progress) {
  return run.status + " " + std::to_string(run.attempts) + " " + std::to_string(run.failed) + " " +
         (progress ? std::to_string(progress->updated_wall_ns) : "") +
         (progress && IsAlive(*progress) ? " alive" : "");
}

// Prints a line for each run that is new or has changed, until the user says stop.
int Follow(results::Store& store, const CommonFlags& flags) {
  std::map<int64_t, std::string> shown;
  const int columns = TerminalOf(flags, fileno(stdout)).columns;
  int64_t version = -1;
  // A tool that is killed writes nothing: while a run is measured, its process is looked for.
  bool measured = false;
  while (!InterruptRequested()) {
    const Result<int64_t> now = store.DataVersion();
    if (!now.ok()) return Fail(now.error());
    if (*now != version || measured) {
      version = *now;
      measured = false;
      const Result<std::vector<RunSummary>> runs = store.ListRuns();
      if (!runs.ok()) return Fail(runs.error());
      for (const RunSummary& run : *runs) {
        std::string& last = shown[run.id];
        const std::optional<results::RunProgress> progress = ProgressOf(store, run);
        measured = measured || (progress && IsAlive(*progress));
        if (last == Fingerprint(run, progress)) continue;
        last = Fingerprint(run, progress);
        if (flags.json) {
          std::printf("%s\n", LineJson(run, progress).c_str());
        } else if (const Status printed = PrintRun(store, run, columns); !printed.ok()) {
          return Fail(printed.error());
        }
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
    const Status printed = Print({}, nullptr, flags, *path);
    return printed.ok() ? 0 : Fail(printed.error());
  }
  Result<results::Store> store = results::Store::Open(*path, results::OpenMode::kReadOnly);
  if (!store.ok()) return Fail(store.error());
  if (follow) return Follow(*store, flags);
  const Result<std::vector<RunSummary>> runs = store->ListRuns();
  if (!runs.ok()) return Fail(runs.error());
  const Status printed = Print(*runs, &*store, flags, *path);
  return printed.ok() ? 0 : Fail(printed.error());
}

}  // namespace

int RunList(int argc, const char* const* argv) {
  CLI::App app("List the stored runs, oldest first.", "list");
  CommonFlags flags;
  std::string database;
  bool follow = false;
  app.add_option("--db", database, "The database (default: $ROUSE_DB or the user's own)");
  app.add_flag("--follow", follow,
               "Go on and print a line whenever a run changes: which attempt it is in, what it "
               "waits for and until when");
  AddCommonFlags(app, flags);
  app.footer("Example:\n  rouse list\n  rouse report 3\n");
  if (const auto status = ParseArguments(app, argc, argv)) return *status;
  InstallInterruptHandler();
  return List(database, follow, flags);
}

}  // namespace rouse::cli
