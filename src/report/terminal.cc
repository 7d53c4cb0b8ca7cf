// The run's table and what stands below it. The table is terminal_table, the ladder
// terminal_contrast, one attempt terminal_attempt.
#include "report/terminal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/units.h"
#include "report/claim.h"
#include "report/comparison.h"
#include "report/comparison_text.h"
#include "report/kv_summary.h"
#include "report/load_summary.h"
#include "report/prompt_summary.h"
#include "report/run_checks.h"
#include "report/sample.h"
#include "report/terminal_contrast.h"
#include "report/terminal_table.h"
#include "report/tiers.h"
#include "report/verify_text.h"
#include "report/words.h"

namespace rouse::report {
namespace {

using results::Attempt;
using results::Outcome;

constexpr int kColumnsMin = 60;
constexpr int kNameColumns = 40;
constexpr size_t kListedFailures = 5;
constexpr size_t kListedWarnings = 4;
constexpr size_t kNamedLayers = 3;

std::string Item(const std::string& text, int columns) {
  return WrapText(text, {.columns = columns, .indent = 2, .hanging = 4});
}

std::string Paragraph(const std::string& text, int columns) {
  return WrapText(text, {.columns = columns, .indent = 0, .hanging = 0});
}

std::string Fact(const results::Run& run, const std::string& name) {
  const auto found = run.environment.find(name);
  return found == run.environment.end() ? "" : found->second;
}

std::string Header(const results::Run& run, const TerminalOptions& options) {
  const std::string dot = options.unicode ? " \u00b7 " : " - ";
  std::string first = "rouse " + run.rouse_version;
  for (const std::string& fact : {Fact(run, "engine"), Fact(run, "cpu")}) {
    if (!fact.empty()) first += dot + fact;
  }
  std::string out = first == "rouse " ? "" : FitText(first, options.columns) + "\n";
  std::string second = run.target == "builtin" ? "built-in server" : run.target;
  if (!run.model.empty()) second += dot + run.model;
  const std::string bytes = Fact(run, "model_bytes");
  if (const auto count = ParseInt64(bytes)) second += ", " + FormatBytes(*count);
  if (second.empty()) second = run.name;
  if (!second.empty()) out += FitText(second, options.columns) + "\n";
  if (!run.calibration.empty() && run.calibration.front().median_ns) {
    const results::CalibrationRow& row = run.calibration.front();
    out += "Client's own delay " + FormatDuration(*row.median_ns) + " (" +
           (row.p99_ns ? "p99 " + FormatDuration(*row.p99_ns)
                       : "largest " + FormatDuration(row.max_ns.value_or(*row.median_ns))) +
           "), not subtracted\n";
  }
  return out;
}

std::string Quoted(const std::string& name) { return "\"" + FitText(name, kNameColumns) + "\""; }

// "9 ok, 1 timeout" over all conditions.
std::string AllOutcomes(std::span<const ConditionAttempts> conditions) {
  std::map<Outcome, int64_t> all;
  for (const ConditionAttempts& condition : conditions) {
    for (const auto& [outcome, count] : CountOutcomes(condition)) all[outcome] += count;
  }
  return OutcomeWords(all);
}

std::string Verdicts(const std::vector<Comparison>& judged) {
  std::map<std::string_view, int64_t> counts;
  for (const Comparison& comparison : judged) {
    if (comparison.verdict) ++counts[stats::VerdictName(*comparison.verdict)];
  }
  std::string text;
  for (const auto& [name, count] : counts) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + std::string(name);
  }
  return text;
}

// What a layer that is gone costs, the dearest first; only what is sure.
std::string SureCosts(const std::vector<LadderRow>& ladder) {
  std::vector<const LadderRow*> sure;
  const LadderRow* gain = nullptr;
  bool any_interval = false;
  for (const LadderRow& row : ladder) {
    any_interval = any_interval || row.ci.has_value();
    if (row.lost_layer && row.sure() && *row.cost > 0) sure.push_back(&row);
    // A change for the better is an answer too: another path, another setting.
    if (!row.sure() || *row.cost >= 0) continue;
    if (gain == nullptr || *row.cost < *gain->cost) gain = &row;
  }
  std::string gained;
  if (gain != nullptr) {
    gained = " Surely faster: " + Quoted(gain->name) + " by " +
             FormatDuration(-std::llround(*gain->cost)) + ".";
  }
  const bool layers = std::any_of(ladder.begin(), ladder.end(),
                                  [](const LadderRow& row) { return row.lost_layer; });
  if (sure.empty()) {
    if (!gained.empty()) return gained;
    return layers && any_interval
               ? " No lost layer has a cost that is sure with this many attempts."
               : "";
  }
  std::stable_sort(sure.begin(), sure.end(),
                   [](const LadderRow* a, const LadderRow* b) { return *a->cost > *b->cost; });
  std::string text = " Sure costs: ";
  for (size_t i = 0; i < std::min(sure.size(), kNamedLayers); ++i) {
    text += (i == 0 ? "" : ", ") + FitText(sure[i]->name, kNameColumns) + " +" +
            FormatDuration(std::llround(*sure[i]->cost));
  }
  return text + (sure.size() > kNamedLayers ? ", and more." : ".") + gained;
}

// The answer in one or two sentences.
std::string Answer(const results::Run& run, const ConditionTable& table,
                   std::span<const ConditionAttempts> conditions,
                   const std::vector<LadderRow>& ladder) {
  const ConditionTable::Row* root = nullptr;
  const ConditionTable::Row* slowest = nullptr;
  for (const ConditionTable::Row& row : table.rows()) {
    const std::optional<double> median = row.summary.median.value.Value();
    if (!median) continue;
    const auto declared =
        std::find_if(run.conditions.begin(), run.conditions.end(),
                     [&](const results::ConditionRow& each) { return each.name == row.name; });
    const bool is_root = declared == run.conditions.end() || declared->base.empty();
    if (root == nullptr && is_root) root = &row;
    if (slowest == nullptr || *median > *slowest->summary.median.value.Value()) slowest = &row;
  }
  if (slowest == nullptr) {
    const std::string outcomes = AllOutcomes(conditions);
    return outcomes.empty() ? "No attempt was made yet."
                            : "No typical first token: " + outcomes + ".";
  }
  const auto time = [](const ConditionTable::Row& row) {
    return FormatDuration(std::llround(*row.summary.median.value.Value()));
  };
  if (root == nullptr) root = slowest;
  std::string text = "First token after " + time(*root) + " (median of " + std::to_string(root->n) +
                     ") for " + Quoted(root->name);
  if (slowest != root) {
    const double times =
        *slowest->summary.median.value.Value() / *root->summary.median.value.Value();
    char factor[32];
    std::snprintf(factor, sizeof factor, times < 10 ? "%.2f" : "%.0f", times);
    text += ", " + time(*slowest) + " for " + Quoted(slowest->name);
    if (std::isfinite(times)) text += ": " + std::string(factor) + " times as long";
  }
  return text + "." + SureCosts(ladder);
}

std::string Counted(int64_t count, int64_t total) {
  return std::to_string(count) + " of " + std::to_string(total);
}

// Whether any layer was read back before the request as reached (or as not).
bool AnyReading(const Attempt& attempt, bool reached) {
  for (const results::LayerReadings* const readings :
       {&attempt.state_before, &attempt.state_at_send}) {
    for (const auto& [layer, reading] : *readings) {
      if (reading.reached == reached) return true;
    }
  }
  return false;
}

// "Every state was read back before the request: 30 of 30 reached. Stages add up ..."
std::string Proofs(std::span<const Attempt> attempts, int columns) {
  int64_t total = 0;
  int64_t reached = 0;
  int64_t unproved = 0;
  int64_t with_token = 0;
  int64_t closed = 0;
  for (const Attempt& attempt : attempts) {
    if (attempt.prime || attempt.outcome == Outcome::kInterrupted) continue;
    ++total;
    const bool lost = attempt.outcome == Outcome::kStateNotReached || AnyReading(attempt, false);
    const bool known = AnyReading(attempt, true);
    if (!lost && known) ++reached;
    if (!lost && !known) ++unproved;
    const bool staged =
        std::any_of(attempt.stages.begin(), attempt.stages.end(),
                    [](const results::StageTime& stage) { return stage.ns.has_value(); });
    if (!attempt.ttft_ns || !staged) continue;
    ++with_token;
    int64_t sum = 0;
    for (const results::StageTime& stage : attempt.stages) sum += stage.ns.value_or(0);
    if (sum == *attempt.ttft_ns) ++closed;
  }
  if (total == 0) return "";
  std::string text = reached == total ? "Every state was read back before the request: "
                                      : "States read back before the request: ";
  text += Counted(reached, total) + " reached.";
  if (unproved > 0) text += " " + std::to_string(unproved) + " had no state that could be read.";
  if (with_token > 0) text += " Stages add up to TTFT in " + Counted(closed, with_token) + ".";
  return Paragraph(text, columns);
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

// "block 3", "blocks 0-2, 5 (4x)"; nothing for attempts that have none.
std::string BlockWords(std::span<const int64_t> blocks) {
  std::string list;
  for (size_t first = 0; first < blocks.size();) {
    size_t last = first;
    while (last + 1 < blocks.size() && blocks[last + 1] == blocks[last] + 1) ++last;
    list += (list.empty() ? "" : ", ") + std::to_string(blocks[first]);
    if (last > first) list += "-" + std::to_string(blocks[last]);
    first = last + 1;
  }
  if (blocks.empty()) return "";
  return blocks.size() == 1 ? ", block " + list : ", blocks " + list;
}

// Attempts that ended in the same way, in the order in which each way was met first.
struct FailureKind {
  std::string before;  // "timeout, warm"
  std::string detail;
  int64_t count = 0;
  std::vector<int64_t> blocks;
};

std::vector<FailureKind> FailureKinds(std::span<const Attempt> attempts) {
  std::vector<FailureKind> kinds;
  std::map<std::pair<std::string, std::string>, size_t> places;
  for (const Attempt& attempt : attempts) {
    if (attempt.outcome == Outcome::kOk || attempt.prime) continue;
    std::string before(results::OutcomeName(attempt.outcome));
    before += ", " + FitText(attempt.condition, kNameColumns);
    std::string detail = FirstLine(attempt.outcome_detail);
    const auto [place, added] = places.try_emplace({before, detail}, kinds.size());
    if (added) kinds.push_back({std::move(before), std::move(detail), 0, {}});
    FailureKind& kind = kinds[place->second];
    ++kind.count;
    if (attempt.block) kind.blocks.push_back(*attempt.block);
  }
  return kinds;
}

std::string Failures(std::span<const Attempt> attempts, int columns) {
  std::string out;
  int64_t count = 0;
  int64_t listed = 0;
  const std::vector<FailureKind> kinds = FailureKinds(attempts);
  for (size_t i = 0; i < kinds.size(); ++i) {
    const FailureKind& kind = kinds[i];
    count += kind.count;
    if (i >= kListedFailures) continue;
    listed += kind.count;
    std::string line = kind.before + BlockWords(kind.blocks);
    if (kind.count > 1) line += " (" + std::to_string(kind.count) + "x)";
    if (!kind.detail.empty()) line += ": " + kind.detail;
    out += Item(line, columns);
  }
  if (count == 0) return "";
  if (count > listed) out += "  and " + std::to_string(count - listed) + " more\n";
  return "\nNot ok, and kept (" + std::to_string(count) + "):\n" + out;
}

std::string Warnings(const results::Run& run, std::span<const Attempt> attempts, int columns) {
  std::map<std::string, std::pair<int64_t, std::string>> by_code;
  for (const results::Warning& warning : RunWarnings(run, attempts)) {
    auto& [count, message] = by_code[warning.code];
    if (count++ == 0) message = warning.message;
  }
  for (const Attempt& attempt : attempts) {
    if (attempt.prime) continue;
    for (const results::Warning& warning : attempt.warnings) {
      auto& [count, message] = by_code[warning.code];
      if (count++ == 0) message = warning.message;
    }
  }
  std::string out;
  size_t listed = 0;
  for (const auto& [code, entry] : by_code) {
    if (++listed > kListedWarnings) continue;
    out +=
        Item(code + " (" + std::to_string(entry.first) + "x): " + FirstLine(entry.second), columns);
  }
  if (listed == 0) return "";
  if (listed > kListedWarnings) {
    out += "  and " + std::to_string(listed - kListedWarnings) + " other kinds\n";
  }
  return "\nWarnings:\n" + out;
}

std::string Hypotheses(const Result<std::vector<Comparison>>& judged,
                       const TerminalOptions& options) {
  std::string out = "\nHypotheses\n";
  if (!judged.ok()) return out + Item("no verdict: " + judged.error().message(), options.columns);
  for (const Comparison& comparison : *judged) out += ComparisonText(comparison, options);
  return out;
}

// The attempt that is worth a look by itself: the slowest of all that got a token.
std::optional<int64_t> SlowestId(std::span<const Attempt> attempts) {
  const Attempt* slowest = nullptr;
  for (const Attempt& attempt : attempts) {
    if (attempt.prime || !attempt.ttft_ns || !attempt.id) continue;
    if (slowest == nullptr || *attempt.ttft_ns > *slowest->ttft_ns) slowest = &attempt;
  }
  return slowest == nullptr ? std::nullopt : slowest->id;
}

std::string Next(const results::Run& run, std::span<const Attempt> attempts,
                 const TerminalOptions& options) {
  if (!run.id) return "";
  const std::string id = std::to_string(*run.id);
  std::string out = "\nSaved as run " + id;
  const std::string end = attempts.empty() ? "." : ". Next:";
  if (!options.database.empty()) {
    const int left = options.columns - DisplayColumns(out + " in " + end) + 1;  // 1: the line break
    out += " in " + FitText(options.database, left);
  }
  out += end + "\n";
  const std::string flag =
      options.database_flag.empty() ? "" : " --db " + ShellQuoted(options.database_flag);
  std::vector<std::pair<std::string, std::string>> steps;
  if (!attempts.empty()) {
    steps.emplace_back("rouse explain " + id + flag, "the causes, and what was ruled out");
  }
  if (const std::optional<int64_t> slowest = SlowestId(attempts)) {
    steps.emplace_back("rouse report " + id + "#" + std::to_string(*slowest) + flag,
                       "its slowest attempt, lane by lane");
  }
  const bool idled = std::any_of(run.conditions.begin(), run.conditions.end(),
                                 [](const auto& row) { return row.idle_ns.value_or(0) > 0; });
  if (!attempts.empty() && run.kind == "measure" && run.target == "builtin" && !idled) {
    steps.emplace_back("rouse measure --preset idle" + flag, "what idling loses (overnight)");
  }
  return out + StepLines(steps, options.columns);
}

}  // namespace

std::string RenderRun(const results::Run& run, std::span<const Attempt> attempts,
                      const TerminalOptions& given) {
  TerminalOptions options = given;
  options.columns = std::max(options.columns, kColumnsMin);
  const std::vector<ConditionAttempts> conditions = ByCondition(run, attempts);
  const std::vector<LadderRow> ladder = Ladder(run, attempts);
  const Result<std::vector<Comparison>> judged = JudgeHypotheses(run, attempts);
  ConditionTable table(conditions, options);
  std::string answer = Answer(run, table, conditions, ladder);
  if (judged.ok() && !judged->empty()) answer += " Hypotheses: " + Verdicts(*judged) + ".";
  answer = Paragraph(answer, options.columns);
  answer.pop_back();
  std::string out = Header(run, options);
  out += options.color ? "\n\x1b[1m" + answer + "\x1b[0m\n" : "\n" + answer + "\n";
  out += "\nTime to first token (TTFT), and what it was spent on\n" + table.Render();
  if (table.smallest_n() > 0 && table.smallest_n() < stats::SmallestNTwoSided(0.5, 0.95)) {
    out += Item("A 95 % interval of the median needs " +
                    std::to_string(stats::SmallestNTwoSided(0.5, 0.95)) + " attempts.",
                options.columns);
  }
  out += LadderText(ladder, options);
  if (const auto prompts = SummarizePrompts(run, attempts)) out += PromptText(*prompts, options);
  if (const auto kv = SummarizeKv(run, attempts)) out += KvText(*kv, options);
  if (const auto loads = SummarizeLoads(run, attempts)) out += LoadText(*loads, options);
  if (const std::string order = options.details ? table.RenderOrder() : ""; !order.empty()) {
    out += "\nEach attempt in the order of the run (x: failed), " + std::string(table.unit().name) +
           "\n" + order;
  }
  if (!run.hypotheses.empty()) out += Hypotheses(judged, options);
  out += RenderClaim(run, attempts, options.columns);
  out += RenderVerification(run.verification, options);
  out += RenderTiers(run, attempts, options.columns);
  out += Failures(attempts, options.columns);
  out += Warnings(run, attempts, options.columns);
  const std::string proofs = Proofs(attempts, options.columns);
  if (!proofs.empty()) out += "\n" + proofs;
  if (run.status != "complete") out += "This run is " + FitText(run.status, 20) + ".\n";
  return out + Next(run, attempts, options);
}

}  // namespace rouse::report
