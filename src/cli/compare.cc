// `rouse compare`: two conditions, or two runs condition by condition, and a verdict where one is
// asked for.
#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/run_argument.h"
#include "cli/whole_file.h"
#include "report/comparison.h"
#include "report/comparison_text.h"
#include "report/html.h"
#include "report/json.h"
#include "report/markdown.h"
#include "results/metrics.h"
#include "results/store.h"

namespace rouse::cli {
namespace {

using report::Comparison;
using report::ComparisonSpec;
using results::Attempt;
using results::Run;
using stats::Verdict;

constexpr int kRejected = 1;
constexpr int kUndecided = 4;

struct CompareFlags : CommonFlags {
  std::string html_file;
  bool markdown = false;
};

struct Loaded {
  Run run;
  std::vector<Attempt> attempts;
};

Result<Loaded> Load(results::Store& store, int64_t run, const ComparisonSpec& spec) {
  const results::Metric* const metric = results::FindMetric(spec.metric);
  const bool needs_rows = !spec.guards.empty() || metric->home == results::MetricHome::kCounter ||
                          metric->home == results::MetricHome::kState;
  Loaded loaded;
  ASSIGN_OR_RETURN(loaded.run, store.LoadRun(run));
  ASSIGN_OR_RETURN(
      loaded.attempts,
      store.LoadAttempts(run, needs_rows ? results::Detail::kAll : results::Detail::kSummary));
  return loaded;
}

// 1 when anything was rejected, else 4 when anything is undecided, else 0.
int StatusOf(const std::vector<Comparison>& comparisons) {
  int status = 0;
  for (const Comparison& comparison : comparisons) {
    if (comparison.verdict == Verdict::kReject) return kRejected;
    if (comparison.verdict == Verdict::kUndecided) status = kUndecided;
  }
  return status;
}

std::set<std::string> ConditionNames(const Loaded& loaded) {
  std::set<std::string> names;
  for (const auto& condition : report::ByCondition(loaded.run, loaded.attempts)) {
    names.insert(condition.name);
  }
  return names;
}

void PrintNames(const char* side, const std::vector<std::string>& names) {
  if (names.empty()) return;
  std::string text = std::string("Only in the ") + side + ":";
  for (const std::string& name : names) text += " \"" + SafeText(name) + "\"";
  const int columns = TerminalOf({}, fileno(stdout)).columns;
  std::fputs(WrapText(text, {.columns = columns, .hanging = 2}).c_str(), stdout);
}

// Beside the text or JSON, when --html asks for it.
Status WritePage(const std::vector<Comparison>& comparisons, const std::vector<std::string>& only_t,
                 const std::vector<std::string>& only_c, const Loaded& treatment,
                 const Loaded& control, const CompareFlags& flags) {
  if (flags.html_file.empty()) return {};
  std::vector<report::PageSide> sides = {{&treatment.run, treatment.attempts}};
  if (treatment.run.id != control.run.id) sides.push_back({&control.run, control.attempts});
  RETURN_IF_ERROR(WriteWholeFile(
      flags.html_file,
      report::PageHtml(report::PageTitle(treatment.run, control.run),
                       report::ComparisonPageJson(comparisons, only_t, only_c, sides))));
  Progress(flags).Line("wrote " + flags.html_file + "; open it in a browser");
  return {};
}

int CompareRuns(const Loaded& treatment, const Loaded& control, const ComparisonSpec& spec,
                const CompareFlags& flags) {
  if (treatment.run.id == control.run.id) {
    return Fail(Error(ErrorCode::kUsage, "run " + std::to_string(*treatment.run.id) +
                                             " is compared with itself; name two conditions of "
                                             "it: RUN:CONDITION RUN:CONDITION"));
  }
  const std::set<std::string> t = ConditionNames(treatment);
  const std::set<std::string> c = ConditionNames(control);
  std::vector<std::string> only_t;
  std::vector<std::string> only_c;
  std::set_difference(t.begin(), t.end(), c.begin(), c.end(), std::back_inserter(only_t));
  std::set_difference(c.begin(), c.end(), t.begin(), t.end(), std::back_inserter(only_c));
  std::vector<Comparison> comparisons;
  int empty_side = 0;
  for (const auto& condition : report::ByCondition(treatment.run, treatment.attempts)) {
    if (!c.contains(condition.name)) continue;
    Result<Comparison> comparison =
        report::Compare({&treatment.run, condition.name, treatment.attempts},
                        {&control.run, condition.name, control.attempts}, spec);
    if (comparison.ok()) {
      comparisons.push_back(*std::move(comparison));
    } else if (comparison.error().code() == ErrorCode::kState) {
      // Nothing to compare there; the others are compared all the same.
      empty_side = Fail(comparison.error());
    } else {
      return Fail(comparison.error());
    }
  }
  if (comparisons.empty() && empty_side == 0) {
    return Fail(Error(ErrorCode::kUsage,
                      "the two runs have no condition of the same name; "
                      "compare RUN:CONDITION with RUN:CONDITION"));
  }
  if (flags.json) {
    std::printf("%s\n", report::ComparisonsJson(comparisons, only_t, only_c).c_str());
  } else if (flags.markdown) {
    std::fputs(report::ComparisonsMarkdown(comparisons).c_str(), stdout);
  } else {
    for (const Comparison& comparison : comparisons) {
      std::printf("%s\n",
                  report::ComparisonText(comparison, TerminalOf(flags, fileno(stdout))).c_str());
    }
    PrintNames("treatment", only_t);
    PrintNames("control", only_c);
  }
  const Status page = WritePage(comparisons, only_t, only_c, treatment, control, flags);
  if (!page.ok()) return Fail(page.error());
  return empty_side != 0 ? empty_side : StatusOf(comparisons);
}

int CompareConditions(const Loaded& treatment, const std::string& treatment_condition,
                      const Loaded& control, const std::string& control_condition,
                      const ComparisonSpec& spec, const CompareFlags& flags) {
  const Result<Comparison> comparison =
      report::Compare({&treatment.run, treatment_condition, treatment.attempts},
                      {&control.run, control_condition, control.attempts}, spec);
  if (!comparison.ok()) return Fail(comparison.error());
  if (flags.json) {
    std::printf("%s\n", report::ComparisonJson(*comparison).c_str());
  } else if (flags.markdown) {
    std::fputs(report::ComparisonsMarkdown({*comparison}).c_str(), stdout);
  } else {
    std::printf("%s",
                report::ComparisonText(*comparison, TerminalOf(flags, fileno(stdout))).c_str());
  }
  const Status page = WritePage({*comparison}, {}, {}, treatment, control, flags);
  if (!page.ok()) return Fail(page.error());
  return StatusOf({*comparison});
}

int CompareStored(const std::string& treatment_text, const std::string& control_text,
                  const std::string& database, const ComparisonSpec& spec,
                  const CompareFlags& flags) {
  const Result<std::string> path = results::StorePath(database);
  if (!path.ok()) return Fail(path.error());
  Result<results::Store> store = results::Store::Open(*path, results::OpenMode::kReadOnly);
  if (!store.ok()) return Fail(store.error());
  const Result<RunArgument> t = ParseRunArgument(treatment_text, *store);
  if (!t.ok()) return Fail(t.error());
  const Result<RunArgument> c = ParseRunArgument(control_text, *store);
  if (!c.ok()) return Fail(c.error());
  if (t->attempt || c->attempt || t->condition.has_value() != c->condition.has_value()) {
    return Fail(Error(ErrorCode::kUsage,
                      "compare takes two runs (RUN RUN) or two conditions (RUN:CONDITION "
                      "RUN:CONDITION)"));
  }
  const Result<Loaded> treatment = Load(*store, t->run, spec);
  if (!treatment.ok()) return Fail(treatment.error());
  const bool same = c->run == t->run;
  const Result<Loaded> other = same ? Result<Loaded>(Loaded{}) : Load(*store, c->run, spec);
  if (!other.ok()) return Fail(other.error());
  const Loaded& control = same ? *treatment : *other;
  if (!t->condition) return CompareRuns(*treatment, control, spec, flags);
  return CompareConditions(*treatment, *t->condition, control, *c->condition, spec, flags);
}

}  // namespace

int RunCompare(int argc, const char* const* argv) {
  CLI::App app(
      "Compare two conditions (RUN:CONDITION), or two runs condition by condition. With "
      "--expect there is a verdict: exit status 0 adopt, 1 reject, 4 undecided.",
      "compare");
  CompareFlags flags;
  ComparisonSpec spec;
  std::string treatment;
  std::string control;
  std::string database;
  std::string expect;
  app.add_option("TREATMENT", treatment, "RUN or RUN:CONDITION")->required();
  app.add_option("CONTROL", control, "RUN or RUN:CONDITION")->required();
  app.add_option("--db", database, "The database (default: $ROUSE_DB or the user's own)");
  app.add_option("--metric", spec.metric, "A metric of docs/metrics.md (default: ttft)");
  app.add_option("--statistic", spec.statistic, "median (default), p90, p95 or mean");
  app.add_option("--expect", expect, "decrease, increase or equal")
      ->check(CLI::IsMember({"decrease", "increase", "equal"}));
  app.add_option("--margin", spec.margin,
                 "The smallest change worth having: 10% of the control, or 50ms");
  app.add_option("--confidence", spec.confidence, "Of the verdict (default: 0.95)");
  app.add_option("--guard", spec.guards,
                 "What must hold for the treatment too, such as 'failure_rate<=0.05'; repeatable");
  app.add_option("--seed", spec.bootstrap.seed,
                 "Of the bootstrap for p90, p95 and mean (default: 1)");
  app.add_option("--differs", spec.differs,
                 "What two runs are meant to differ in, such as model,context (a verdict over an "
                 "undeclared difference of the work is refused)")
      ->delimiter(',');
  auto* const markdown =
      app.add_flag("--markdown", flags.markdown, "A Markdown table, for a pull request");
  app.add_option("--html", flags.html_file, "Write the comparison as a page for a browser as well");
  AddCommonFlags(app, flags);
  markdown->excludes("--json");
  app.footer(
      "Example:\n"
      "  rouse compare '3:page cache cold' '3:process new' --expect increase --margin 100ms\n"
      "  rouse compare 12 11 --differs model --markdown\n");
  if (const auto status = ParseArguments(app, argc, argv)) return *status;
  if (!expect.empty()) spec.expect = stats::ExpectFromName(expect);
  if (const Status checked = report::CheckSpec(spec); !checked.ok()) return Fail(checked.error());
  if (!flags.html_file.empty()) {
    if (const Status page = report::CheckPage(); !page.ok()) return Fail(page.error());
  }
  if (!spec.expect && !spec.margin.empty()) {
    Progress(flags).Line("without --expect there is no verdict, and --margin is not used");
  }
  return CompareStored(treatment, control, database, spec, flags);
}

}  // namespace rouse::cli
