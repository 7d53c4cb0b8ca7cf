#include "report/claim.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/units.h"
#include "report/sample.h"
#include "results/metrics.h"

namespace rouse::report {
namespace {

using results::Attempt;
using Json = nlohmann::ordered_json;

// What others may pay before "warm" is refused (docs/presets/idle.md says why these).
constexpr double kSwapInLimitBytes = 1 << 20U;
constexpr double kPressureLimit = 0.01;
constexpr double kSlowdownLimit = 0.25;

std::optional<double> Counter(const Attempt& attempt, const std::string& name) {
  const results::Metric* const metric = results::FindMetric(name);
  return metric == nullptr ? std::nullopt : results::MetricOf(attempt, *metric);
}

// Of the idle time and of the request together; empty when one of them is not known.
std::optional<double> Both(const Attempt& attempt, const std::string& idle,
                           const std::string& request) {
  const std::optional<double> a = Counter(attempt, idle);
  const std::optional<double> b = Counter(attempt, request);
  return a && b ? std::optional<double>(*a + *b) : std::nullopt;
}

std::optional<double> PressureShare(const Attempt& attempt) {
  const auto us = Both(attempt, "idle_psi_memory_full_us", "psi_memory_full_us");
  const int64_t ns = attempt.idle_ns.value_or(0) + attempt.marks.end.value_or(0);
  if (!us || ns <= 0) return std::nullopt;
  return *us * 1e3 / static_cast<double>(ns);
}

stats::ClaimGuard Guard(std::string name, std::string unit, double limit) {
  return {.name = std::move(name),
          .unit = std::move(unit),
          .worst = std::nullopt,
          .limit = limit,
          .why_not_measured = "the kernel or the server did not tell"};
}

// `counted`: the attempts of the claim. Swap-in and pressure: the worst of all. The sentinel is
// noisy by a few units of work: its median.
std::vector<stats::ClaimGuard> GuardsOf(const std::vector<const Attempt*>& counted) {
  stats::ClaimGuard swap = Guard("swap-in", "bytes", kSwapInLimitBytes);
  stats::ClaimGuard pressure = Guard("memory pressure (full)", "ratio", kPressureLimit);
  stats::ClaimGuard sentinel = Guard("co-tenant slowdown", "ratio", kSlowdownLimit);
  sentinel.why_not_measured = "every answer was shorter than 5 units of the sentinel, 50 ms";
  std::vector<double> slowdowns;
  bool all_swap = !counted.empty();
  bool all_pressure = !counted.empty();
  for (const Attempt* const attempt : counted) {
    const auto swapped = Both(*attempt, "idle_swap_in_bytes", "machine_swap_in_bytes");
    const auto share = PressureShare(*attempt);
    all_swap = all_swap && swapped.has_value();
    all_pressure = all_pressure && share.has_value();
    if (swapped) swap.worst = std::max(swap.worst.value_or(0), *swapped);
    if (share) pressure.worst = std::max(pressure.worst.value_or(0), *share);
    if (const auto slower = Counter(*attempt, "cotenant_slowdown_ratio")) {
      slowdowns.push_back(*slower);
    }
  }
  if (!all_swap) swap.worst.reset();
  if (!all_pressure) pressure.worst.reset();
  if (!slowdowns.empty()) sentinel.worst = stats::Median(slowdowns);
  return {swap, pressure, sentinel};
}

std::string Percent(double ratio) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), ratio >= 0.9995 || ratio < 0.0005 ? "%.0f %%" : "%.1f %%",
                ratio * 100);
  return text.data();
}

