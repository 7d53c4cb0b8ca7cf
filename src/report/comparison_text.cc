#include "report/comparison_text.h"

#include <algorithm>
#include <cmath>

#include "report/terminal.h"
#include "report/words.h"

namespace rouse::report {
namespace {

using stats::Estimate;
using stats::Verdict;

constexpr int kColumnsMin = 60;

// Names come from plans and imports: no control characters of theirs reach a terminal.
std::string SafeName(const std::string& name) { return FitText(name, 40); }

std::string Item(const std::string& text, int columns) {
  return WrapText(text, {.columns = columns, .indent = 2, .hanging = 2});
}

std::string Headline(const Comparison& comparison, bool color) {
  if (!comparison.verdict) return "MEASURED";
  std::string word;
  std::string code;
  switch (*comparison.verdict) {
    case Verdict::kAdopt:
      word = "ADOPT";
      code = "32";
      break;
    case Verdict::kReject:
      word = "REJECT";
      code = "31";
      break;
    case Verdict::kUndecided:
      word = "UNDECIDED";
      code = "33";
      break;
  }
  return color ? "\x1b[1;" + code + "m" + word + "\x1b[0m" : word;
}

std::string Percent(double share) {
  std::string text = PlainNumber(std::round(share * 1000) / 10);
  return text + " %";
}

// "-12.1 ms (95 % interval -20.0 ms ... +1.2 ms), -6.2 % (-14.1 % ... +1.9 %)"
std::string ShiftWords(const Comparison& comparison) {
  const stats::Shift& shift = comparison.shift;
  if (!shift.value) return "no shift: " + shift.reason;
  std::string text = SignedWords(*shift.value, *comparison.metric);
  if (shift.ci) {
    text += " (" + Percent(shift.confidence) + " interval " +
            SignedWords(shift.ci->low, *comparison.metric) + " ... " +
            SignedWords(shift.ci->high, *comparison.metric) + ")";
  } else {
    text += " (no interval: " + shift.reason + ")";
  }
  if (comparison.ratio.value) {
    text += ", " + PercentChange(*comparison.ratio.value);
    if (comparison.ratio.ci) {
      text += " (" + PercentChange(comparison.ratio.ci->low) + " ... " +
              PercentChange(comparison.ratio.ci->high) + ")";
    }
  }
  return text;
}

std::string EstimateWords(const Estimate& estimate, const results::Metric& metric) {
  switch (estimate.kind) {
    case Estimate::Kind::kValue:
      return MetricWords(estimate.value, metric);
    case Estimate::Kind::kAtLeast:
      return "at least " + MetricWords(estimate.value, metric);
    case Estimate::Kind::kNone:
      break;
  }
  return "not known (" + estimate.reason + ")";
}

const Estimate& StatisticOf(const stats::SampleSummary& summary, const std::string& statistic) {
  if (statistic == "p90") return summary.p90.value;
  if (statistic == "p95") return summary.p95.value;
  if (statistic == "mean") return summary.mean;
  return summary.median.value;
}

std::string SideLine(const SideSummary& side, const Comparison& comparison) {
  return SafeName(side.condition) + " (run " + std::to_string(side.run) +
         "): " + comparison.spec.statistic + " " +
         EstimateWords(StatisticOf(side.summary, comparison.spec.statistic), *comparison.metric) +
         ", max " + EstimateWords(side.summary.max, *comparison.metric) + ", " +
         OutcomeWords(side.outcomes);
}

std::string Wanted(const Comparison& comparison) {
  if (!comparison.spec.expect) return "";
  switch (*comparison.spec.expect) {
    case stats::Expect::kDecrease:
      return ", wanted: at least -" + comparison.spec.margin;
    case stats::Expect::kIncrease:
      return ", wanted: at least +" + comparison.spec.margin;
    case stats::Expect::kEqual:
      return ", wanted: within +-" + comparison.spec.margin;
  }
  return "";
}

std::string BlocksWords(const std::vector<int64_t>& blocks, const std::string& side) {
  if (blocks.empty()) return "";
  std::string list;
  for (size_t index = 0; index < blocks.size() && index < 12; ++index) {
    list += (index > 0 ? ", " : "") + std::to_string(blocks[index]);
  }
  if (blocks.size() > 12) list += ", ...";
  return "Without a partner, in the " + side + " only: block " + list;
}

}  // namespace

std::string ComparisonText(const Comparison& comparison, const TerminalOptions& options) {
  const int columns = std::max(options.columns, kColumnsMin);
  const auto item = [columns](const std::string& text) {
    return text.empty() ? "" : Item(text, columns);
  };
  constexpr int kRole = 13;
  const auto side = [&](const std::string& role, const SideSummary& of) {
    return "  " + PadRight(role, kRole - 2) +
           WrapText(SideLine(of, comparison),
                    {.columns = columns, .indent = kRole, .hanging = kRole})
               .substr(kRole);
  };
  const stats::Shift& shift = comparison.shift;
  std::string text = Headline(comparison, options.color) + "  ";
  std::string what =
      std::string(comparison.metric->name) + " " + comparison.spec.statistic + Wanted(comparison);
  const bool named = !comparison.name.empty() && comparison.name != comparison.treatment.condition;
  if (named) what = SafeName(comparison.name) + ": " + what;
  const int used = DisplayColumns(text);
  text += WrapText(what, {.columns = columns, .indent = used, .hanging = 2})
              .substr(static_cast<size_t>(used));
  text += item(ShiftWords(comparison));
  text += side("treatment", comparison.treatment);
  text += side("control", comparison.control);
  std::string basis;
  if (shift.paired) {
    basis = std::to_string(shift.n_treatment) + " pairs by block";
  } else {
    basis = std::to_string(shift.n_treatment) + " against " + std::to_string(shift.n_control) +
            " attempts, unpaired";
    if (!comparison.why_unpaired.empty()) basis += " (" + comparison.why_unpaired + ")";
  }
  if (!shift.method.empty()) basis += "; " + shift.method;
  text += item(basis);
  text += item(BlocksWords(comparison.only_treatment, "treatment"));
  text += item(BlocksWords(comparison.only_control, "control"));
  if (!comparison.reason.empty()) text += item("Why: " + comparison.reason + ".");
  for (const GuardResult& guard : comparison.guards) {
    const std::string state = !guard.held   ? "not measured (" + guard.reason + ")"
                              : *guard.held ? "held"
                                            : "FAILED";
    text += item("Guard " + SafeName(guard.guard.text) + ": " + state +
                 (guard.value ? ", it is " + PlainNumber(*guard.value) : ""));
  }
  text += item(comparison.would_change);
  for (const results::Warning& warning : comparison.warnings) {
    text += item("Note: " + FitText(warning.message, 200));
  }
  return text;
}

}  // namespace rouse::report
