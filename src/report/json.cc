#include "report/json.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/time.h"
#include "report/claim.h"
#include "report/kv_summary.h"
#include "report/load_summary.h"
#include "report/prompt_summary.h"
#include "report/run_checks.h"
#include "report/tiers.h"
#include "report/verify_text.h"
#include "results/json.h"
#include "results/metrics.h"
#include "stats/sequence.h"
#include "stats/summary.h"

namespace rouse::report {
namespace {

using Json = nlohmann::ordered_json;
using results::Metric;
using results::Run;
using stats::Estimate;

// Whole numbers as such: 124500000, not 124500000.0. What is not finite has no JSON: null.
Json Number(double value) {
  if (!std::isfinite(value)) return {};
  if (std::floor(value) == value && std::abs(value) < 9e15) return static_cast<int64_t>(value);
  return value;
}

Json Number(const std::optional<double>& value) { return value ? Number(*value) : Json(); }

Json EstimateJson(const Estimate& estimate) {
  switch (estimate.kind) {
    case Estimate::Kind::kValue:
      return Number(estimate.value);
    case Estimate::Kind::kAtLeast:
      return {{"at_least", Number(estimate.value)}};
    case Estimate::Kind::kNone:
      break;
  }
  return {};
}

void Put(Json& out, Json& reasons, const std::string& name, const Estimate& estimate) {
  out[name] = EstimateJson(estimate);
  if (estimate.kind == Estimate::Kind::kNone) reasons[name] = estimate.reason;
}

void PutQuantile(Json& out, Json& reasons, const std::string& name,
                 const stats::Quantile& quantile) {
  Put(out, reasons, name, quantile.value);
  if (quantile.low.kind == Estimate::Kind::kNone) {
    out[name + "_ci"] = Json();
    reasons[name + "_ci"] = quantile.low.reason;
  } else {
    out[name + "_ci"] = {EstimateJson(quantile.low), EstimateJson(quantile.high)};
  }
  Put(out, reasons, name + "_upper", quantile.upper);
}

// Adds a summary's members to `out`.
void PutSummary(Json& out, const stats::SampleSummary& summary) {
  Json reasons = Json::object();
  out["n"] = summary.n;
  out["censored"] = summary.censored;
  out["confidence"] = summary.confidence;
  PutQuantile(out, reasons, "median", summary.median);
  PutQuantile(out, reasons, "p90", summary.p90);
  PutQuantile(out, reasons, "p95", summary.p95);
  PutQuantile(out, reasons, "p99", summary.p99);
  Put(out, reasons, "min", summary.min);
  Put(out, reasons, "max", summary.max);
  Put(out, reasons, "mean", summary.mean);
  Put(out, reasons, "standard_deviation", summary.standard_deviation);
  out["null_reasons"] = std::move(reasons);
}

// A condition's summary of one metric, with the figure for successes only as a second one.
Json MetricJson(const ConditionAttempts& condition, const Metric& metric) {
  const MetricSample sample = SampleOf(condition, metric);
  Json out = Json::object();
  PutSummary(out, stats::Summarize(sample.sample));
  out["not_measured"] = sample.not_measured;
  if (sample.sample.failures > 0) {
    Json successes = Json::object();
    PutSummary(successes, stats::Summarize(SuccessesOnly(sample)));
    out["successes_only"] = std::move(successes);
  } else {
    out["successes_only"] = Json();
  }
  return out;
}

Json ShortMetricJson(const ConditionAttempts& condition, const Metric& metric) {
  const stats::SampleSummary summary = stats::Summarize(SampleOf(condition, metric).sample);
  Json reasons = Json::object();
  Json out = {{"n", summary.n}, {"censored", summary.censored}};
  PutQuantile(out, reasons, "median", summary.median);
  Put(out, reasons, "min", summary.min);
  Put(out, reasons, "max", summary.max);
  out["null_reasons"] = std::move(reasons);
  return out;
}

Json OutcomesJson(const std::map<results::Outcome, int64_t>& outcomes) {
  Json out = Json::object();
  for (const auto& [outcome, count] : outcomes) {
    out[std::string(results::OutcomeName(outcome))] = count;
  }
  return out;
}

Json SequenceJson(const ConditionAttempts& condition) {
  const MetricSample sample = SampleOf(condition, *results::FindMetric("ttft_ns"));
  const stats::SequenceFindings findings = stats::ExamineSequence(sample.values);
  const bool measured = findings.halves.ci.has_value();
  return {{"lag1_autocorrelation", Number(findings.lag1)},
          {"lag1_limit", Number(findings.lag1_limit)},
          {"second_half_shift_ns", Number(findings.halves.value)},
          {"second_half_shift_ci_ns",
           measured ? Json({Number(findings.halves.ci->low), Number(findings.halves.ci->high)})
                    : Json()},
          {"drifts", measured ? Json(findings.drifts) : Json()},
          {"depends", findings.lag1 ? Json(findings.depends) : Json()}};
}

// Ids of the attempts whose TTFT lies far from the others; none is removed anywhere.
Json OutliersJson(const ConditionAttempts& condition) {
  std::vector<double> values;
  std::vector<int64_t> ids;
  for (const results::Attempt* attempt : condition.attempts) {
    if (attempt->outcome != results::Outcome::kOk || !attempt->ttft_ns) continue;
    values.push_back(static_cast<double>(*attempt->ttft_ns));
    ids.push_back(attempt->id.value_or(0));
  }
  const stats::OutlierFlags flags = stats::FlagOutliers(values);
  Json mad = Json::array();
  Json tukey = Json::array();
  for (size_t index = 0; index < ids.size(); ++index) {
    if (flags.mad[index]) mad.push_back(ids[index]);
    if (flags.tukey[index]) tukey.push_back(ids[index]);
  }
  return {{"mad", std::move(mad)}, {"tukey", std::move(tukey)}};
}

Json CountersJson(const ConditionAttempts& condition) {
  Json out = Json::object();
  for (const Metric& metric : results::Metrics()) {
    if (metric.home != results::MetricHome::kCounter &&
        metric.home != results::MetricHome::kState) {
      continue;
    }
    const bool measured = std::any_of(
        condition.attempts.begin(), condition.attempts.end(),
        [&](const auto* attempt) { return results::MetricOf(*attempt, metric).has_value(); });
    if (measured) out[std::string(metric.name)] = ShortMetricJson(condition, metric);
  }
  return out;
}

Json StagesJson(const ConditionAttempts& condition) {
  Json out = Json::object();
  for (int index = 0; index < results::kStageCount; ++index) {
    const std::string name(results::StageName(static_cast<results::Stage>(index)));
    out[name] = ShortMetricJson(condition, *results::FindMetric("stage_" + name + "_ns"));
  }
  return out;
}

// The success whose TTFT is the median of all that counts, or the two in the middle: what a typical
// attempt was spent on, as stages that sum to the median. Null when the median is a failure.
Json MedianAttemptJson(const ConditionAttempts& condition) {
  std::vector<const results::Attempt*> ranked;
  size_t counted = 0;
  for (const results::Attempt* attempt : condition.attempts) {
    if (!results::CountsInSample(attempt->outcome)) continue;
    const bool ok = attempt->outcome == results::Outcome::kOk;
    if (ok && !attempt->ttft_ns) continue;  // not measured: in no statistic of the TTFT
    ++counted;
    if (ok) ranked.push_back(attempt);
  }
  if (counted == 0 || counted / 2 >= ranked.size()) return {};  // behind the successes: failures
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto* a, const auto* b) { return *a->ttft_ns < *b->ttft_ns; });
  const std::vector<const results::Attempt*> middle(
      ranked.begin() + static_cast<ptrdiff_t>((counted - 1) / 2),
      ranked.begin() + static_cast<ptrdiff_t>(counted / 2 + 1));
  Json ids = Json::array();
  for (const results::Attempt* attempt : middle) {
    ids.push_back(attempt->id ? Json(*attempt->id) : Json());
  }
  Json stages = Json::object();
  for (size_t index = 0; index < results::kStageCount; ++index) {
    std::optional<double> sum;
    for (const results::Attempt* attempt : middle) {
      const auto& ns = attempt->stages[index].ns;
      if (ns) sum = sum.value_or(0) + static_cast<double>(*ns);
    }
    if (sum) *sum /= static_cast<double>(middle.size());
    stages[std::string(results::StageName(static_cast<results::Stage>(index)))] = Number(sum);
  }
  return {{"attempts", std::move(ids)}, {"stages_ns", std::move(stages)}};
}

