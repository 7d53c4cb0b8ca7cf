#include "explain/causes.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace rouse::explain {
namespace {

using results::Stage;

constexpr double kSmallShare = 0.05;
constexpr double kSmallNs = 1e6;
constexpr int64_t kEnoughForSpread = 3;

// Time of each stage beyond the reference that no cause has claimed yet.
class Pool {
 public:
  explicit Pool(const Case& each) : left_ns_(each.excess_ns) {
    for (int i = 0; i < results::kStageCount; ++i) {
      const auto stage = static_cast<Stage>(i);
      const std::optional<double> here = each.subject.Stage(stage);
      if (!here) continue;
      any_ = true;
      const double more = *here - each.reference.Stage(stage).value_or(0);
      stages_[static_cast<size_t>(i)] = std::max(0.0, more);
    }
  }

  // Takes up to `wanted_ns` from the stages of the mask; without any stage known, from the whole.
  double Take(StageMask mask, std::optional<double> wanted_ns) {
    double taken = 0;
    double wanted = std::min(left_ns_, std::max(0.0, wanted_ns.value_or(left_ns_)));
    if (!any_) {
      left_ns_ -= wanted;
      return wanted;
    }
    for (int i = 0; i < results::kStageCount; ++i) {
      if ((mask & Mask(static_cast<Stage>(i))) == 0) continue;
      double& stage = stages_[static_cast<size_t>(i)];
      const double part = std::min(stage, wanted);
      stage -= part;
      wanted -= part;
      taken += part;
    }
    left_ns_ -= taken;
    return taken;
  }

  double left_ns() const { return left_ns_; }

 private:
  std::array<double, results::kStageCount> stages_{};
  bool any_ = false;
  double left_ns_;
};

void FillStages(const Case& each, Attribution& result) {
  double largest = 0;
  for (int i = 0; i < results::kStageCount; ++i) {
    const auto stage = static_cast<Stage>(i);
    StageExcessRow row{.stage = stage,
                       .here_ns = each.subject.Stage(stage),
                       .usual_ns = each.reference.Stage(stage),
                       .source = each.subject.stage_sources[static_cast<size_t>(i)]};
    if (!row.here_ns && !row.usual_ns) continue;
    if (row.Excess() > largest) {
      largest = row.Excess();
      result.holder = stage;
    }
    result.stages.push_back(row);
  }
}

}  // namespace

Attribution Attribute(const Case& each) {
  CHECK(each.excess_ns > 0);
  Attribution result;
  result.excess_ns = each.excess_ns;
  FillStages(each, result);
  Pool pool(each);
  for (const CauseRow& row : CauseRows()) {
    Finding finding = row.look(each);
    Claim claim{row.id, 0, std::move(finding.sentence)};
    if (finding.seen == Finding::Seen::kNo) {
      result.ruled_out.push_back(std::move(claim));
    } else if (finding.seen == Finding::Seen::kUnknown) {
      result.unknown.push_back(std::move(claim));
    } else {
      claim.claimed_ns = pool.Take(row.stages, finding.estimate_ns);
      const bool worth = claim.claimed_ns >= std::max(kSmallNs, kSmallShare * each.excess_ns);
      (worth ? result.claims : result.without_cost).push_back(std::move(claim));
    }
  }
  std::stable_sort(result.claims.begin(), result.claims.end(),
                   [](const Claim& a, const Claim& b) { return a.claimed_ns > b.claimed_ns; });
  result.unattributed_ns = each.excess_ns;
  for (const Claim& claim : result.claims) result.unattributed_ns -= claim.claimed_ns;
  return result;
}

bool WithinReference(const Profile& subject, const Profile& reference) {
  if (!subject.ttft_ns || !reference.ttft_ns) return false;
  const double excess = *subject.ttft_ns - *reference.ttft_ns;
  if (excess <= std::max(kSmallNs, kSmallShare * *reference.ttft_ns)) return true;
  return reference.with_ttft >= kEnoughForSpread && *subject.ttft_ns <= *reference.ttft_max_ns;
}

}  // namespace rouse::explain
