#include "results/verification.h"

#include <gtest/gtest.h>

#include <vector>

namespace rouse::results {
namespace {

std::vector<VerificationCase> Of(CaseStatus benefit, CaseStatus refused, CaseStatus recovery) {
  return {{.name = "b", .kind = CaseKind::kBenefit, .status = benefit},
          {.name = "f", .kind = CaseKind::kRefused, .status = refused},
          {.name = "r", .kind = CaseKind::kRecovery, .status = recovery}};
}

constexpr CaseStatus kPassed = CaseStatus::kPassed;
constexpr CaseStatus kLeft = CaseStatus::kLeftOut;

TEST(Verification, PassesOnlyWhenBenefitRefusalAndRecoveryWereSeen) {
  EXPECT_EQ(Judge(Of(kPassed, kPassed, kPassed)), VerificationVerdict::kPassed);
  EXPECT_EQ(Judge(Of(kLeft, kPassed, kPassed)), VerificationVerdict::kNotShown);
  EXPECT_EQ(Judge(Of(kPassed, kLeft, kPassed)), VerificationVerdict::kNotShown);
  EXPECT_EQ(Judge(Of(kPassed, kPassed, kLeft)), VerificationVerdict::kNotShown);
  EXPECT_EQ(Judge({}), VerificationVerdict::kNotShown);
}

TEST(Verification, ACaseThatDecidesNothingKeepsItFromPassing) {
  std::vector<VerificationCase> cases = Of(kPassed, kPassed, kPassed);
  cases.push_back({.name = "b2", .kind = CaseKind::kBenefit, .status = CaseStatus::kUndecided});
  EXPECT_EQ(Judge(cases), VerificationVerdict::kNotShown);
  cases.back().status = kLeft;
  EXPECT_EQ(Judge(cases), VerificationVerdict::kPassed);
}

TEST(Verification, AFailureIsOneEvenWhenTheRestWasInterrupted) {
  EXPECT_EQ(Judge(Of(kPassed, CaseStatus::kInterrupted, kPassed)),
            VerificationVerdict::kInterrupted);
  EXPECT_EQ(Judge(Of(kPassed, CaseStatus::kPlanned, kPassed)), VerificationVerdict::kInterrupted);
  EXPECT_EQ(Judge(Of(kLeft, CaseStatus::kFailed, CaseStatus::kInterrupted)),
            VerificationVerdict::kFailed);
}

TEST(Verification, EveryNameIsReadBack) {
  for (const CaseStatus status :
       {CaseStatus::kPlanned, CaseStatus::kPassed, CaseStatus::kFailed, CaseStatus::kUndecided,
        CaseStatus::kLeftOut, CaseStatus::kInterrupted}) {
    EXPECT_EQ(CaseStatusFromName(CaseStatusName(status)), status);
  }
  for (const CaseKind kind : {CaseKind::kBenefit, CaseKind::kRefused, CaseKind::kRecovery}) {
    EXPECT_EQ(CaseKindFromName(CaseKindName(kind)), kind);
  }
  EXPECT_FALSE(CaseStatusFromName("fine").has_value());
  EXPECT_FALSE(CaseKindFromName("").has_value());
}

}  // namespace
}  // namespace rouse::results
