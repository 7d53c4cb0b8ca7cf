// What a server says of its own request, read from the JSON that it sent with its answer: the
// built-in server's timeline, llama-server's timings, Ollama's durations. Pure.
//
// Nothing is used under a wider name than it has: of foreign servers only the prefill's duration is
// a stage of ours (Ollama's load_duration covers queue, eviction, start, weights and polling, and
// is above zero when warm, so it stays in the verbatim JSON). docs/method.md, "stages".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "results/attempt.h"

namespace rouse::lab {

struct ServerTimeline {
  std::vector<results::Segment> segments;  // relative to the intended send time
  std::vector<results::Lane> lanes;
  std::optional<int64_t> cached_tokens;
};

// `rouse.timeline/1`. kCorrupt when it is anything else, names an unknown stage or another clock.
Result<ServerTimeline> ParseTimeline(std::string_view json, MonoTime send_start);

// The prefill's duration from `timings.prompt_ms` or `prompt_eval_duration` (ns), else empty.
std::optional<int64_t> ReportedPrefillNs(std::string_view timings_json);

}  // namespace rouse::lab
