// What no single attempt can show: values of a whole run that cannot be, or that mean something
// else than they seem to. Each is a code and a sentence; nothing is changed or removed. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/attempt.h"
#include "results/run.h"
#include "stats/summary.h"

namespace rouse::report {

// `percentile_out_of_order`: a percentile lies below a lower one, or outside of its own interval.
// Told, but impossible unless rouse itself is wrong. `where` begins the sentence.
std::vector<results::Warning> CheckPercentiles(const std::string& where,
                                               const stats::SampleSummary& summary);

// `ttft_ignores_prompt`: among attempts under the same states, prompts with at least twice the
// tokens to compute (and 128 more) had the same TTFT: something answers before prefill ends, or
// prefill is nothing beside a cost that every request has. Needs three attempts of either length
// and the server's token counts; without them nothing is said.
std::vector<results::Warning> CheckPromptLength(const results::Run& run,
                                                std::span<const results::Attempt> attempts);

// All of these for the run's TTFT.
std::vector<results::Warning> RunWarnings(const results::Run& run,
                                          std::span<const results::Attempt> attempts);

}  // namespace rouse::report
