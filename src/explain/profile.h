// What one attempt, or the middle of several, looked like: the two sides that evidence is read
// from. Pure data and medians; nothing is judged here.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "results/attempt.h"

namespace rouse::explain {

// A layer as the request met it. `share` for the page cache, `word` for all others.
struct LayerView {
  std::optional<double> share;
  std::string word;
  std::string proof;     // how it was read; "" when it was not
  int64_t readings = 0;  // attempts that have one
  bool agree = true;     // every reading says the same (shares: within 0.02)
};

// Medians over the attempts that have a value; empty when none has.
struct Profile {
  int64_t n = 0;          // attempts, the failed ones included
  int64_t with_ttft = 0;  // those that the times are of
  std::optional<double> ttft_ns;
  std::optional<double> ttft_max_ns;
  std::array<std::optional<double>, results::kStageCount> stages_ns;
  std::array<std::optional<results::StageSource>, results::kStageCount> stage_sources;
  std::map<std::string, double, std::less<>> counters;
  std::map<std::string, std::string, std::less<>> null_reasons;
  std::optional<double> prompt_tokens;
  std::optional<double> cached_tokens;
  std::optional<double> token_events;
  std::optional<double> generation_ns;  // first to last token
  std::optional<double> connected_ns;   // mark
  std::optional<bool> reused;           // connection of all attempts
  std::optional<double> idle_ns;
  // Bytes of lanes that moved bytes, and the time that they took together (union, not sum).
  std::optional<double> lane_bytes;
  std::optional<double> lane_ns;
  std::map<std::string, LayerView, std::less<>> layers;

  std::optional<double> Stage(results::Stage stage) const {
    return stages_ns[static_cast<size_t>(stage)];
  }
  std::optional<double> Counter(std::string_view name) const;
  const LayerView* Layer(std::string_view name) const;  // nullptr when it was never read
};

// Primes and attempts that never sent a request belong not here; the caller leaves them out. The
// reading of a layer is the one at the send, else the one before (the connection's and the prefix
// cache's: after, since only the answer tells them).
Profile ProfileOf(std::span<const results::Attempt* const> attempts);

// Whether the attempt can stand for what a condition usually looks like.
bool CanBeReference(const results::Attempt& attempt);

}  // namespace rouse::explain
