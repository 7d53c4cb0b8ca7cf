#include "report/comparison.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/strings.h"
#include "base/units.h"
#include "report/differences.h"
#include "report/words.h"

namespace rouse::report {
namespace {

using results::Metric;
using stats::Estimate;
using stats::Interval;
using stats::Shift;
using stats::Verdict;

constexpr std::array<std::string_view, 4> kStatistics = {"median", "p90", "p95", "mean"};

// ---- the specification ----

Result<const Metric*> MetricOfSpec(const ComparisonSpec& spec) {
  const Metric* const metric = results::FindMetric(spec.metric);
  if (metric != nullptr) return metric;
  const std::string nearest = NearestName(spec.metric, results::MetricNames());
  return Error(ErrorCode::kUsage, "there is no metric \"" + spec.metric + "\"" +
                                      (nearest.empty() ? "" : "; did you mean " + nearest + "?"));
}

Estimate StatisticOf(const stats::SampleSummary& summary, const std::string& statistic) {
  if (statistic == "p90") return summary.p90.value;
  if (statistic == "p95") return summary.p95.value;
  if (statistic == "mean") return summary.mean;
  return summary.median.value;
}

// ---- the numbers ----

double LevelOf(const std::string& statistic) { return statistic == "p90" ? 0.9 : 0.95; }

Shift ShiftOf(const Pairs& pairs, const ComparisonSpec& spec, double confidence) {
  const auto& [paired, why_not, t, c, only_t, only_c] = pairs;
  if (spec.statistic == "mean") return stats::MeanShift(t, c, paired, confidence, spec.bootstrap);
  if (spec.statistic != "median") {
    return stats::QuantileShift(t, c, LevelOf(spec.statistic), paired, confidence, spec.bootstrap);
  }
  return paired ? stats::PairedShift(t, c, confidence) : stats::TwoSampleShift(t, c, confidence);
}

Shift RatioOf(const Pairs& pairs, const ComparisonSpec& spec, double confidence) {
  const auto& [paired, why_not, t, c, only_t, only_c] = pairs;
  if (spec.statistic == "mean") return stats::MeanRatio(t, c, paired, confidence, spec.bootstrap);
  if (spec.statistic != "median") {
    return stats::QuantileRatio(t, c, LevelOf(spec.statistic), paired, confidence, spec.bootstrap);
  }
  return paired ? stats::PairedRatio(t, c, confidence) : stats::TwoSampleRatio(t, c, confidence);
}

struct Measured {
  ConditionAttempts attempts;
  MetricSample sample;
};

Result<Measured> Measure(const Side& side, const Metric& metric) {
  const std::vector<ConditionAttempts> conditions = ByCondition(*side.run, side.attempts);
  std::vector<std::string_view> names;
  names.reserve(conditions.size());
  const ConditionAttempts* found = nullptr;
  for (const ConditionAttempts& condition : conditions) {
    names.push_back(condition.name);
    if (condition.name == side.condition) found = &condition;
  }
  const std::string run = "run " + std::to_string(side.run->id.value_or(0));
  if (found == nullptr) {
    std::string message = run + " has no condition \"" + side.condition + "\"; it has ";
    for (size_t index = 0; index < names.size(); ++index) {
      message += (index > 0 ? ", \"" : "\"") + std::string(names[index]) + "\"";
    }
    return Error(ErrorCode::kUsage, names.empty() ? run + " has no conditions" : message);
  }
  Measured measured{*found, SampleOf(*found, metric)};
  if (measured.sample.counted == 0) {
    return Error(ErrorCode::kState,
                 run + " holds no attempt of \"" + side.condition + "\" that counts" +
                     (found->attempts.empty() ? "" : " (" + OutcomeWords(*found) + ")"));
  }
  if (measured.sample.values.empty()) {
    return Error(ErrorCode::kState, "no attempt of \"" + side.condition + "\" in " + run +
                                        " has a " + std::string(metric.name));
  }
  return measured;
}

SideSummary SummaryOf(const Side& side, const Measured& measured, double confidence) {
  return {side.run->id.value_or(0), side.condition, CountOutcomes(measured.attempts),
          stats::Summarize(measured.sample.sample, confidence), measured.sample.not_measured};
}

// ---- the verdict ----

// Sets the margin in the metric's unit, or says in `reason` why there is none.
void FillMargin(const results::Margin& margin, Comparison& comparison) {
  if (!margin.relative) {
    comparison.margin = margin.value;
    return;
  }
  const Estimate base = StatisticOf(comparison.control.summary, comparison.spec.statistic);
  const std::string share =
      comparison.spec.margin + " of the control's " + comparison.spec.statistic + " is not known: ";
  if (base.kind == Estimate::Kind::kNone) {
    comparison.reason = share + base.reason;
  } else if (base.kind == Estimate::Kind::kAtLeast) {
    comparison.reason = share + "it falls among failures";
  } else if (base.value <= 0) {
    comparison.reason = share + "it is not above 0";
  } else {
    comparison.margin = margin.value * base.value;
  }
}

void ApplyGuards(Comparison& comparison) {
  if (comparison.verdict != Verdict::kAdopt) return;
  for (const GuardResult& guard : comparison.guards) {
    if (guard.held.has_value() && !*guard.held) {
      comparison.verdict = Verdict::kReject;
      comparison.reason += "; but the guard " + guard.guard.text + " failed (it is " +
                           PlainNumber(*guard.value) + ")";
      return;
    }
  }
  for (const GuardResult& guard : comparison.guards) {
    if (guard.held.has_value()) continue;
    comparison.verdict = Verdict::kUndecided;
    comparison.reason +=
        "; but the guard " + guard.guard.text + " could not be judged: " + guard.reason;
    return;
  }
}

void Decide(Comparison& comparison, const std::optional<Interval>& interval) {
  if (!comparison.margin) {
    comparison.verdict = Verdict::kUndecided;
    comparison.would_change = "A margin as a value instead of a percentage.";
    return;
  }
  comparison.verdict = stats::Judge(*comparison.spec.expect, *comparison.margin, interval);
  comparison.reason = ReasonOf(comparison, interval);
  comparison.would_change = WouldChange(comparison, interval);
  ApplyGuards(comparison);
}

// ---- what a reader should know ----

void WarnAboutStates(const Side& treatment, const Side& control, Comparison& comparison) {
  const auto row_of = [](const Side& side) -> const results::ConditionRow* {
    for (const results::ConditionRow& row : side.run->conditions) {
      if (row.name == side.condition) return &row;
    }
    return nullptr;
  };
  const results::ConditionRow* const t = row_of(treatment);
  const results::ConditionRow* const c = row_of(control);
  if (t == nullptr || c == nullptr) return;
  std::vector<std::string> changed;
  std::map<std::string, std::string> layers = t->state;
  layers.insert(c->state.begin(), c->state.end());
  for (const auto& [layer, value] : layers) {
    const auto in_t = t->state.find(layer);
    const auto in_c = c->state.find(layer);
    const bool both = in_t != t->state.end() && in_c != c->state.end();
    if (both && in_t->second == in_c->second) continue;
    if (!t->state.empty() && !c->state.empty()) changed.push_back(layer);
  }
  if (t->idle_ns.value_or(0) != c->idle_ns.value_or(0)) changed.emplace_back("idle");
  if (changed.size() < 2) return;
  std::string list;
  for (const std::string& layer : changed) list += (list.empty() ? "" : ", ") + layer;
  comparison.warnings.push_back(
      {"several_layers_differ", "the two sides differ in " + std::to_string(changed.size()) +
                                    " layers (" + list + "): the shift is their sum"});
}

void WarnAboutAttempts(Comparison& comparison) {
  for (const SideSummary* const side : {&comparison.treatment, &comparison.control}) {
    int64_t uncounted = 0;
    for (const auto& [outcome, count] : side->outcomes) {
      if (!results::CountsInSample(outcome)) uncounted += count;
    }
    if (uncounted > 0) {
      comparison.warnings.push_back(
          {"attempts_not_counted", std::to_string(uncounted) + " of \"" + side->condition +
                                       "\" never reached their state or were interrupted"});
    }
    if (side->not_measured > 0) {
      comparison.warnings.push_back(
          {"metric_not_measured", std::to_string(side->not_measured) + " of \"" + side->condition +
                                      "\" succeeded without a " +
                                      std::string(comparison.metric->name)});
    }
  }
}

bool IsDeclared(const ComparisonSpec& spec, const std::string& what) {
  // A model is one thing, however it is recorded; so is a prompt.
  const auto names = [&](const std::string& name) {
    return std::find(spec.differs.begin(), spec.differs.end(), name) != spec.differs.end();
  };
  if (names(what)) return true;
  if (what.starts_with("model_") && names("model")) return true;
  return what == "prompt_tokens" && names("prompt");
}

// Warns of what differs, and refuses a verdict over what makes the two sides different work.
Status NoteDifferences(const DifferenceSide& treatment, const DifferenceSide& control,
                       Comparison& comparison) {
  std::string refused;
  std::string names;
  for (const Difference& difference : FindDifferences(treatment, control)) {
    if (IsDeclared(comparison.spec, difference.what)) continue;
    const bool day = difference.what == "day";
    comparison.warnings.push_back(
        {day ? "different_days" : "environment_differs", difference.sentence});
    if (!difference.decisive || !comparison.spec.expect) continue;
    refused += "\n" + difference.sentence;
    names += (names.empty() ? "" : ",") + difference.what;
  }
  if (refused.empty()) return {};
  return Error(ErrorCode::kUsage,
               "no verdict: run " + std::to_string(treatment.run->id.value_or(0)) + " and run " +
                   std::to_string(control.run->id.value_or(0)) +
                   " were asked for different work, which the comparison does not declare:" +
                   refused + "\nIf that is what is to be compared, say so: --differs " + names +
                   ". Without --expect both sides are shown all the same.");
}

struct Prepared {
  Comparison comparison;
  Pairs pairs;
  results::Margin margin;
};

Result<Prepared> Prepare(const Side& treatment, const Side& control, const ComparisonSpec& spec) {
  RETURN_IF_ERROR(CheckSpec(spec));
  ASSIGN_OR_RETURN(const Metric* const metric, MetricOfSpec(spec));
  const bool same_run = treatment.run->id == control.run->id;
  if (same_run && treatment.condition == control.condition) {
    return Error(ErrorCode::kUsage, "\"" + treatment.condition + "\" is compared with itself");
  }
  Prepared prepared;
  if (spec.expect) {
    ASSIGN_OR_RETURN(prepared.margin, results::ParseMargin(spec.margin, *metric));
  }
  ASSIGN_OR_RETURN(const Measured t, Measure(treatment, *metric));
  ASSIGN_OR_RETURN(const Measured c, Measure(control, *metric));
  Comparison& comparison = prepared.comparison;
  comparison.name = treatment.condition;
  comparison.spec = spec;
  comparison.metric = metric;
  comparison.treatment = SummaryOf(treatment, t, spec.confidence);
  comparison.control = SummaryOf(control, c, spec.confidence);
  prepared.pairs = PairUp(t.sample, c.sample, same_run);
  comparison.why_unpaired = prepared.pairs.why_not;
  comparison.only_treatment = prepared.pairs.only_treatment;
  comparison.only_control = prepared.pairs.only_control;
  for (const std::string& text : spec.guards) {
    ASSIGN_OR_RETURN(const Guard guard, results::ParseGuard(text));
    comparison.guards.push_back(JudgeGuard(guard, t.attempts));
  }
  if (!same_run) {
    RETURN_IF_ERROR(NoteDifferences({treatment.run, t.attempts.attempts},
                                    {control.run, c.attempts.attempts}, comparison));
  }
  WarnAboutStates(treatment, control, comparison);
  WarnAboutAttempts(comparison);
  return prepared;
}

// Shift, ratio and verdict at a confidence that may be stricter than the declared one (Holm).
void JudgeAt(Prepared& prepared, double confidence) {
  Comparison& comparison = prepared.comparison;
  comparison.reason.clear();
  comparison.would_change.clear();
  const double level = comparison.spec.expect
                           ? stats::IntervalConfidence(*comparison.spec.expect, confidence)
                           : confidence;
  comparison.shift = ShiftOf(prepared.pairs, comparison.spec, level);
  comparison.ratio = RatioOf(prepared.pairs, comparison.spec, level);
  if (!comparison.spec.expect) return;
  FillMargin(prepared.margin, comparison);
  Decide(comparison, comparison.shift.ci);
}

}  // namespace

Status CheckSpec(const ComparisonSpec& spec) {
  ASSIGN_OR_RETURN(const Metric* const metric, MetricOfSpec(spec));
  if (std::find(kStatistics.begin(), kStatistics.end(), spec.statistic) == kStatistics.end()) {
    return Error(ErrorCode::kUsage,
                 "there is no statistic \"" + spec.statistic + "\"; use median, p90, p95 or mean");
  }
  // Below one half an interval would not even hold the estimate; TOST needs 1 - 2 alpha above 0.
  if (!(spec.confidence > 0.5 && spec.confidence < 1)) {
    return Error(ErrorCode::kUsage, "the confidence must lie between 0.5 and 1, such as 0.95");
  }
  if (spec.expect && spec.margin.empty()) {
    return Error(ErrorCode::kUsage,
                 "--expect needs --margin, the smallest change worth having (10% or 50ms)");
  }
  if (!spec.margin.empty()) RETURN_IF_ERROR(results::ParseMargin(spec.margin, *metric));
  for (const std::string& guard : spec.guards) RETURN_IF_ERROR(results::ParseGuard(guard));
  return {};
}

Result<Comparison> Compare(const Side& treatment, const Side& control, const ComparisonSpec& spec) {
  ASSIGN_OR_RETURN(Prepared prepared, Prepare(treatment, control, spec));
  JudgeAt(prepared, spec.confidence);
  return std::move(prepared.comparison);
}

Result<std::vector<Comparison>> JudgeHypotheses(const results::Run& run,
                                                std::span<const results::Attempt> attempts) {
  std::vector<Prepared> prepared;
  std::vector<double> confidences;
  for (const results::HypothesisRow& row : run.hypotheses) {
    ComparisonSpec spec;
    spec.metric = row.metric;
    spec.statistic = row.statistic;
    spec.expect = stats::ExpectFromName(row.expect);
    spec.margin = row.margin;
    spec.confidence = row.confidence;
    spec.guards = row.guards;
    Result<Prepared> one =
        Prepare({&run, row.treatment, attempts}, {&run, row.control, attempts}, spec);
    if (!one.ok()) {
      if (one.error().code() == ErrorCode::kUsage) return one.error().WithContext(row.name);
      // Nothing was measured on a side: the hypothesis stays undecided, the others go on.
      Comparison comparison;
      comparison.metric = results::FindMetric(spec.metric);
      comparison.spec = spec;
      comparison.treatment.condition = row.treatment;
      comparison.control.condition = row.control;
      comparison.reason = one.error().message();
      one = Prepared{comparison, {}, {}};
    }
    one->comparison.name = row.name;
    prepared.push_back(*std::move(one));
    confidences.push_back(row.confidence);
  }
  const auto verdict_at = [&prepared](size_t index, double confidence) {
    Prepared& one = prepared[index];
    if (one.pairs.treatment.empty()) return one.comparison.verdict.emplace(Verdict::kUndecided);
    JudgeAt(one, confidence);
    return *one.comparison.verdict;
  };
  stats::HolmVerdicts(confidences, verdict_at);
  std::vector<Comparison> comparisons;
  for (Prepared& one : prepared) comparisons.push_back(std::move(one.comparison));
  return comparisons;
}

}  // namespace rouse::report
