#include "report/benefit.h"

#include <algorithm>
#include <string>

#include "report/comparison.h"

namespace rouse::report {
namespace {

using results::Attempt;
using results::CaseStatus;
using results::Outcome;
using results::VerificationCase;

// The first attempt of one of the two sides that was sent and not answered; null when none is.
const Attempt* Lost(const Comparison& comparison, std::span<const Attempt> attempts) {
  for (const Attempt& attempt : attempts) {
    const bool counts = attempt.condition == comparison.treatment.condition ||
                        attempt.condition == comparison.control.condition;
    if (attempt.prime || !counts || !results::CountsInSample(attempt.outcome)) continue;
    if (attempt.outcome != Outcome::kOk) return &attempt;
  }
  return nullptr;
}

std::optional<int64_t> LatestFirstToken(const std::string& condition,
                                        std::span<const Attempt> attempts) {
  std::optional<int64_t> latest;
  for (const Attempt& attempt : attempts) {
    if (attempt.prime || attempt.condition != condition || !attempt.ttft_ns) continue;
    latest = std::max(latest.value_or(0), *attempt.ttft_ns);
  }
  return latest;
}

void JudgeOne(const Comparison& comparison, std::span<const Attempt> attempts,
              VerificationCase& row) {
  row.took_ns = LatestFirstToken(comparison.treatment.condition, attempts);
  if (const Attempt* const lost = Lost(comparison, attempts)) {
    row.status = CaseStatus::kFailed;
    row.detail = "an attempt of \"" + lost->condition + "\" ended as " +
                 std::string(results::OutcomeName(lost->outcome)) +
                 (lost->outcome_detail.empty() ? "" : ": " + lost->outcome_detail);
    return;
  }
  row.status = comparison.verdict == stats::Verdict::kAdopt    ? CaseStatus::kPassed
               : comparison.verdict == stats::Verdict::kReject ? CaseStatus::kFailed
                                                               : CaseStatus::kUndecided;
  row.detail = comparison.reason;
}

}  // namespace

Status JudgeBenefits(results::Run& run, std::span<const Attempt> attempts) {
  ASSIGN_OR_RETURN(const std::vector<Comparison> judged, JudgeHypotheses(run, attempts));
  for (VerificationCase& row : run.verification) {
    if (row.kind != results::CaseKind::kBenefit) continue;
    const auto found = std::ranges::find(judged, row.name, &Comparison::name);
    if (found != judged.end()) JudgeOne(*found, attempts, row);
  }
  return {};
}

}  // namespace rouse::report
