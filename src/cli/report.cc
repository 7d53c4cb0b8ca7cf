// `rouse report`: a stored run as a table, JSON, CSV or a trace.
#include <fcntl.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/fd.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/html_file.h"
#include "cli/run_argument.h"
#include "report/csv.h"
#include "report/html.h"
#include "report/json.h"
#include "report/terminal.h"
#include "report/trace.h"
#include "results/json.h"
#include "results/store.h"

namespace rouse::cli {
namespace {

using results::Attempt;
using results::Run;

struct ReportFlags {
  std::string run;
  std::string database;
  bool csv = false;
  bool attempts = false;
  std::string trace_file;
  std::string html_file;
};

Status WriteFile(const std::string& path, const std::string& text) {
  ASSIGN_OR_RETURN(const Fd file, OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC));
  const Status written = WriteAll(file.get(), text);
  if (!written.ok()) return written.error().WithContext("cannot write " + path);
  return {};
}

// Keeps the one attempt that RUN#ATTEMPT names.
Status KeepOnly(int64_t id, std::vector<Attempt>& attempts) {
  std::erase_if(attempts, [id](const Attempt& attempt) { return attempt.id != id; });
  if (attempts.empty()) {
    return Error(ErrorCode::kUsage, "the run has no attempt " + std::to_string(id));
  }
  return {};
}

void PrintText(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (!text.ends_with('\n')) std::fputc('\n', stdout);
}

int Print(const Run& run, const std::vector<Attempt>& attempts, const ReportFlags& report_flags,
          bool one_attempt, const CommonFlags& flags) {
  if (!report_flags.trace_file.empty()) {
    const Status written = WriteFile(report_flags.trace_file, report::TraceJson(attempts));
    if (!written.ok()) return Fail(written.error());
    Progress(flags).Line("wrote " + report_flags.trace_file +
                         "; open it in a trace viewer such as ui.perfetto.dev");
    return 0;
  }
  if (!report_flags.html_file.empty()) {
    const Status written =
        WriteHtmlFile(report_flags.html_file,
                      report::PageHtml(report::PageTitle(run), report::PageJson(run, attempts)));
    if (!written.ok()) return Fail(written.error());
    Progress(flags).Line("wrote " + report_flags.html_file + "; open it in a browser");
    return 0;
  }
  if (report_flags.csv) {
    PrintText(report::AttemptsCsv(attempts));
  } else if (flags.json) {
    PrintText(one_attempt ? results::AttemptJson(attempts.front())
                          : report::ReportJson(run, attempts, report_flags.attempts));
  } else {
    report::TerminalOptions options = TerminalOf(flags, fileno(stdout));
    options.database_flag = report_flags.database;
    options.details = true;
    PrintText(one_attempt ? report::RenderAttempt(run, attempts.front(), options)
                          : report::RenderRun(run, attempts, options));
  }
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0
             ? 0
             : Fail(Error(ErrorCode::kIo, "cannot write to stdout"));
}

int Report(const ReportFlags& report_flags, const CommonFlags& flags) {
  if (const Status page = report_flags.html_file.empty() ? Status() : report::CheckPage();
      !page.ok()) {
    return Fail(page.error());
  }
  const Result<std::string> path = results::StorePath(report_flags.database);
  if (!path.ok()) return Fail(path.error());
  Result<results::Store> store = results::Store::Open(*path, results::OpenMode::kReadOnly);
  if (!store.ok()) return Fail(store.error());
  const Result<RunArgument> argument = ParseRunArgument(report_flags.run, *store);
  if (!argument.ok()) return Fail(argument.error());
  if (argument->condition) {
    return Fail(Error(ErrorCode::kUsage, "report takes a whole run, or RUN#ATTEMPT"));
  }
  const Result<Run> run = store->LoadRun(argument->run);
  if (!run.ok()) return Fail(run.error());
  Result<std::vector<Attempt>> attempts = store->LoadAttempts(argument->run);
  if (!attempts.ok()) return Fail(attempts.error());
  if (argument->attempt) {
    const Status kept = KeepOnly(*argument->attempt, *attempts);
    if (!kept.ok()) return Fail(kept.error());
  }
  return Print(*run, *attempts, report_flags, argument->attempt.has_value(), flags);
}

}  // namespace

int RunReport(int argc, const char* const* argv) {
  CLI::App app("Show a stored run: a table, or JSON, CSV, a page for a browser or a trace of it.", "report");
  CommonFlags flags;
  ReportFlags report_flags;
  app.add_option("RUN", report_flags.run, "Its number (default: the latest); RUN#ATTEMPT for one");
  app.add_option("--db", report_flags.database,
                 "The database (default: $ROUSE_DB or the user's own)");
  auto* const csv = app.add_flag("--csv", report_flags.csv, "One row per attempt, on stdout");
  auto* const trace = app.add_option("--trace", report_flags.trace_file,
                                     "Write a trace-event file of the attempts' timelines");
  auto* const html = app.add_option(
      "--html", report_flags.html_file,
      "Write a page for a browser: one file that needs nothing else (docs/report.md)");
  app.add_flag("--attempts", report_flags.attempts, "With --json: every attempt as well");
  AddCommonFlags(app, flags);
  csv->excludes(trace)->excludes("--json");
  trace->excludes("--json");
  html->excludes(csv)->excludes(trace)->excludes("--json");
  app.footer("Example:\n  rouse report 3\n  rouse report 3 --html run3.html\n  rouse report 3 --json | python3 -m json.tool\n");
  if (const auto status = ParseArguments(app, argc, argv)) return *status;
  return Report(report_flags, flags);
}

}  // namespace rouse::cli
