#include "report/prompt_summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/terminal_text.h"
#include "base/units.h"
#include "report/sample.h"

namespace rouse::report {
namespace {

using Json = nlohmann::ordered_json;
using results::Attempt;
using results::ConditionRow;

struct Measured {
  double tokens = 0;
  double ttft_ns = 0;
};

std::string StateOf(const ConditionRow& row, const std::string& layer) {
  const auto found = row.state.find(layer);
  return found == row.state.end() ? "" : found->second;
}

bool Varies(const ConditionRow& row) { return !StateOf(row, "prompt_tokens").empty(); }

std::optional<Measured> MeasuredOf(const Attempt& attempt) {
  const bool counts = !attempt.prime && attempt.outcome == results::Outcome::kOk;
  if (!counts || !attempt.block || !attempt.ttft_ns || !attempt.tokens.prompt) return std::nullopt;
  return Measured{static_cast<double>(*attempt.tokens.prompt),
                  static_cast<double>(*attempt.ttft_ns)};
}

// Everything but the length and the prefix, as one text: lengths are compared within it.
std::string Surroundings(const ConditionRow& row) {
  std::string text;
  for (const auto& [layer, value] : row.state) {
    if (layer != "prompt_tokens" && layer != "prefix_cache") text += layer + "=" + value + ";";
  }
  return text;
}

// The median of the slopes between all pairs of different lengths.
std::optional<std::pair<double, double>> LineOf(const std::vector<Measured>& points) {
  std::vector<double> slopes;
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t k = i + 1; k < points.size(); ++k) {
      const double tokens = points[k].tokens - points[i].tokens;
      if (tokens != 0) slopes.push_back((points[k].ttft_ns - points[i].ttft_ns) / tokens);
    }
  }
  if (slopes.empty()) return std::nullopt;
  const double slope = stats::Median(slopes);
  std::vector<double> intercepts;
  for (const Measured& each : points) intercepts.push_back(each.ttft_ns - slope * each.tokens);
  return std::pair(slope, stats::Median(intercepts));
}

class Summarizer {
 public:
  Summarizer(const results::Run& run, std::span<const Attempt> attempts) : run_(run) {
    for (const ConditionAttempts& condition : ByCondition(run, attempts)) {
      for (const Attempt* const attempt : condition.attempts) {
        const std::optional<Measured> measured = MeasuredOf(*attempt);
        if (measured) of_[condition.name][*attempt->block] = *measured;
      }
    }
  }

  std::optional<PromptSummary> Run() {
    const ConditionRow* const root = Root();
    if (root == nullptr) return std::nullopt;
    PromptSummary summary;
    for (const char* const prefix : {"empty", "hit"}) {
      std::optional<PromptLine> line = Line(*root, prefix);
      if (line) summary.lines.push_back(*std::move(line));
    }
    if (summary.lines.empty()) return std::nullopt;
    if (summary.lines.front().prefix == "empty") AddColdStart(*root, summary);
    return summary;
  }

 private:
  // The first condition of a length: what surrounds it is what all lengths share.
  const ConditionRow* Root() const {
    for (const ConditionRow& row : run_.conditions) {
      if (Varies(row) && StateOf(row, "prefix_cache") == "empty") return &row;
    }
    return nullptr;
  }

  std::optional<PromptLine> Line(const ConditionRow& root, const std::string& prefix) const {
    PromptLine line;
    line.prefix = prefix;
    std::map<int64_t, std::vector<Measured>> blocks;
    for (const ConditionRow& row : run_.conditions) {
      const auto found = of_.find(row.name);
      if (!Varies(row) || StateOf(row, "prefix_cache") != prefix || found == of_.end()) continue;
      if (Surroundings(row) != Surroundings(root)) continue;
      std::vector<double> tokens;
      std::vector<double> ttfts;
      for (const auto& [block, measured] : found->second) {
        blocks[block].push_back(measured);
        tokens.push_back(measured.tokens);
        ttfts.push_back(measured.ttft_ns);
      }
      line.points.push_back({.condition = row.name,
                             .n = std::ssize(ttfts),
                             .tokens = stats::Median(tokens),
                             .ttft_ns = stats::Median(ttfts)});
    }
    if (line.points.size() < 2) return std::nullopt;
    std::ranges::sort(line.points, {}, &PromptPoint::tokens);
    stats::Sample slopes;
    stats::Sample intercepts;
    for (const auto& [block, points] : blocks) {
      const auto fitted = LineOf(points);
      if (!fitted) continue;
      slopes.values.push_back(fitted->first);
      intercepts.values.push_back(fitted->second);
    }
    line.blocks = std::ssize(slopes.values);
    if (line.blocks == 0) return std::nullopt;
    line.slope_ns = stats::Summarize(slopes).median;
    line.intercept_ns = stats::Summarize(intercepts).median;
    return line;
  }

  // The condition that differs from one of the lengths by what is colder than a loaded model.
  void AddColdStart(const ConditionRow& root, PromptSummary& summary) const {
    for (const ConditionRow& row : run_.conditions) {
      if (!Varies(row) || StateOf(row, "model") != "unloaded") continue;
      const ConditionRow* const warm = WarmTwin(root, row);
      if (warm == nullptr) continue;
      const auto cold = of_.find(row.name);
      const auto base = of_.find(warm->name);
      if (cold == of_.end() || base == of_.end()) continue;
      stats::Sample added;
      for (const auto& [block, measured] : cold->second) {
        const auto partner = base->second.find(block);
        if (partner == base->second.end()) continue;
        added.values.push_back(measured.ttft_ns - partner->second.ttft_ns);
      }
      if (added.values.empty()) continue;
      summary.cold_condition = row.name;
      summary.cold_ns = stats::Summarize(added).median;
      const double slope = summary.lines.front().slope_ns.value.value;
      const double cost = summary.cold_ns->value.value;
      if (slope > 0 && cost > 0) summary.overtakes_tokens = cost / slope;
      return;
    }
  }

