#include "results/verification.h"

#include <algorithm>
#include <array>

namespace rouse::results {
namespace {

constexpr std::array<std::string_view, 3> kKinds = {"benefit", "refused", "recovery"};
constexpr std::array<std::string_view, 6> kStatuses = {"planned",   "passed",   "failed",
                                                       "undecided", "left_out", "interrupted"};
constexpr std::array<std::string_view, 4> kVerdicts = {"passed", "failed", "not_shown",
                                                       "interrupted"};

template <typename Enum, size_t size>
std::optional<Enum> Find(const std::array<std::string_view, size>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

}  // namespace

std::string_view CaseKindName(CaseKind kind) { return kKinds.at(static_cast<size_t>(kind)); }
std::string_view CaseStatusName(CaseStatus status) {
  return kStatuses.at(static_cast<size_t>(status));
}
std::optional<CaseKind> CaseKindFromName(std::string_view name) {
  return Find<CaseKind>(kKinds, name);
}
std::optional<CaseStatus> CaseStatusFromName(std::string_view name) {
  return Find<CaseStatus>(kStatuses, name);
}
std::string_view VerificationVerdictName(VerificationVerdict verdict) {
  return kVerdicts.at(static_cast<size_t>(verdict));
}

VerificationVerdict Judge(std::span<const VerificationCase> cases) {
  const auto any = [&](CaseStatus status) {
    return std::ranges::any_of(cases,
                               [&](const VerificationCase& each) { return each.status == status; });
  };
  if (any(CaseStatus::kFailed)) return VerificationVerdict::kFailed;
  if (any(CaseStatus::kInterrupted) || any(CaseStatus::kPlanned)) {
    return VerificationVerdict::kInterrupted;
  }
  if (any(CaseStatus::kUndecided)) return VerificationVerdict::kNotShown;
  for (const CaseKind kind : {CaseKind::kBenefit, CaseKind::kRefused, CaseKind::kRecovery}) {
    const bool seen = std::ranges::any_of(cases, [&](const VerificationCase& each) {
      return each.kind == kind && each.status == CaseStatus::kPassed;
    });
    if (!seen) return VerificationVerdict::kNotShown;
  }
  return VerificationVerdict::kPassed;
}

}  // namespace rouse::results
