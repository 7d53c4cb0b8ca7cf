#include "report/terminal_contrast.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "base/strings.h"
#include "base/units.h"
#include "explain/layer_words.h"
#include "explain/profile.h"
#include "report/comparison.h"
#include "report/sample.h"
#include "report/terminal_bar.h"
#include "report/terminal_table.h"

namespace rouse::report {
namespace {

using results::Attempt;
using results::ConditionRow;
using results::LayerReadings;

// A stage is worth naming when it explains at least a tenth of the shift; the two largest are
// named.
constexpr double kNamedShare = 0.1;
constexpr size_t kNamedStages = 2;
constexpr double kReadWorthNaming = 1e6;  // bytes
constexpr int kNameColumnsMax = 16;
constexpr int kWordColumnsMin = 26;

std::string ValueOf(const ConditionRow& row, std::string_view layer) {
  const auto found = row.state.find(std::string(layer));
  return found == row.state.end() ? "" : found->second;
}

// The words of the layer that the condition changes; null where it keeps its own name instead.
const explain::LayerWords* LayerOf(const ConditionRow& row) {
  const explain::LayerWords* const found = explain::FindLayerWords(row.changed);
  if (row.compound || found == nullptr || found->name.empty()) return nullptr;
  // Locked pages are warm ones with a guard, and a part of a file is not the layer.
  const std::string value = ValueOf(row, found->layer);
  return found->layer == "page_cache" && value != "warm" && value != "cold" ? nullptr : found;
}

std::string TimeWords(double ns) { return FormatDuration(std::llround(ns)); }

// The median over the attempts that have one.
template <typename ValueOf>
std::optional<double> MedianOver(const ConditionAttempts& condition, ValueOf&& value_of) {
  std::vector<double> values;
  for (const Attempt* const attempt : condition.attempts) {
    if (!results::CountsInSample(attempt->outcome)) continue;
    if (const std::optional<double> value = value_of(*attempt)) values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  return stats::Median(std::move(values));
}

std::optional<double> MedianMetric(const ConditionAttempts& condition, std::string_view name) {
  const results::Metric* const metric = results::FindMetric(name);
  CHECK(metric != nullptr);
  return MedianOver(condition, [&](const Attempt& each) { return MetricOf(each, *metric); });
}

std::optional<double> MedianShare(const ConditionAttempts& condition,
                                  LayerReadings Attempt::* moment) {
  return MedianOver(condition, [&](const Attempt& attempt) -> std::optional<double> {
    const auto found = (attempt.*moment).find("page_cache");
    if (found == (attempt.*moment).end()) return std::nullopt;
    const double* const share = std::get_if<double>(&found->second.value);
    return share == nullptr ? std::nullopt : std::optional<double>(*share);
  });
}

std::string PercentWords(double share) {
  return std::to_string(static_cast<int>(std::lround(share * 100))) + " %";
}

// "prefill +148 ms, weights +12.1 ms"
std::string StageWordsOf(const StageMeans& treatment, const StageMeans& control, double shift) {
  std::vector<std::pair<double, results::Stage>> deltas;
  for (size_t i = 0; i < treatment.size(); ++i) {
    const double delta = treatment[i] - control[i];
    if (delta * shift > 0 && std::fabs(delta) >= kNamedShare * std::fabs(shift)) {
      deltas.emplace_back(delta, static_cast<results::Stage>(i));
    }
  }
  std::stable_sort(deltas.begin(), deltas.end(), [](const auto& a, const auto& b) {
    return std::fabs(a.first) > std::fabs(b.first);
  });
  std::string text;
  for (size_t i = 0; i < std::min(deltas.size(), kNamedStages); ++i) {
    text += (i == 0 ? "" : ", ") + std::string(StageWords(deltas[i].second)) +
            (deltas[i].first > 0 ? " +" : " ") + TimeWords(deltas[i].first);
  }
  return text;
}

// "98.4 MB read from the disk at 331 MB/s": the rate is that of the loads that read, which other
// work may overlap; without them none is told.
std::string ReadWords(const ConditionAttempts& treatment, const ConditionAttempts& control) {
  const double read = MedianMetric(treatment, "target_read_bytes").value_or(0);
  const double base = MedianMetric(control, "target_read_bytes").value_or(0);
  if (read - base < kReadWorthNaming) return "";
  std::string text = FormatBytes(std::llround(read)) + " read from the disk";
  const explain::Profile profile = explain::ProfileOf(treatment.attempts);
  if (profile.lane_ns.value_or(0) > 0) {
    text += " at " + FormatBytes(std::llround(read / (*profile.lane_ns / 1e9))) + "/s";
  }
  return text;
}

// "0 % of the file in memory before, 100 % after"
std::string ResidencyWords(const ConditionAttempts& treatment) {
  std::optional<double> before = MedianShare(treatment, &Attempt::state_at_send);
  if (!before) before = MedianShare(treatment, &Attempt::state_before);
  const std::optional<double> after = MedianShare(treatment, &Attempt::state_after);
  if (!before) return "";
  return PercentWords(*before) + " of the file in memory before" +
         (after ? ", " + PercentWords(*after) + " after" : "");
}

// "read back as declared in 6 of 6"
// Of a compound change every layer has to be.
std::string ReadBackWords(const ConditionAttempts& treatment, const std::string& changed) {
  int64_t total = 0;
  int64_t reached = 0;
  for (const Attempt* const attempt : treatment.attempts) {
    if (!results::CountsInSample(attempt->outcome)) continue;
    ++total;
    bool all = true;
    for (const std::string_view part : SplitAt(changed, ',')) {
      const std::string layer(TrimBlanks(part));
      bool yes = false;
      bool no = false;
      for (const LayerReadings* const readings :
           {&attempt->state_before, &attempt->state_at_send, &attempt->state_after}) {
        const auto found = readings->find(layer);
        if (found == readings->end()) continue;
        yes = yes || found->second.reached == true;
        no = no || found->second.reached == false;
      }
      all = all && (yes || layer == "idle") && !no;
    }
    if (all) ++reached;
  }
  // The proof line below the table tells what holds everywhere.
  if (reached == total) return "";
  return "state read back in only " + std::to_string(reached) + " of " + std::to_string(total);
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) text += (text.empty() ? "" : "; ") + part;
  }
  return text;
}

std::string EvidenceWords(const std::string& layer, const ConditionAttempts& treatment,
                          const ConditionAttempts& control) {
  std::vector<std::string> parts = {ReadWords(treatment, control)};
  if (layer == "page_cache") {
    parts.push_back(ResidencyWords(treatment));
  } else if (layer == "prefix_cache") {
    const std::optional<double> here = MedianMetric(treatment, "cached_tokens");
    const std::optional<double> there = MedianMetric(control, "cached_tokens");
    if (here && there) {
      parts.push_back(std::to_string(std::llround(*here)) + " prompt tokens cached, not " +
                      std::to_string(std::llround(*there)));
    }
  } else if (layer == "process") {
    const std::optional<double> before = MedianShare(treatment, &Attempt::state_at_send);
    if (before) parts.push_back(PercentWords(*before) + " of the file in memory");
  }
  if (layer != "idle") parts.push_back(ReadBackWords(treatment, layer));
  return Joined(parts);
}

LadderRow RowOf(const results::Run& run, std::span<const Attempt> attempts,
                const ConditionRow& declared, const ConditionRow& declared_base,
                const std::vector<ConditionAttempts>& conditions) {
  const explain::LayerWords* const layer = LayerOf(declared);
  const bool flipped = layer != nullptr && ValueOf(declared, layer->layer) == layer->warmer;
  const ConditionRow& condition = flipped ? declared_base : declared;
  const ConditionRow& base = flipped ? declared : declared_base;
  LadderRow row;
  row.lost_layer = layer != nullptr && ValueOf(base, layer->layer) == layer->warmer;
  row.name = row.lost_layer ? std::string(layer->name) : declared.name;
  if (declared.changed == "idle") {
    row.name = "idle " + FormatWrittenDuration(declared.idle_ns.value_or(0));
    row.lost_layer = true;
  } else if (layer != nullptr && !row.lost_layer && declared.changed == "model") {
    row.name = layer->name;  // a process that ends takes a model along; the layer is the same
  }
  const Result<Comparison> compared =
      Compare({.run = &run, .condition = condition.name, .attempts = attempts},
              {.run = &run, .condition = base.name, .attempts = attempts}, ComparisonSpec{});
  if (!compared.ok()) {
    row.words = "cannot be told: no attempt to compare";
    return row;
  }
  const stats::Shift& shift = compared->shift;
  if (!shift.value || !std::isfinite(*shift.value)) {
    row.words = "cannot be told: " + (shift.value ? "too many attempts failed" : shift.reason);
    return row;
  }
  row.cost = shift.value;
  if (shift.ci) row.ci = *shift.ci;
  if (!row.ci) row.words = "no interval: " + shift.reason;
  const auto find = [&](const std::string& name) -> const ConditionAttempts& {
    return *std::find_if(conditions.begin(), conditions.end(),
                         [&](const ConditionAttempts& each) { return each.name == name; });
  };
  const ConditionAttempts& treatment = find(condition.name);
  const ConditionAttempts& control = find(base.name);
  if (row.ci && !row.sure()) {
    row.words = "not sure: the interval holds 0";
  } else {
    const std::optional<StageMeans> there = MeanStages(treatment.attempts);
    const std::optional<StageMeans> here = MeanStages(control.attempts);
    const std::string stages = there && here ? StageWordsOf(*there, *here, *row.cost) : "";
    row.words = Joined({row.words, stages});
  }
  if (declared.compound) row.words = Joined({row.words, "several layers together"});
  row.words = Joined({row.words, EvidenceWords(declared.changed, treatment, control)});
  return row;
}

std::string Sign(const std::string& number) {
  return number.starts_with('-') || number == "0" ? number : "+" + number;
}

}  // namespace

