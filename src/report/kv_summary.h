// What the KV cache's type and flash attention change, from conditions that vary them by
// `target_args`: time, memory, and whether the greedy answers stayed the same. Computes; prints
// nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/terminal.h"
#include "results/attempt.h"
#include "results/run.h"

namespace rouse::report {

struct KvRow {
  std::string condition;
  std::string arguments;  // as the condition has them
  int64_t n = 0;
  std::optional<double> ttft_ns;  // medians of the successes
  std::optional<double> rss_bytes;
  std::optional<double> kv_bytes;
  std::optional<double> prefix_bytes;  // of the prompt and the answer, kept or saved
  std::optional<double> prefix_tokens;
  // Blocks in which both this condition and the reference have an answer, and in which they differ.
  int64_t compared = 0;
  int64_t changed = 0;
  // Where the first difference is, in bytes from the start: the median; only when texts are kept.
  std::optional<double> first_difference_bytes;
};

struct KvSummary {
  std::string reference;  // the condition whose answers the others are compared with
  // Whether the conditions of a block were asked exactly the same: else answers say nothing.
  bool same_prompts = false;
  std::vector<KvRow> rows;
};

// Nothing when no two conditions differ in such an argument.
std::optional<KvSummary> SummarizeKv(const results::Run& run,
                                     std::span<const results::Attempt> attempts);

std::string KvText(const KvSummary& summary, const TerminalOptions& options);
std::string KvJson(const KvSummary& summary);

}  // namespace rouse::report
