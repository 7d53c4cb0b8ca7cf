// What a run with `verify = true` found beside its attempts: one row a case
// (docs/presets/verify.md). Plain data; the cases themselves are in lab/verify.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rouse::results {

// What kind of claim a case tests. A feature works when its benefit and both of its boundaries were
// seen: that it refuses well, and that it comes back.
enum class CaseKind { kBenefit, kRefused, kRecovery };
enum class CaseStatus {
  kPlanned,
  kPassed,
  kFailed,
  kUndecided,    // it was run, and what it found decides nothing
  kLeftOut,      // the target, or this machine, cannot be brought to it
  kInterrupted,  // begun or never begun: it is run again when the run is resumed
};

std::string_view CaseKindName(CaseKind kind);        // "benefit", "refused", "recovery"
std::string_view CaseStatusName(CaseStatus status);  // "passed", "failed", "left_out", ...
std::optional<CaseKind> CaseKindFromName(std::string_view name);
std::optional<CaseStatus> CaseStatusFromName(std::string_view name);

struct VerificationCase {
  std::string name;
  CaseKind kind = CaseKind::kBenefit;
  std::string does = {};          // what is done to the server
  std::string expects = {};       // what has to be seen
  std::string nothing_lost = {};  // what has to be there afterwards
  int64_t bound_ns = 0;
  CaseStatus status = CaseStatus::kPlanned;
  std::string detail = {};  // the evidence, or why it failed, was left out or decides nothing
  std::optional<int64_t> took_ns = {};  // of what has the bound
};

enum class VerificationVerdict {
  kPassed,       // nothing failed; a benefit, a refusal and a recovery were seen
  kFailed,       // a case failed
  kNotShown,     // nothing failed, but one of the three was not seen, or a case decides nothing
  kInterrupted,  // cases are still to be run
};
std::string_view VerificationVerdictName(VerificationVerdict verdict);

VerificationVerdict Judge(std::span<const VerificationCase> cases);

}  // namespace rouse::results
