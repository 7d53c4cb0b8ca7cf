// `rouse report`: a stored run or attempt as a table, or as one of the forms for other programs.
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/run_argument.h"
#include "cli/whole_file.h"
#include "report/benchstat.h"
#include "report/csv.h"
#include "report/html.h"
#include "report/json.h"
#include "report/markdown.h"
#include "report/prometheus.h"
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
  std::optional<std::string> csv;  // a table's name, or "" for the attempts
  bool attempts = false;
  bool benchstat = false;
  bool markdown = false;
  std::string trace_file;
  std::string html_file;
  std::string prometheus_file;
};

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

// The outputs that go to a file; empty when none was asked for.
std::optional<int> PrintToFile(const Run& run, const std::vector<Attempt>& attempts,
                               const ReportFlags& report_flags, const CommonFlags& flags) {
  const auto write = [&flags](const std::string& path, const Result<std::string>& text,
                              const std::string& what) {
    const Status written = WriteWholeFile(path, text);
    if (!written.ok()) return Fail(written.error());
    Progress(flags).Line("wrote " + path + "; " + what);
    return 0;
  };
  if (!report_flags.trace_file.empty()) {
    return write(report_flags.trace_file, report::TraceJson(attempts),
                 "open it in a trace viewer such as ui.perfetto.dev");
  }
  if (!report_flags.html_file.empty()) {
    return write(report_flags.html_file,
                 report::PageHtml(report::PageTitle(run), report::PageJson(run, attempts)),
                 "open it in a browser");
  }
  if (!report_flags.prometheus_file.empty()) {
    return write(report_flags.prometheus_file, report::PrometheusText(run, attempts),
                 "node_exporter's textfile collector reads it");
  }
  return std::nullopt;
}

int Print(const Run& run, const std::vector<Attempt>& attempts, const ReportFlags& report_flags,
          bool one_attempt, const CommonFlags& flags) {
  if (const auto status = PrintToFile(run, attempts, report_flags, flags)) return *status;
  if (report_flags.csv) {
    PrintText(report::AttemptsCsv(
        attempts,
        report::CsvTableFromName(*report_flags.csv).value_or(report::CsvTable::kAttempts)));
  } else if (report_flags.benchstat) {
    PrintText(report::BenchstatText(run, attempts));
  } else if (report_flags.markdown) {
    PrintText(report::RunMarkdown(run, attempts));
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
  return 0;
}

// Whether what is asked for is the table for people.
bool IsText(const ReportFlags& report_flags, const CommonFlags& flags) {
  return !flags.json && !report_flags.csv && !report_flags.benchstat && !report_flags.markdown &&
         report_flags.trace_file.empty() && report_flags.html_file.empty() &&
         report_flags.prometheus_file.empty();
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
  // Hypotheses may be of any counter; the other forms print all of them.
  const bool brief = IsText(report_flags, flags) && !argument->attempt && run->hypotheses.empty();
  Result<std::vector<Attempt>> attempts =
      store->LoadAttempts(argument->run, brief ? results::Detail::kReport : results::Detail::kAll);
  if (!attempts.ok()) return Fail(attempts.error());
  if (argument->attempt) {
    const Status kept = KeepOnly(*argument->attempt, *attempts);
    if (!kept.ok()) return Fail(kept.error());
  }
  return Print(*run, *attempts, report_flags, argument->attempt.has_value(), flags);
}

// `--csv 3` means run 3, not a table of that name.
Status SortOutCsv(ReportFlags& flags) {
  if (!flags.csv || flags.csv->empty() || report::CsvTableFromName(*flags.csv)) return {};
  const bool run_like = flags.csv->find_first_not_of("0123456789#") == std::string::npos ||
                        flags.csv->starts_with("last");
  if (!flags.run.empty() || !run_like) {
    return Error(ErrorCode::kUsage, "--csv: there is no table \"" + *flags.csv +
                                        "\"; there are attempts, stages, counters and states");
  }
  flags.run = *flags.csv;
  flags.csv = "";
  return {};
}

}  // namespace

int RunReport(int argc, const char* const* argv) {
  CLI::App app(
      "Show a stored run (or one attempt of it): a table, or one of the forms below for other "
      "programs. docs/reports.md says what each is for.",
      "report");
  CommonFlags flags;
  ReportFlags report_flags;
  app.add_option("RUN", report_flags.run, "Its number (default: the latest); RUN#ATTEMPT for one");
  app.add_option("--db", report_flags.database,
                 "The database (default: $ROUSE_DB or the user's own)");
  std::vector<CLI::Option*> forms;
  forms.push_back(app.add_option_function<std::string>(
                         "--csv", [&](const std::string& table) { report_flags.csv = table; },
                         "A tidy table on stdout: attempts (default), stages, counters or states")
                      ->expected(0, 1)
                      ->option_text("[TABLE]"));
  forms.push_back(app.add_option(
      "--html", report_flags.html_file,
      "Write a page for a browser: one file that needs nothing else (docs/report_page.md)"));
  forms.push_back(app.add_option("--trace", report_flags.trace_file,
                                 "Write a trace-event file of the attempts' timelines"));
  forms.push_back(app.add_flag("--benchstat", report_flags.benchstat,
                               "Go benchmark lines on stdout, the input of benchstat"));
  forms.push_back(app.add_option("--prometheus", report_flags.prometheus_file,
                                 "Write a text file for Prometheus, replaced as a whole"));
  forms.push_back(app.add_flag("--markdown", report_flags.markdown,
                               "Markdown tables on stdout, for a pull request"));
  app.add_flag("--attempts", report_flags.attempts, "With --json: every attempt as well");
  AddCommonFlags(app, flags);
  forms.push_back(app.get_option("--json"));
  for (size_t i = 0; i < forms.size(); ++i) {
    for (size_t j = 0; j < i; ++j) forms[i]->excludes(forms[j]);
  }
  app.footer(
      "Example:\n"
      "  rouse report 3\n"
      "  rouse report 3#17 --trace attempt.json\n"
      "  rouse report 3 --html run3.html\n"
      "  rouse report 3 --json | python3 -m json.tool\n"
      "  rouse report 3 --csv stages > stages.csv\n"
      "  rouse report 3 --benchstat > new.txt && benchstat old.txt new.txt\n"
      "  rouse report 3 --prometheus /var/lib/node_exporter/rouse.prom\n"
      "  rouse report 3 --markdown\n");
  if (const auto status = ParseArguments(app, argc, argv)) return *status;
  if (const Status sorted = SortOutCsv(report_flags); !sorted.ok()) return Fail(sorted.error());
  return Report(report_flags, flags);
}

}  // namespace rouse::cli
