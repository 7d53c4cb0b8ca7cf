#include "report/benefit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rouse::report {
namespace {

using results::Attempt;
using results::CaseKind;
using results::CaseStatus;
using Experiment = results::Run;
using results::VerificationCase;
using testing::HasSubstr;

Attempt Answered(const std::string& condition, int64_t block, int64_t ttft_ms) {
  Attempt attempt;
  attempt.condition = condition;
  attempt.block = block;
  attempt.ttft_ns = ttft_ms * 1'000'000;
  return attempt;
}

class JudgeBenefitsTest : public testing::Test {
 protected:
  JudgeBenefitsTest() {
    for (const char* const name : {"warm", "cold"}) {
      results::ConditionRow row;
      row.name = name;
      run_.conditions.push_back(row);
    }
    run_.hypotheses.push_back(
        {"earlier", "ttft", "median", "warm", "cold", "decrease", "5%", 0.95, {}});
    run_.verification = {
        {.name = "earlier", .kind = CaseKind::kBenefit},
        {.name = "gone", .kind = CaseKind::kBenefit, .status = CaseStatus::kLeftOut},
        {.name = "missing model", .kind = CaseKind::kRefused}};
  }

  const VerificationCase& Judged(int64_t warm_ms, int64_t cold_ms) {
    if (attempts_.empty()) {
      for (int64_t block = 0; block < 8; ++block) {
        attempts_.push_back(Answered("warm", block, warm_ms + block));
        attempts_.push_back(Answered("cold", block, cold_ms + 2 * block));
      }
    }
    const Status judged = JudgeBenefits(run_, attempts_);
    CHECK(judged.ok());
    return run_.verification.front();
  }

  Experiment run_;
  std::vector<Attempt> attempts_;
};

TEST_F(JudgeBenefitsTest, AnAdoptedHypothesisIsABenefitThatWasSeen) {
  const VerificationCase& row = Judged(50, 90);
  EXPECT_EQ(row.status, CaseStatus::kPassed);
  EXPECT_EQ(row.took_ns, 57'000'000);
  EXPECT_FALSE(row.detail.empty());
}

TEST_F(JudgeBenefitsTest, ARejectedOneIsAFailure) {
  EXPECT_EQ(Judged(90, 50).status, CaseStatus::kFailed);
}

TEST_F(JudgeBenefitsTest, OneThatIsUndecidedIsNeitherSeenNorFailed) {
  EXPECT_EQ(Judged(50, 50).status, CaseStatus::kUndecided);
}

TEST_F(JudgeBenefitsTest, AnAnswerThatNeverCameIsLostWhateverTheVerdictIs) {
  Judged(50, 90);
  attempts_.at(3).outcome = results::Outcome::kTruncated;
  attempts_.at(3).outcome_detail = "closed early";
  attempts_.at(3).ttft_ns.reset();
  const VerificationCase& row = Judged(50, 90);
  EXPECT_EQ(row.status, CaseStatus::kFailed);
  EXPECT_THAT(row.detail, HasSubstr("\"cold\" ended as truncated: closed early"));
}

TEST_F(JudgeBenefitsTest, AStateThatWasNotReachedIsNoAnswerThatWasLost) {
  Judged(50, 90);
  attempts_.at(0).outcome = results::Outcome::kStateNotReached;
  attempts_.at(0).ttft_ns.reset();
  EXPECT_EQ(Judged(50, 90).status, CaseStatus::kPassed);
}

TEST_F(JudgeBenefitsTest, LeavesAllOtherCasesAsTheyAre) {
  Judged(50, 90);
  EXPECT_EQ(run_.verification.at(1).status, CaseStatus::kLeftOut);
  EXPECT_EQ(run_.verification.at(2).status, CaseStatus::kPlanned);
}

}  // namespace
}  // namespace rouse::report