Json ConditionJson(const ConditionAttempts& condition, const results::ConditionRow* row) {
  Json out = {{"name", condition.name}};
  if (row != nullptr) {
    out["base"] = row->base.empty() ? Json() : Json(row->base);
    out["changed"] = row->changed.empty() ? Json() : Json(row->changed);
    out["compound"] = row->compound;
    out["state"] = row->state;
    out["idle_ns"] = row->idle_ns ? Json(*row->idle_ns) : Json();
  }
  const auto outcomes = CountOutcomes(condition);
  int64_t counted = 0;
  for (const auto& [outcome, count] : outcomes) {
    if (results::CountsInSample(outcome)) counted += count;
  }
  out["n"] = counted;
  out["outcomes"] = OutcomesJson(outcomes);
  out["ttft_ns"] = MetricJson(condition, *results::FindMetric("ttft_ns"));
  out["ttfc_ns"] = MetricJson(condition, *results::FindMetric("ttfc_ns"));
  out["stages_ns"] = StagesJson(condition);
  out["median_attempt"] = MedianAttemptJson(condition);
  out["counters"] = CountersJson(condition);
  out["sequence"] = SequenceJson(condition);
  out["outliers"] = OutliersJson(condition);
  return out;
}

// ---- comparisons ----

Json SideJson(const SideSummary& side) {
  Json out = {
      {"run", side.run}, {"condition", side.condition}, {"outcomes", OutcomesJson(side.outcomes)}};
  PutSummary(out, side.summary);
  out["not_measured"] = side.not_measured;
  return out;
}

