#include "report/terminal_contrast.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/units.h"
#include "report/comparison.h"
#include "report/sample.h"
#include "report/terminal.h"
#include "report/terminal_bar.h"
#include "report/words.h"

namespace rouse::report {
namespace {

constexpr int kNameColumns = 40;

// A stage is worth naming when it explains at least a tenth of the shift; the two largest are
// named.
constexpr double kNamedShare = 0.1;
constexpr size_t kNamedStages = 2;
constexpr double kReadWorthNaming = 1e6;  // bytes

std::string Plain(double ns) { return FormatDuration(static_cast<int64_t>(std::llround(ns))); }
std::string Signed(double ns) { return (ns > 0 ? "+" : "") + Plain(ns); }

// What happened to the layer, as the subject of a sentence.
std::string Subject(const results::ConditionRow& row, const results::ConditionRow& base) {
  const auto value = [](const results::ConditionRow& of, const std::string& layer) {
    const auto found = of.state.find(layer);
    return found == of.state.end() ? std::string() : found->second;
  };
  const std::string& changed = row.changed;
  const std::string to = value(row, changed);
  if (row.compound) {
    return "\"" + FitText(row.name, kNameColumns) + "\" (" + FitText(changed, kNameColumns) +
           " together)";
  }
  if (changed == "prefix_cache") return to == "hit" ? "finding the prefix" : "losing the prefix";
  if (changed == "model") return to == "unloaded" ? "losing the loaded model" : "a loaded model";
  if (changed == "process") return to == "new" ? "losing the process" : "a running process";
  if (changed == "connection") return to == "reused" ? "a kept connection" : "a new connection";
  if (changed == "page_cache") {
    if (to == "cold") return "losing the page cache";
    if (to == "warm") return "a warm page cache";
    return "page cache " + to + " instead of " + value(base, changed);
  }
  if (changed == "idle") return "idling for " + FormatDuration(row.idle_ns.value_or(0));
  return "\"" + FitText(row.name, kNameColumns) + "\" (" + FitText(changed, kNameColumns) + ")";
}

double MedianCounter(const ConditionAttempts& condition, std::string_view name) {
  const results::Metric* const metric = results::FindMetric(name);
  CHECK(metric != nullptr);
  std::vector<double> values = SampleOf(condition, *metric).sample.values;
  return values.empty() ? 0 : stats::Median(std::move(values));
}

// ": 297 ms of it weights, 12 ms prefill"
std::string StageWordsOf(const StageMeans& treatment, const StageMeans& control, double shift) {
  std::vector<std::pair<double, results::Stage>> deltas;
  for (size_t i = 0; i < treatment.size(); ++i) {
    const double delta = treatment[i] - control[i];
    if (delta * shift > 0 && std::fabs(delta) >= kNamedShare * std::fabs(shift)) {
      deltas.emplace_back(std::fabs(delta), static_cast<results::Stage>(i));
    }
  }
  std::stable_sort(deltas.begin(), deltas.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (size_t i = 0; i < std::min(deltas.size(), kNamedStages); ++i) {
    text += i == 0 ? ": " : ", ";
    text += FormatDuration(static_cast<int64_t>(deltas[i].first));
    text += i == 0 ? " of it " : " ";
    text += StageWords(deltas[i].second);
  }
  return text;
}

// "; 98.4 MB read from disk, at 331 MB/s of the weights' time"
std::string ReadWords(const ConditionAttempts& treatment, const ConditionAttempts& control,
                      const StageMeans& stages) {
  const double read = MedianCounter(treatment, "target_read_bytes");
  const double base = MedianCounter(control, "target_read_bytes");
  if (read - base < kReadWorthNaming) return "";
  std::string text = "; " + FormatBytes(static_cast<int64_t>(read)) + " read from the disk";
  const double weights_ns = stages[static_cast<size_t>(results::Stage::kWeights)];
  const double rate = weights_ns > 0 ? read / (weights_ns / 1e9) : 0;
  if (rate > 0 && rate < 1e11) text += " at " + FormatBytes(static_cast<int64_t>(rate)) + "/s";
  return text;
}

std::string Sentence(const results::Run& run, std::span<const results::Attempt> attempts,
                     const results::ConditionRow& row, const results::ConditionRow& base,
                     const ConditionAttempts& treatment, const ConditionAttempts& control) {
  const std::string subject = Subject(row, base);
  const Result<Comparison> compared =
      Compare({.run = &run, .condition = row.name, .attempts = attempts},
              {.run = &run, .condition = base.name, .attempts = attempts}, ComparisonSpec{});
  if (!compared.ok()) return subject + ": cannot be told (no attempt to compare)";
  const stats::Shift& shift = compared->shift;
  if (!shift.value) return subject + ": cannot be told (" + shift.reason + ")";
  if (!std::isfinite(*shift.value)) {
    return subject + ": cannot be told in time (too many attempts failed)";
  }
  // What is saved is told as a positive time, interval included.
  const bool saves = *shift.value < 0;
  const double sign = saves ? -1 : 1;
  std::string text =
      subject + (saves ? " saves " + Plain(-*shift.value) : " costs " + Signed(*shift.value));
  if (shift.ci && std::isfinite(shift.ci->low) && std::isfinite(shift.ci->high)) {
    text += " (" + Plain(sign * (saves ? shift.ci->high : shift.ci->low)) + " ... " +
            Plain(sign * (saves ? shift.ci->low : shift.ci->high)) + ")";
    if (shift.ci->low <= 0 && shift.ci->high >= 0) return text + ": no difference that is sure";
  }
  const std::optional<StageMeans> there = MeanStages(treatment.attempts);
  const std::optional<StageMeans> here = MeanStages(control.attempts);
  if (there && here) {
    text += StageWordsOf(*there, *here, *shift.value);
    text += ReadWords(treatment, control, *there);
  }
  return text;
}

}  // namespace

std::vector<std::string> ContrastSentences(const results::Run& run,
                                           std::span<const results::Attempt> attempts) {
  std::vector<std::string> sentences;
  const std::vector<ConditionAttempts> conditions = ByCondition(run, attempts);
  const auto find = [&](const std::string& name) {
    return std::find_if(conditions.begin(), conditions.end(),
                        [&](const ConditionAttempts& each) { return each.name == name; });
  };
  for (const results::ConditionRow& row : run.conditions) {
    const auto base = std::find_if(run.conditions.begin(), run.conditions.end(),
                                   [&](const auto& each) { return each.name == row.base; });
    if (row.base.empty() || base == run.conditions.end()) continue;
    sentences.push_back(Sentence(run, attempts, row, *base, *find(row.name), *find(base->name)));
  }
  return sentences;
}

}  // namespace rouse::report