// What the attempts read of one layer, in words.
std::string LayerWords(const std::string& layer, const std::vector<const Attempt*>& attempts) {
  std::optional<double> low;
  std::optional<double> high;
  std::map<std::string, int> words;
  int read = 0;
  for (const Attempt* const attempt : attempts) {
    const auto found = attempt->state_at_send.find(layer);
    if (found == attempt->state_at_send.end()) continue;
    if (const auto* const share = std::get_if<double>(&found->second.value)) {
      low = std::min(low.value_or(*share), *share);
      high = std::max(high.value_or(*share), *share);
      ++read;
    } else if (const auto* const word = std::get_if<std::string>(&found->second.value)) {
      ++words[*word];
      ++read;
    }
  }
  if (read == 0) return "";
  if (low) {
    const std::string from = Percent(*low);
    const std::string to = Percent(*high);
    return layer + " " + (from == to ? from : from + " to " + to);
  }
  std::string text;
  for (const auto& [word, count] : words) {
    text += text.empty() ? "" : " / ";
    text += word;
    if (words.size() > 1) text += " (" + std::to_string(count) + "x)";
  }
  return layer + " " + text;
}

std::string Wrapped(const std::string& text, int columns, const std::string& indent) {
  std::string out;
  std::string line = indent;
  bool empty = true;
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find(' ', start), text.size());
    const std::string word = text.substr(start, end - start);
    if (!empty && line.size() + 1 + word.size() > static_cast<size_t>(columns)) {
      out += line + "\n";
      line = indent + "  ";
      empty = true;
    }
    if (!empty) line += ' ';
    line += word;
    empty = false;
    start = end + 1;
  }
  return out + line + "\n";
}

std::string Duration(double ns) { return FormatDuration(std::llround(ns)); }

std::string BoundWords(const stats::ClaimBound& bound) {
  return "at " + Percent(bound.confidence) + " confidence at least " + Percent(bound.least_share) +
         " of first answers come within " + Duration(bound.worst_ns) + " (the worst of " +
         std::to_string(bound.n) + ")";
}

Json BoundJson(const std::optional<stats::ClaimBound>& bound) {
  if (!bound) return nullptr;
  return {{"ttft_ns", std::llround(bound->worst_ns)},
          {"n", bound->n},
          {"confidence", bound->confidence},
          {"share_ci", {bound->least_share, 1.0}}};
}

Json EstimateJson(const stats::Estimate& estimate) {
  if (estimate.kind == stats::Estimate::Kind::kNone) return nullptr;
  const long long rounded = std::llround(estimate.value);
  if (estimate.kind == stats::Estimate::Kind::kAtLeast) return {{"at_least", rounded}};
  return rounded;
}

Json LayersJson(const std::string& condition, std::span<const Attempt> attempts) {
  Json out = Json::object();
  for (const Attempt& attempt : attempts) {
    if (attempt.prime || attempt.condition != condition) continue;
    if (!results::CountsInSample(attempt.outcome)) continue;
    for (const auto& [layer, reading] : attempt.state_at_send) {
      Json value;
      if (const auto* const share = std::get_if<double>(&reading.value)) value = *share;
      if (const auto* const word = std::get_if<std::string>(&reading.value)) value = *word;
      out[layer].push_back(std::move(value));
    }
  }
  return out;
}

std::vector<const Attempt*> Counted(const std::string& condition,
                                    std::span<const Attempt> attempts) {
  std::vector<const Attempt*> counted;
  for (const Attempt& attempt : attempts) {
    if (attempt.prime || attempt.condition != condition) continue;
    if (results::CountsInSample(attempt.outcome)) counted.push_back(&attempt);
  }
  return counted;
}

}  // namespace