Json IntervalJson(const std::optional<stats::Interval>& interval) {
  if (!interval) return {};
  return {Number(interval->low), Number(interval->high)};
}

Json ShiftJson(const stats::Shift& shift, const std::string& suffix) {
  Json out = {{"estimator", shift.estimator}, {"paired", shift.paired}};
  out["method"] = shift.method.empty() ? Json() : Json(shift.method);
  out["n_treatment"] = shift.n_treatment;
  out["n_control"] = shift.n_control;
  out["value" + suffix] = Number(shift.value);
  out["ci" + suffix] = IntervalJson(shift.ci);
  out["confidence"] = shift.confidence;
  out["seed"] = shift.seed ? Json(*shift.seed) : Json();
  out["null_reason"] = shift.reason.empty() ? Json() : Json(shift.reason);
  return out;
}

Json GuardsJson(const Comparison& comparison) {
  Json out = Json::array();
  for (const GuardResult& guard : comparison.guards) {
    out.push_back({{"guard", guard.guard.text},
                   {"value", Number(guard.value)},
                   {"held", guard.held ? Json(*guard.held) : Json()},
                   {"null_reason", guard.reason.empty() ? Json() : Json(guard.reason)}});
  }
  return out;
}

Json WarningsJson(const std::vector<results::Warning>& warnings) {
  Json out = Json::array();
  for (const results::Warning& warning : warnings) {
    out.push_back({{"code", warning.code}, {"message", warning.message}});
  }
  return out;
}

Json ComparisonValue(const Comparison& comparison) {
  const ComparisonSpec& spec = comparison.spec;
  const std::string unit = "_" + std::string(comparison.metric->unit);
  Json out = {{"schema", "rouse.comparison/1"},
              {"name", comparison.name},
              {"metric", comparison.metric->name},
              {"statistic", spec.statistic}};
  out["expect"] = spec.expect ? Json(stats::ExpectName(*spec.expect)) : Json();
  out["margin"] = spec.margin.empty() ? Json() : Json(spec.margin);
  out["margin" + unit] = Number(comparison.margin);
  out["confidence"] = spec.confidence;
  out["treatment"] = SideJson(comparison.treatment);
  out["control"] = SideJson(comparison.control);
  out["shift"] = ShiftJson(comparison.shift, unit);
  out["ratio"] = ShiftJson(comparison.ratio, "");
  out["why_unpaired"] = comparison.why_unpaired.empty() ? Json() : Json(comparison.why_unpaired);
  out["unpaired_blocks"] = {{"treatment", comparison.only_treatment},
                            {"control", comparison.only_control}};
  out["verdict"] = comparison.verdict ? Json(stats::VerdictName(*comparison.verdict)) : Json();
  out["reason"] = comparison.reason.empty() ? Json() : Json(comparison.reason);
  out["would_change"] = comparison.would_change.empty() ? Json() : Json(comparison.would_change);
  out["guards"] = GuardsJson(comparison);
  out["warnings"] = WarningsJson(comparison.warnings);
  return out;
}

