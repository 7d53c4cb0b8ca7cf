// TTFT against the prompt's length, from conditions that vary it (`prompt_tokens`): a line for
// prompts computed anew and one for those found in the prefix cache, and the length from which on
// computing the prompt takes longer than starting the server. Computes; prints nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/terminal.h"
#include "results/attempt.h"
#include "results/run.h"
#include "stats/summary.h"

namespace rouse::report {

struct PromptPoint {
  std::string condition;
  int64_t n = 0;
  double tokens = 0;   // median of what the server counted
  double ttft_ns = 0;  // median of the successes
};

// Of one kind of prompt. In each block a line is laid through its attempts (the median of all
// slopes between two of them, Theil and Sen); here is the median of the blocks' lines.
struct PromptLine {
  std::string prefix;  // "empty" or "hit"
  std::vector<PromptPoint> points;
  stats::Quantile slope_ns;      // a token
  stats::Quantile intercept_ns;  // TTFT of a prompt of no length
  int64_t blocks = 0;
};

struct PromptSummary {
  std::vector<PromptLine> lines;
  // What a cold start adds at one length, as the median over the blocks; its condition.
  std::string cold_condition;
  std::optional<stats::Quantile> cold_ns;
  // Tokens whose prefill takes as long as that.
  std::optional<double> overtakes_tokens;
};

// Nothing when the run has fewer than two lengths.
std::optional<PromptSummary> SummarizePrompts(const results::Run& run,
                                              std::span<const results::Attempt> attempts);

std::string PromptText(const PromptSummary& summary, const TerminalOptions& options);
std::string PromptJson(const PromptSummary& summary);

}  // namespace rouse::report