std::vector<LadderRow> Ladder(const results::Run& run, std::span<const Attempt> attempts) {
  std::vector<LadderRow> rows;
  std::vector<const std::string*> declared;  // the condition of each row
  const std::vector<ConditionAttempts> conditions = ByCondition(run, attempts);
  for (const ConditionRow& row : run.conditions) {
    const auto base = std::find_if(run.conditions.begin(), run.conditions.end(),
                                   [&](const auto& each) { return each.name == row.base; });
    if (row.base.empty() || base == run.conditions.end() || row.base == row.name) continue;
    rows.push_back(RowOf(run, attempts, row, *base, conditions));
    declared.push_back(&row.name);
  }
  // A layer that is lost in two ways (asleep and unloaded) is told apart by the condition.
  std::map<std::string, int> times;
  for (const LadderRow& row : rows) ++times[row.name];
  for (size_t i = 0; i < rows.size(); ++i) {
    if (times[rows[i].name] < 2) continue;
    rows[i].name = *declared[i];
    rows[i].lost_layer = false;  // no longer its name
  }
  return rows;
}

std::string LadderText(std::span<const LadderRow> rows, const TerminalOptions& options) {
  if (rows.empty()) return "";
  double largest = 0;
  bool lost = true;
  int name_width = 0;
  for (const LadderRow& row : rows) {
    largest = std::max(largest, std::fabs(row.cost.value_or(0)));
    lost = lost && row.lost_layer;
    name_width = std::max(name_width, DisplayColumns(FitText(row.name, kNameColumnsMax)));
  }
  const TimeUnit unit = UnitFor(largest);
  const auto number = [&](double ns) { return Sign(NumberIn(ns, unit)); };
  std::vector<std::pair<std::string, std::string>> cells;
  int cost_width = static_cast<int>(unit.name.size());
  int range_width = 6;
  for (const LadderRow& row : rows) {
    const std::string cost = row.cost ? number(*row.cost) : "-";
    const std::string range = row.ci ? number(row.ci->low) + " .. " + number(row.ci->high) : "-";
    cost_width = std::max(cost_width, static_cast<int>(cost.size()));
    range_width = std::max(range_width, static_cast<int>(range.size()));
    cells.emplace_back(cost, range);
  }
  const int before = 2 + name_width + 2 + cost_width + 2 + range_width + 2;
  // Too narrow for words beside the numbers: they go below them.
  const bool beside = options.columns - before >= kWordColumnsMin;
  std::string out = lost ? "\nWhat each lost layer costs here (shift of the TTFT)\n"
                         : "\nWhat each change costs here (shift of the TTFT)\n";
  out += std::string(static_cast<size_t>(name_width) + 4, ' ') +
         PadLeft(std::string(unit.name), cost_width) + "  95 % interval\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string head = "  " + PadRight(FitText(rows[i].name, name_width), name_width) + "  " +
                             PadLeft(cells[i].first, cost_width) + "  " +
                             PadRight(cells[i].second, range_width) + "  ";
    if (rows[i].words.empty()) {
      out += head.substr(0, head.find_last_not_of(' ') + 1) + "\n";
    } else if (beside) {
      std::string words = WrapText(
          rows[i].words, {.columns = options.columns, .indent = before, .hanging = before});
      out += head + words.substr(static_cast<size_t>(before));
    } else {
      out += head.substr(0, head.find_last_not_of(' ') + 1) + "\n" +
             WrapText(rows[i].words, {.columns = options.columns, .indent = 6, .hanging = 6});
    }
  }
  return out;
}

}  // namespace rouse::report