// What each condition costs against its base, without a verdict.
Json ContrastsJson(const Run& run, const std::vector<results::Attempt>& attempts) {
  Json out = Json::array();
  for (const results::ConditionRow& row : run.conditions) {
    if (row.base.empty()) continue;
    const Result<Comparison> contrast =
        Compare({&run, row.name, attempts}, {&run, row.base, attempts}, {});
    if (contrast.ok()) out.push_back(ComparisonValue(*contrast));
  }
  return out;
}

Json HypothesesJson(const Run& run, const std::vector<results::Attempt>& attempts) {
  Json out = Json::array();
  const Result<std::vector<Comparison>> judged = JudgeHypotheses(run, attempts);
  if (!judged.ok()) {
    // A stored plan that this version cannot judge: said, not hidden.
    return Json::array({{{"verdict", nullptr}, {"reason", judged.error().message()}}});
  }
  for (const Comparison& comparison : *judged) out.push_back(ComparisonValue(comparison));
  return out;
}

Json OptionalTime(const std::optional<int64_t>& wall_ns) {
  return wall_ns ? Json(FormatWallTime(*wall_ns)) : Json();
}

Json RunHead(const Run& run) {
  Json out = {{"schema", "rouse.report/1"},
              {"run", run.id ? Json(*run.id) : Json()},
              {"name", run.name},
              {"kind", run.kind},
              {"status", run.status},
              {"rouse_version", run.rouse_version},
              {"started", FormatWallTime(run.started_wall_ns)},
              {"ended", OptionalTime(run.ended_wall_ns)},
              {"started_wall_ns", run.started_wall_ns}};
  out["ended_wall_ns"] = run.ended_wall_ns ? Json(*run.ended_wall_ns) : Json();
  out["seed"] = run.seed ? Json(*run.seed) : Json();
  out["plan_hash"] = run.plan_hash.empty() ? Json() : Json(run.plan_hash);
  out["target"] = run.target.empty() ? Json() : Json(run.target);
  out["model"] = run.model.empty() ? Json() : Json(run.model);
  out["environment"] = run.environment;
  Json calibration = Json::array();
  for (const results::CalibrationRow& row : run.calibration) {
    const auto number = [](const std::optional<int64_t>& value) {
      return value ? Json(*value) : Json();
    };
    calibration.push_back({{"streams", row.streams},
                           {"samples", row.samples},
                           {"median_ns", number(row.median_ns)},
                           {"p99_ns", number(row.p99_ns)},
                           {"max_ns", number(row.max_ns)}});
  }
  out["calibration"] = std::move(calibration);
  return out;
}

// Warnings of the attempts, counted by code.
Json WarningCounts(const std::vector<results::Attempt>& attempts) {
  std::map<std::string, int64_t> counts;
  for (const results::Attempt& attempt : attempts) {
    for (const results::Warning& warning : attempt.warnings) ++counts[warning.code];
  }
  return counts.empty() ? Json::object() : Json(counts);
}

Json RunSummaryJson(const results::RunSummary& run) {
  Json row = {{"run", run.id},
              {"name", run.name},
              {"kind", run.kind},
              {"status", run.status},
              {"target", run.target.empty() ? Json() : Json(run.target)},
              {"model", run.model.empty() ? Json() : Json(run.model)},
              {"started", FormatWallTime(run.started_wall_ns)},
              {"ended", OptionalTime(run.ended_wall_ns)}};
  row["conditions"] = run.conditions;
  row["attempts"] = run.attempts;
  row["failed"] = run.failed;
  return row;
}

std::string Dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

Json ResultJson(const RunResult& result) {
  const auto or_null = [](const std::optional<int64_t>& ns) { return ns ? Json(*ns) : Json(); };
  return {{"fastest_ns", or_null(result.fastest_ns)},
          {"slowest_ns", or_null(result.slowest_ns)},
          {"conditions", result.conditions},
          {"without", result.without}};
}

}  // namespace

