// The ladder: what each lost layer costs, with its interval, the stages that it went to and the
// state that was read back. For this folder only.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/terminal.h"
#include "results/attempt.h"
#include "results/run.h"
#include "stats/contrast.h"

namespace rouse::report {

struct LadderRow {
  std::string name;            // "page cache", or the condition's own name
  bool lost_layer = false;     // the row is a layer that was lost, by its name
  std::optional<double> cost;  // Hodges-Lehmann shift of the TTFT, ns; empty: `words` says why
  std::optional<stats::Interval> ci;
  std::string words;  // stages, evidence, or why it cannot be told
  bool sure() const { return cost && ci && (ci->low > 0 || ci->high < 0); }
};

// One row for each condition that has a base in this run, in the run's order. A condition that has
// what its base lacks (a prefix hit) is turned round, so that a cost is what is lost.
std::vector<LadderRow> Ladder(const results::Run& run, std::span<const results::Attempt> attempts);

// The rows as a table with its heading; "" when there is none.
std::string LadderText(std::span<const LadderRow> rows, const TerminalOptions& options);

}  // namespace rouse::report