  const ConditionRow* WarmTwin(const ConditionRow& root, const ConditionRow& cold) const {
    for (const ConditionRow& row : run_.conditions) {
      if (StateOf(row, "prompt_tokens") != StateOf(cold, "prompt_tokens")) continue;
      if (StateOf(row, "prefix_cache") == "empty" && Surroundings(row) == Surroundings(root)) {
        return &row;
      }
    }
    return nullptr;
  }

  const results::Run& run_;
  std::map<std::string, std::map<int64_t, Measured>> of_;  // condition -> block -> measured
};

std::string Rounded(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), value < 99.5 ? "%.1f" : "%.0f", value);
  return text.data();
}

std::string Time(double ns) {
  return (ns < 0 ? "-" : "") + FormatDuration(std::llround(std::fabs(ns)));
}

// Whether all lengths together differ by less than a tenth of the shortest one's TTFT: a rate of
// such a line is noise.
bool IsFlat(const PromptLine& line) {
  const double span = line.points.back().tokens - line.points.front().tokens;
  return line.slope_ns.value.value * span < 0.1 * line.points.front().ttft_ns;
}

// Tokens a second, with the bounds the other way round.
std::string RateWords(const PromptLine& line) {
  if (IsFlat(line)) return "no measurable time a token";
  const stats::Quantile& slope = line.slope_ns;
  std::string text = Rounded(1e9 / slope.value.value) + " tokens/s";
  const auto low = slope.low.Value();
  const auto high = slope.high.Value();
  if (low && high && *low > 0) {
    text += " (95 %: " + Rounded(1e9 / *high) + " to " + Rounded(1e9 / *low) + ")";
  }
  return text;
}

// Below 0 no request can be: then the points bend, and no straight line fits both ends.
std::string InterceptWords(const PromptLine& line) {
  const double ns = line.intercept_ns.value.value;
  if (ns >= 0) return ", and " + Time(ns) + " at no length";
  return "; the points bend upwards (a line through them is at " + Time(ns) + " at no length)";
}

Json QuantileJson(const stats::Quantile& quantile) {
  const auto number = [](const stats::Estimate& estimate) {
    const std::optional<double> value = estimate.Value();
    return value ? Json(*value) : Json();
  };
  return {{"median", number(quantile.value)},
          {"ci", {number(quantile.low), number(quantile.high)}}};
}

}  // namespace

std::optional<PromptSummary> SummarizePrompts(const results::Run& run,
                                              std::span<const Attempt> attempts) {
  return Summarizer(run, attempts).Run();
}

std::string PromptText(const PromptSummary& summary, const TerminalOptions& options) {
  std::string out = "\nTTFT against the prompt's length\n";
  for (const PromptLine& line : summary.lines) {
    const bool hit = line.prefix == "hit";
    out += WrapText((hit ? "Found in the prefix cache: " : "Computed anew: ") + RateWords(line) +
                        InterceptWords(line) + "; " + std::to_string(line.blocks) + " blocks.",
                    {.columns = options.columns, .indent = 2, .hanging = 4});
    for (const PromptPoint& point : line.points) {
      std::array<char, 96> text{};
      std::snprintf(text.data(), text.size(), "    %6.0f tokens %10s  (n = %lld)\n", point.tokens,
                    Time(point.ttft_ns).c_str(), static_cast<long long>(point.n));
      out += text.data();
    }
  }
  if (!summary.cold_ns) return out;
  std::string sentence = "\"" + FitText(summary.cold_condition, 40) + "\" costs " +
                         Time(summary.cold_ns->value.value) + " more than the same prompt warm";
  sentence += summary.overtakes_tokens
                  ? ": from about " + Rounded(*summary.overtakes_tokens) +
                        " tokens on, computing the prompt takes longer than that."
                  : ".";
  return out + WrapText(sentence, {.columns = options.columns, .indent = 2, .hanging = 4});
}

std::string PromptJson(const PromptSummary& summary) {
  Json lines = Json::array();
  for (const PromptLine& line : summary.lines) {
    Json points = Json::array();
    for (const PromptPoint& point : line.points) {
      points.push_back({{"condition", point.condition},
                        {"n", point.n},
                        {"tokens", point.tokens},
                        {"ttft_ns", point.ttft_ns}});
    }
    const double slope = line.slope_ns.value.value;
    lines.push_back({{"prefix_cache", line.prefix},
                     {"blocks", line.blocks},
                     {"slope_ns_per_token", QuantileJson(line.slope_ns)},
                     {"tokens_per_second", IsFlat(line) ? Json() : Json(1e9 / slope)},
                     {"intercept_ns", QuantileJson(line.intercept_ns)},
                     {"points", points}});
  }
  Json json = {{"lines", lines}};
  json["cold_start"] = Json();
  if (summary.cold_ns) {
    json["cold_start"] = {{"condition", summary.cold_condition},
                          {"added_ns", QuantileJson(*summary.cold_ns)},
                          {"overtaken_at_tokens",
                           summary.overtakes_tokens ? Json(*summary.overtakes_tokens) : Json()}};
  }
  return json.dump();
}

}  // namespace rouse::report