std::string ReportJson(const Run& run, const std::vector<results::Attempt>& attempts,
                       bool with_attempts) {
  Json out = RunHead(run);
  std::map<std::string_view, const results::ConditionRow*> rows;
  for (const results::ConditionRow& row : run.conditions) rows.emplace(row.name, &row);
  Json conditions = Json::array();
  for (const ConditionAttempts& condition : ByCondition(run, attempts)) {
    const auto row = rows.find(condition.name);
    conditions.push_back(ConditionJson(condition, row == rows.end() ? nullptr : row->second));
  }
  out["conditions"] = std::move(conditions);
  out["contrasts"] = ContrastsJson(run, attempts);
  if (const auto prompts = SummarizePrompts(run, attempts)) {
    out["prompt_summary"] = Json::parse(PromptJson(*prompts));
  }
  if (const auto kv = SummarizeKv(run, attempts)) out["kv_summary"] = Json::parse(KvJson(*kv));
  if (const auto loads = SummarizeLoads(run, attempts)) {
    out["load_summary"] = Json::parse(LoadJson(*loads));
  }
  out["hypotheses"] = HypothesesJson(run, attempts);
  out["requirement"] = Json::parse(ClaimJson(run, attempts));
  out["verification"] = Json::parse(VerificationJson(run.verification));
  out["tiers"] = Json::parse(TiersJson(run, attempts));
  out["primes"] = std::count_if(attempts.begin(), attempts.end(),
                                [](const results::Attempt& attempt) { return attempt.prime; });
  out["warning_counts"] = WarningCounts(attempts);
  out["warnings"] = WarningsJson(RunWarnings(run, attempts));  // of the run as a whole
  std::string text = Dump(out);
  if (!with_attempts) return text;
  // The attempts are text already, one a line.
  text.erase(text.find_last_of('}'));
  while (text.ends_with('\n') || text.ends_with(' ')) text.pop_back();
  text += ",\n  \"attempts\": [";
  for (size_t index = 0; index < attempts.size(); ++index) {
    text += index == 0 ? "\n    " : ",\n    ";
    text += results::AttemptJson(attempts[index]);
  }
  return text + (attempts.empty() ? "]\n}" : "\n  ]\n}");
}

std::string ComparisonJson(const Comparison& comparison) {
  return Dump(ComparisonValue(comparison));
}

std::string ComparisonsJson(const std::vector<Comparison>& comparisons,
                            const std::vector<std::string>& only_treatment,
                            const std::vector<std::string>& only_control) {
  Json list = Json::array();
  for (const Comparison& comparison : comparisons) list.push_back(ComparisonValue(comparison));
  return Dump({{"comparisons", std::move(list)},
               {"only_treatment", only_treatment},
               {"only_control", only_control}});
}

std::string RunListJson(const std::vector<results::RunSummary>& runs,
                        const std::map<int64_t, RunResult>& results) {
  Json list = Json::array();
  for (const results::RunSummary& run : runs) {
    list.push_back(RunSummaryJson(run));
    const auto result = results.find(run.id);
    if (result != results.end()) list.back()["result"] = ResultJson(result->second);
  }
  return Dump({{"runs", std::move(list)}});
}

std::string RunLineJson(const results::RunSummary& run) {
  return RunSummaryJson(run).dump(-1, ' ', false, Json::error_handler_t::replace);
}

RunResult ResultOf(const std::vector<results::ConditionTtfts>& conditions) {
  RunResult result;
  result.conditions = std::ssize(conditions);
  for (const results::ConditionTtfts& condition : conditions) {
    stats::Sample sample;
    sample.values.assign(condition.ttft_ns.begin(), condition.ttft_ns.end());
    sample.failures = condition.failed;
    const std::optional<double> median = stats::Summarize(sample).median.value.Value();
    if (!median) {
      ++result.without;
      continue;
    }
    const int64_t ns = std::llround(*median);
    result.fastest_ns = std::min(result.fastest_ns.value_or(ns), ns);
    result.slowest_ns = std::max(result.slowest_ns.value_or(ns), ns);
  }
  return result;
}

std::string RunResultJson(const RunResult& result) { return ResultJson(result).dump(); }

}  // namespace rouse::report
