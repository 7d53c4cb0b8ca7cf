#include "report/markdown.h"

#include <cmath>
#include <set>

#include "base/terminal_text.h"
#include "base/units.h"
#include "report/sample.h"
#include "report/terminal_bar.h"
#include "report/terminal_contrast.h"
#include "report/words.h"
#include "stats/summary.h"

namespace rouse::report {
namespace {

using results::Attempt;
using stats::Estimate;

// Foreign text as plain text: what has a meaning in Markdown or HTML is escaped.
std::string Plain(const std::string& text) {
  constexpr std::string_view kMarkup = "\\`*_{}[]()#+!|~@:";
  std::string out;
  for (const char c : SafeText(text)) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      if (kMarkup.find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

std::string Time(const Estimate& estimate) {
  switch (estimate.kind) {
    case Estimate::Kind::kValue:
      return FormatDuration(std::llround(estimate.value));
    case Estimate::Kind::kAtLeast:
      return "≥ " + FormatDuration(std::llround(estimate.value));
    case Estimate::Kind::kNone:
      break;
  }
  return "–";
}

std::string Range(const stats::Quantile& quantile) {
  if (quantile.low.kind == Estimate::Kind::kNone) return "–";
  return Time(quantile.low) + " … " + Time(quantile.high);
}

std::string StageList(const ConditionAttempts& condition) {
  const std::optional<StageMeans> means = MeanStages(condition.attempts);
  if (!means) return "–";
  double total = 0;
  for (const double mean : *means) total += mean;
  std::string out;
  for (size_t i = 0; i < means->size(); ++i) {
    const double share = total > 0 ? (*means)[i] / total : 0;
    if (share < 0.05) continue;
    out += (out.empty() ? "" : ", ") + std::string(StageWords(static_cast<results::Stage>(i))) +
           " " + std::to_string(std::lround(share * 100)) + " %";
  }
  return out;
}

std::string Fact(const results::Run& run, const std::string& name) {
  const auto found = run.environment.find(name);
  return found == run.environment.end() ? "" : found->second;
}

std::string Provenance(const results::Run& run) {
  std::string out =
      "rouse " + Plain(run.rouse_version) + ", run " + std::to_string(run.id.value_or(0));
  if (!run.name.empty()) out += " (" + Plain(run.name) + ")";
  for (const std::string& fact :
       {run.target, run.model, Fact(run, "engine"), Fact(run, "cpu"), Fact(run, "kernel")}) {
    if (!fact.empty()) out += ", " + Plain(fact);
  }
  if (!run.plan_hash.empty()) out += ", plan `" + Plain(run.plan_hash).substr(0, 12) + "`";
  if (run.seed) out += ", seed " + std::to_string(*run.seed);
  return out + ". Failures rank after every success.\n";
}

std::string LadderTable(const std::vector<LadderRow>& rows) {
  if (rows.empty()) return "";
  std::string out = "\n| lost layer | costs | 95 % interval | |\n|---|---:|---|---|\n";
  const auto time = [](double ns) {
    if (!std::isfinite(ns)) return std::string(ns > 0 ? "no bound" : "no bound below");
    return (ns > 0 ? "+" : "") + FormatDuration(std::llround(ns));
  };
  for (const LadderRow& row : rows) {
    out += "| " + Plain(row.name) + " | " + (row.cost ? time(*row.cost) : "–") + " | " +
           (row.ci ? time(row.ci->low) + " … " + time(row.ci->high) : "–") + " | " +
           Plain(row.words) + " |\n";
  }
  return out;
}

std::string Verdict(const Comparison& comparison) {
  if (!comparison.verdict) return "measured";
  return "**" + std::string(stats::VerdictName(*comparison.verdict)) + "**";
}

std::string ShiftCell(const Comparison& comparison) {
  const stats::Shift& shift = comparison.shift;
  if (!shift.value) return "–";
  std::string out = SignedWords(*shift.value, *comparison.metric);
  if (shift.ci) {
    out += " (" + SignedWords(shift.ci->low, *comparison.metric) + " … " +
           SignedWords(shift.ci->high, *comparison.metric) + ")";
  }
  return out;
}

std::string RatioCell(const Comparison& comparison) {
  const stats::Shift& ratio = comparison.ratio;
  if (!ratio.value) return "–";
  std::string out = PercentChange(*ratio.value);
  if (ratio.ci) {
    out += " (" + PercentChange(ratio.ci->low) + " … " + PercentChange(ratio.ci->high) + ")";
  }
  return out;
}

std::string SideCell(const SideSummary& side) {
  return "run " + std::to_string(side.run) + " " + Plain(side.condition) + ", n " +
         std::to_string(side.summary.n);
}

}  // namespace

std::string RunMarkdown(const results::Run& run, std::span<const Attempt> attempts) {
  std::string out =
      "| condition | n | failed | TTFT, median | 95 % interval | p90 | max | spent on |\n"
      "|---|---:|---:|---:|---|---:|---:|---|\n";
  for (const ConditionAttempts& condition : ByCondition(run, attempts)) {
    const MetricSample sample = SampleOf(condition, *results::FindMetric("ttft_ns"));
    const stats::SampleSummary summary = stats::Summarize(sample.sample);
    out += "| " + Plain(condition.name) + " | " + std::to_string(sample.counted) + " | " +
           std::to_string(sample.sample.failures) + " | " + Time(summary.median.value) + " | " +
           Range(summary.median) + " | " + Time(summary.p90.value) + " | " + Time(summary.max) +
           " | " + StageList(condition) + " |\n";
  }
  out += LadderTable(Ladder(run, attempts));
  if (!run.hypotheses.empty()) {
    const Result<std::vector<Comparison>> judged = JudgeHypotheses(run, attempts);
    out += "\n" + (judged.ok() ? ComparisonsMarkdown(*judged)
                               : "No verdict: " + Plain(judged.error().message()) + "\n");
  }
  return out + "\n" + Provenance(run);
}

std::string ComparisonsMarkdown(const std::vector<Comparison>& comparisons) {
  std::string out =
      "| verdict | metric | treatment | control | shift (interval) | ratio (interval) | wanted |\n"
      "|---|---|---|---|---:|---:|---|\n";
  std::set<std::string> notes;
  for (const Comparison& comparison : comparisons) {
    const std::string wanted = comparison.spec.expect
                                   ? std::string(stats::ExpectName(*comparison.spec.expect)) +
                                         " by " + Plain(comparison.spec.margin)
                                   : "–";
    out += "| " + Verdict(comparison) + " | " + Plain(std::string(comparison.metric->name)) + " " +
           comparison.spec.statistic + " | " + SideCell(comparison.treatment) + " | " +
           SideCell(comparison.control) + " | " + ShiftCell(comparison) + " | " +
           RatioCell(comparison) + " | " + wanted + " |\n";
    if (!comparison.reason.empty()) notes.insert(Plain(comparison.reason));
    for (const results::Warning& warning : comparison.warnings) {
      notes.insert(Plain(warning.message));
    }
  }
  if (!notes.empty()) out += "\n";
  for (const std::string& note : notes) out += "- " + note + "\n";
  return out;
}

}  // namespace rouse::report