std::optional<stats::Claim> ClaimOfRun(const results::Run& run, std::span<const Attempt> attempts) {
  if (!run.require_ttft_ns) return std::nullopt;
  const results::Metric* const ttft = results::FindMetric("ttft_ns");
  std::vector<stats::ClaimSample> samples;
  std::vector<const Attempt*> counted;
  for (const ConditionAttempts& condition : ByCondition(run, attempts)) {
    const auto row = std::find_if(run.conditions.begin(), run.conditions.end(),
                                  [&](const auto& each) { return each.name == condition.name; });
    if (row == run.conditions.end() || !row->idle_ns) continue;
    samples.push_back({.name = condition.name,
                       .idle_ns = *row->idle_ns,
                       .sample = SampleOf(condition, *ttft).sample});
    const std::vector<const Attempt*> these = Counted(condition.name, attempts);
    counted.insert(counted.end(), these.begin(), these.end());
  }
  return stats::JudgeClaim(static_cast<double>(*run.require_ttft_ns), samples,
                           run.status == "complete", GuardsOf(counted));
}

std::string LayersAfterIdle(const std::string& condition, std::span<const Attempt> attempts) {
  const std::vector<const Attempt*> counted = Counted(condition, attempts);
  std::set<std::string> layers;
  for (const Attempt* const attempt : counted) {
    for (const auto& [layer, reading] : attempt->state_at_send) layers.insert(layer);
  }
  std::string out;
  for (const std::string& layer : layers) {
    const std::string words = LayerWords(layer, counted);
    if (!words.empty()) out += (out.empty() ? "" : ", ") + words;
  }
  return out;
}

std::string RenderClaim(const results::Run& run, std::span<const Attempt> attempts, int columns) {
  const std::optional<stats::Claim> claim = ClaimOfRun(run, attempts);
  if (!claim) return "";
  std::string out = "\nRequired: a first token within " + Duration(claim->required_ns) +
                    " after every idle time\n";
  out +=
      Wrapped(std::string(stats::ClaimWordName(claim->word)) + ": " + claim->reason, columns, "  ");
  if (claim->bound) out += Wrapped(BoundWords(*claim->bound), columns, "  ");
  out += "  Layers, read after the idle time and before the request:\n";
  for (const stats::ClaimRow& row : claim->rows) {
    const std::string layers = LayersAfterIdle(row.name, attempts);
    std::string line = row.name + ": ";
    line += row.bound
                ? "worst " + Duration(row.bound->worst_ns) + " of " + std::to_string(row.n)
                : std::to_string(row.n) + " counted, " + std::to_string(row.failures) + " failed";
    if (!layers.empty()) line += "; " + layers;
    out += Wrapped(line, columns, "    ");
  }
  return out;
}

std::string ClaimJson(const results::Run& run, std::span<const Attempt> attempts) {
  const std::optional<stats::Claim> claim = ClaimOfRun(run, attempts);
  if (!claim) return "null";
  Json out = {{"required_ttft_ns", std::llround(claim->required_ns)},
              {"word", std::string(stats::ClaimWordName(claim->word))},
              {"reason", claim->reason}};
  out["bound"] = BoundJson(claim->bound);
  if (claim->bound) out["bound"]["condition"] = claim->bound_name;
  out["conditions"] = Json::array();
  for (const stats::ClaimRow& row : claim->rows) {
    out["conditions"].push_back(
        {{"name", row.name},
         {"idle_ns", row.idle_ns},
         {"n", row.n},
         {"failures", row.failures},
         {"held", row.held ? Json(*row.held) : Json()},
         {"median_ns", EstimateJson(row.median.value)},
         {"median_ci", {EstimateJson(row.median.low), EstimateJson(row.median.high)}},
         {"bound", BoundJson(row.bound)},
         {"layers", LayersJson(row.name, attempts)}});
  }
  out["guards"] = Json::array();
  for (const stats::ClaimGuard& guard : claim->guards) {
    out["guards"].push_back({{"name", guard.name},
                             {"unit", guard.unit},
                             {"worst", guard.worst ? Json(*guard.worst) : Json()},
                             {"limit", guard.limit},
                             {"held", guard.worst ? Json(*guard.worst <= guard.limit) : Json()},
                             {"null_reason", guard.worst ? Json() : Json(guard.why_not_measured)}});
  }
  return out.dump();
}

}  // namespace rouse::report
