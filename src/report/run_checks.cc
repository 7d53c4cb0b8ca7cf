#include "report/run_checks.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/units.h"
#include "report/sample.h"
#include "results/metrics.h"

namespace rouse::report {
namespace {

using results::Attempt;
using results::Outcome;

constexpr size_t kAttemptsOfEachLength = 3;
constexpr int64_t kMoreTokens = 128;
// A TTFT that grows by less than this when the prompt doubles does not depend on it.
constexpr double kSameTtft = 1.05;

// A limit ("at least L") is no place to compare with; a percentile among failures is one.
bool Below(const stats::Estimate& upper, const stats::Estimate& lower) {
  const auto a = upper.Value();
  const auto b = lower.Value();
  return a && b && *a < *b;
}

std::string Duration(const stats::Estimate& estimate) {
  return FormatDuration(static_cast<int64_t>(estimate.value));
}

// Attempts that a longer prompt alone may tell apart: the same states and idle time.
std::string Situation(const results::Run& run, const std::string& condition) {
  const auto row = std::ranges::find(run.conditions, condition, &results::ConditionRow::name);
  // An imported run has no states: its conditions are compared within themselves only.
  if (row == run.conditions.end() || row->state.empty()) return "condition " + condition;
  if (row->changed.find("target_args") != std::string::npos) return "condition " + condition;
  std::string key;
  for (const auto& [layer, value] : row->state) key += layer + "=" + value + ";";
  return key + "idle=" + std::to_string(row->idle_ns.value_or(0));
}

struct Length {
  int64_t computed_tokens;  // of the prompt, without those from the prefix cache
  int64_t ttft_ns;
};

int64_t MedianOf(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// The median TTFT of the shortest prompts against that of those at least twice as long.
void CompareLengths(const std::vector<Length>& lengths, std::vector<results::Warning>& warnings) {
  if (lengths.size() < 2 * kAttemptsOfEachLength) return;
  const int64_t least =
      std::ranges::min_element(lengths, {}, &Length::computed_tokens)->computed_tokens;
  const int64_t far = std::max(2 * least, least + kMoreTokens);
  std::vector<int64_t> short_ns;
  std::vector<int64_t> long_ns;
  for (const Length& each : lengths) {
    // Up to a tenth more is the same length: salts and templates vary by a few tokens.
    if (each.computed_tokens <= least + least / 10) short_ns.push_back(each.ttft_ns);
    if (each.computed_tokens >= far) long_ns.push_back(each.ttft_ns);
  }
  if (short_ns.size() < kAttemptsOfEachLength || long_ns.size() < kAttemptsOfEachLength) return;
  const int64_t of_short_ns = MedianOf(std::move(short_ns));
  const int64_t of_long_ns = MedianOf(std::move(long_ns));
  if (static_cast<double>(of_long_ns) > static_cast<double>(of_short_ns) * kSameTtft) return;
  warnings.push_back(
      {"ttft_ignores_prompt",
       "prompts of " + std::to_string(far) + " tokens and more had their first token after " +
           FormatDuration(of_long_ns) + ", those of " + std::to_string(least) + " after " +
           FormatDuration(of_short_ns) +
           ": something answers before the prompt is read, or the prompt's share is nothing beside "
           "a cost that every request has (look at the first events with rouse probe --events)"});
}

}  // namespace

std::vector<results::Warning> CheckPercentiles(const std::string& where,
                                               const stats::SampleSummary& summary) {
  std::vector<results::Warning> warnings;
  const auto check = [&](const char* upper_name, const stats::Estimate& upper,
                         const char* lower_name, const stats::Estimate& lower) {
    if (!Below(upper, lower)) return;
    warnings.push_back(
        {"percentile_out_of_order", where + ": the " + upper_name + " (" + Duration(upper) +
                                        ") is below the " + lower_name + " (" + Duration(lower) +
                                        "), which cannot be: a bug in rouse, please report it"});
  };
  check("median", summary.median.value, "smallest value", summary.min);
  check("p90", summary.p90.value, "median", summary.median.value);
  check("p95", summary.p95.value, "p90", summary.p90.value);
  check("p99", summary.p99.value, "p95", summary.p95.value);
  for (const auto& [name, value] :
       {std::pair{"p99", &summary.p99.value}, std::pair{"p95", &summary.p95.value},
        std::pair{"p90", &summary.p90.value}, std::pair{"median", &summary.median.value}}) {
    check("largest value", summary.max, name, *value);
  }
  for (const auto& [name, quantile] :
       {std::pair{"median", &summary.median}, std::pair{"p90", &summary.p90},
        std::pair{"p95", &summary.p95}, std::pair{"p99", &summary.p99}}) {
    const std::string low = std::string(name) + "'s lower bound";
    const std::string high = std::string(name) + "'s upper bound";
    check(name, quantile->value, low.c_str(), quantile->low);
    check(high.c_str(), quantile->high, name, quantile->value);
  }
  return warnings;
}

std::vector<results::Warning> CheckPromptLength(const results::Run& run,
                                                std::span<const Attempt> attempts) {
  std::map<std::string, std::vector<Length>> situations;
  for (const Attempt& attempt : attempts) {
    if (attempt.prime || attempt.outcome != Outcome::kOk || !attempt.ttft_ns) continue;
    if (!attempt.tokens.prompt) continue;
    const int64_t computed = *attempt.tokens.prompt - attempt.tokens.cached.value_or(0);
    if (computed < 1) continue;
    situations[Situation(run, attempt.condition)].push_back({computed, *attempt.ttft_ns});
  }
  std::vector<results::Warning> warnings;
  for (const auto& [situation, lengths] : situations) CompareLengths(lengths, warnings);
  return warnings;
}

std::vector<results::Warning> RunWarnings(const results::Run& run,
                                          std::span<const Attempt> attempts) {
  std::vector<results::Warning> warnings = CheckPromptLength(run, attempts);
  const results::Metric* const ttft = results::FindMetric("ttft_ns");
  if (ttft == nullptr) return warnings;
  for (const ConditionAttempts& condition : ByCondition(run, attempts)) {
    const stats::SampleSummary summary = stats::Summarize(SampleOf(condition, *ttft).sample);
    for (results::Warning& warning : CheckPercentiles(condition.name, summary)) {
      warnings.push_back(std::move(warning));
    }
  }
  return warnings;
}

}  // namespace rouse::report
