// Client marks + server segments -> exclusive stages that sum to the TTFT, whatever goes in.
// Defined in docs/method.md ("stages"). Pure: no clock, no I/O.
#pragma once

#include <optional>
#include <vector>

#include "results/attempt.h"

namespace rouse::lab {

struct TimelineInput {
  results::Marks marks;
  results::OptionalNs ttft_ns;
  // The request's own segments as the server told them, relative to the intended send time; may be
  // out of order, overlap, or reach outside [0, ttft]: they are clipped, and the earlier one wins.
  std::vector<results::Segment> segments;
  // Whether the server tells a complete timeline: stages without a segment are then 0, not null,
  // and the gaps before its first and after its last segment are the wire's.
  bool has_timeline = false;
  // The intended send time was the moment at which the server's process was started: until the
  // first accepted connection the request waits for that process.
  bool process_new = false;
  results::OptionalNs first_accepted_ns;  // else marks.connected is taken
  // When the try began that was answered. A starting server may accept and answer 503 before:
  // that waiting is the server's, not the wire's.
  results::OptionalNs answered_try_ns = {};
  // A prefill duration that the server reports without saying when it began (llama-server's
  // prompt_ms, Ollama's prompt_eval_duration).
  results::OptionalNs reported_prefill_ns;
};

struct TimelineResult {
  results::Stages stages;
  std::vector<results::Warning> warnings;  // e.g. a reported prefill longer than the TTFT
};

// With a TTFT the stages' known values are >= 0 and sum to it exactly; without one all are empty.
TimelineResult ComputeStages(const TimelineInput& input);

// The sum of the known stages, or empty when none is known.
results::OptionalNs StageSum(const results::Stages& stages);

}  // namespace rouse::lab
