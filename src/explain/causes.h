// Which causes account for how much of an excess. Each row of the evidence table claims time from
// the stages in which it can act, in the table's order, and no time is claimed twice: what nobody
// claims is unattributed. The result ranks evidence; it never calls a correlation a cause.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "explain/evidence.h"

namespace rouse::explain {

struct StageExcessRow {
  results::Stage stage;
  std::optional<double> here_ns;
  std::optional<double> usual_ns;
  std::optional<results::StageSource> source;
  double Excess() const { return here_ns.value_or(0) - usual_ns.value_or(0); }
};

struct Claim {
  CauseId cause;
  double claimed_ns = 0;
  std::string sentence;
};

struct Attribution {
  double excess_ns = 0;
  std::vector<StageExcessRow> stages;    // all that either side knows, in the order of a start
  std::optional<results::Stage> holder;  // with the largest excess
  std::vector<Claim> claims;             // largest first
  std::vector<Claim> without_cost;       // present, but their stages hold no time worth naming
  std::vector<Claim> ruled_out;          // looked for and not there
  std::vector<Claim> unknown;            // could not be looked for
  double unattributed_ns = 0;
};

// `each.excess_ns` must be above 0.
Attribution Attribute(const Case& each);

// An excess that the reference itself shows between its own attempts needs no cause: at most 5 % or
// 1 ms, or no more than its slowest attempt took.
bool WithinReference(const Profile& subject, const Profile& reference);

}  // namespace rouse::explain
