#include "explain/profile.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "stats/summary.h"

namespace rouse::explain {
namespace {

using results::Attempt;
using results::LayerReading;

class Medians {
 public:
  void Add(const std::optional<int64_t>& value) {
    if (value) values_.push_back(static_cast<double>(*value));
  }
  void Add(double value) { values_.push_back(value); }
  std::optional<double> Value() const {
    return values_.empty() ? std::nullopt : std::optional<double>(stats::Median(values_));
  }

 private:
  std::vector<double> values_;
};

// The file's reading in force when the request was sent.
const LayerReading* ReadingOf(const Attempt& attempt, const std::string& layer) {
  const bool told_by_answer = layer == "connection" || layer == "prefix_cache";
  const std::array<const results::LayerReadings*, 2> order =
      told_by_answer ? std::array<const results::LayerReadings*, 2>{&attempt.state_after, nullptr}
                     : std::array<const results::LayerReadings*, 2>{&attempt.state_at_send,
                                                                    &attempt.state_before};
  for (const results::LayerReadings* const readings : order) {
    if (readings == nullptr) continue;
    const auto found = readings->find(layer);
    if (found == readings->end()) continue;
    if (!std::holds_alternative<std::monostate>(found->second.value)) return &found->second;
  }
  return nullptr;
}

constexpr double kSameShare = 0.02;  // the contract's tolerance of a page-cache share

LayerView ViewOf(std::span<const Attempt* const> attempts, const std::string& layer) {
  LayerView view;
  std::vector<double> shares;
  std::map<std::string, int64_t> words;
  for (const Attempt* const attempt : attempts) {
    const LayerReading* const reading = ReadingOf(*attempt, layer);
    if (reading == nullptr) continue;
    ++view.readings;
    if (view.proof.empty()) view.proof = reading->proof;
    if (const double* const share = std::get_if<double>(&reading->value)) {
      shares.push_back(*share);
    } else {
      ++words[std::get<std::string>(reading->value)];
    }
  }
  if (!shares.empty()) {
    view.share = stats::Median(shares);
    const auto [low, high] = std::minmax_element(shares.begin(), shares.end());
    view.agree = *high - *low <= 2 * kSameShare && words.empty();
  }
  int64_t most = 0;
  for (const auto& [word, count] : words) {
    if (count > most) view.word = word;
    most = std::max(most, count);
  }
  if (words.size() > 1) view.agree = false;
  return view;
}

struct LaneTotals {
  int64_t bytes = 0;
  int64_t ns = 0;
};

// The lane that a copy of bytes ran in; lanes may overlap, so their time is that of their union.
LaneTotals TotalsOf(const Attempt& attempt) {
  LaneTotals totals;
  std::vector<std::pair<int64_t, int64_t>> spans;
  for (const results::Lane& lane : attempt.lanes) {
    if (!lane.bytes || *lane.bytes <= 0 || lane.name == "context") continue;
    totals.bytes += *lane.bytes;
    spans.emplace_back(lane.start_ns, lane.end_ns);
  }
  std::sort(spans.begin(), spans.end());
  int64_t covered_to = INT64_MIN;
  for (const auto& [start, end] : spans) {
    const int64_t from = std::max(start, covered_to);
    if (end > from) totals.ns += end - from;
    covered_to = std::max(covered_to, end);
  }
  return totals;
}

void FillCounters(std::span<const Attempt* const> attempts, Profile& profile) {
  std::map<std::string, Medians> values;
  for (const Attempt* const attempt : attempts) {
    for (const auto& [name, value] : attempt->counters) {
      if (!value) continue;
      values[name].Add(std::visit([](auto number) { return static_cast<double>(number); }, *value));
    }
    for (const auto& [field, reason] : attempt->null_reasons) profile.null_reasons[field] = reason;
  }
  for (const auto& [name, medians] : values) {
    if (const std::optional<double> value = medians.Value()) profile.counters[name] = *value;
  }
}

void FillStages(std::span<const Attempt* const> attempts, Profile& profile) {
  for (size_t i = 0; i < profile.stages_ns.size(); ++i) {
    Medians medians;
    for (const Attempt* const attempt : attempts) {
      medians.Add(attempt->stages[i].ns);
      if (attempt->stages[i].source) profile.stage_sources[i] = attempt->stages[i].source;
    }
    profile.stages_ns[i] = medians.Value();
  }
}

void FillLayers(std::span<const Attempt* const> attempts, Profile& profile) {
  for (const Attempt* const attempt : attempts) {
    for (const results::LayerReadings* const readings :
         {&attempt->state_before, &attempt->state_at_send, &attempt->state_after}) {
      for (const auto& [layer, reading] : *readings) profile.layers.try_emplace(layer);
    }
  }
  for (auto& [layer, view] : profile.layers) view = ViewOf(attempts, layer);
  std::erase_if(profile.layers, [](const auto& entry) { return entry.second.readings == 0; });
}

}  // namespace

std::optional<double> Profile::Counter(std::string_view name) const {
  const auto found = counters.find(name);
  return found == counters.end() ? std::nullopt : std::optional<double>(found->second);
}

const LayerView* Profile::Layer(std::string_view name) const {
  const auto found = layers.find(name);
  return found == layers.end() ? nullptr : &found->second;
}

Profile ProfileOf(std::span<const Attempt* const> attempts) {
  Profile profile;
  Medians ttft, prompt, cached, token_events, generation, connected, idle, bytes, lane_ns;
  for (const Attempt* const attempt : attempts) {
    ++profile.n;
    if (attempt->ttft_ns) {
      ++profile.with_ttft;
      const double value = static_cast<double>(*attempt->ttft_ns);
      profile.ttft_max_ns = std::max(profile.ttft_max_ns.value_or(value), value);
    }
    ttft.Add(attempt->ttft_ns);
    prompt.Add(attempt->tokens.prompt);
    cached.Add(attempt->tokens.cached);
    token_events.Add(attempt->stream.token_events);
    connected.Add(attempt->marks.connected);
    idle.Add(attempt->idle_ns);
    if (attempt->marks.first_token && attempt->marks.last_token) {
      generation.Add(static_cast<double>(*attempt->marks.last_token - *attempt->marks.first_token));
    }
    if (attempt->connection.reused) {
      profile.reused = profile.reused.value_or(true) && *attempt->connection.reused;
    }
    const LaneTotals lanes = TotalsOf(*attempt);
    if (lanes.bytes > 0 && lanes.ns > 0) {
      bytes.Add(static_cast<double>(lanes.bytes));
      lane_ns.Add(static_cast<double>(lanes.ns));
    }
  }
  profile.ttft_ns = ttft.Value();
  profile.prompt_tokens = prompt.Value();
  profile.cached_tokens = cached.Value();
  profile.token_events = token_events.Value();
  profile.generation_ns = generation.Value();
  profile.connected_ns = connected.Value();
  profile.idle_ns = idle.Value();
  profile.lane_bytes = bytes.Value();
  profile.lane_ns = lane_ns.Value();
  FillStages(attempts, profile);
  FillCounters(attempts, profile);
  FillLayers(attempts, profile);
  return profile;
}

bool CanBeReference(const Attempt& attempt) {
  return !attempt.prime && attempt.outcome == results::Outcome::kOk && attempt.ttft_ns.has_value();
}

}  // namespace rouse::explain
