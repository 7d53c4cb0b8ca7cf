#include "report/verify_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "base/strings.h"

namespace rouse::report {
namespace {

using results::CaseKind;
using results::CaseStatus;
using results::VerificationCase;
using testing::HasSubstr;
using testing::Not;

std::vector<VerificationCase> Example() {
  return {{.name = "warm is earlier",
           .kind = CaseKind::kBenefit,
           .does = "asks",
           .expects = "early",
           .nothing_lost = "all",
           .bound_ns = 2'000'000'000,
           .status = CaseStatus::kPassed,
           .detail = "the interval lies below",
           .took_ns = 40'000'000},
          {.name = "queue full",
           .kind = CaseKind::kRefused,
           .status = CaseStatus::kLeftOut,
           .detail = "no limit is known"},
          {.name = "killed while idle",
           .kind = CaseKind::kRecovery,
           .status = CaseStatus::kFailed,
           .detail = "it stays dead \x1b[2J and says so " + std::string(200, 'x')}};
}

TEST(VerificationText, ShowsEachCaseWithItsStatusAndEvidence) {
  const std::string text = RenderVerification(Example(), {.columns = 80});
  EXPECT_THAT(text, HasSubstr("  warm is earlier         passed       40.0 ms (bound 2.00 s)\n"
                              "    the interval lies below\n"));
  EXPECT_THAT(text, HasSubstr("  queue full              left out\n    no limit is known\n"));
  EXPECT_THAT(text, HasSubstr("Verification failed (1 passed, 1 failed, 1 left out).\n"));
}

TEST(VerificationText, SaysWhatIsStillToBeRun) {
  std::vector<VerificationCase> cases = Example();
  cases.at(2).status = CaseStatus::kPlanned;
  EXPECT_THAT(RenderVerification(cases, {.columns = 80}),
              HasSubstr("Verification not complete (1 passed, 1 left out, 1 to be run).\n"));
}

TEST(VerificationText, OfARunWithoutCasesThereIsNone) {
  EXPECT_EQ(RenderVerification({}, {.columns = 80}), "");
  EXPECT_EQ(VerificationJson({}), "null");
}

TEST(VerificationText, IsHarmlessAndNeverWiderThanTheTerminal) {
  const std::string text = RenderVerification(Example(), {.columns = 80});
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  for (const std::string_view line : SplitAt(text, '\n')) EXPECT_LE(DisplayColumns(line), 80);
}

TEST(VerificationText, TellsOfAPlanWhatEachCaseDoesAndItsBound) {
  std::vector<VerificationCase> cases = Example();
  cases.at(0).status = CaseStatus::kPlanned;
  const std::string text = RenderCasesToCome(cases, {.columns = 80});
  EXPECT_THAT(text, HasSubstr("  warm is earlier         bound 2.00 s\n    does: asks\n"
                              "    passes when: early\n    nothing lost: all\n"));
  EXPECT_THAT(text, HasSubstr("left out\n    no limit is known"));
}

TEST(VerificationJson, HasTheVerdictAndEachCaseWithNullForWhatWasNotMeasured) {
  const auto json = nlohmann::json::parse(VerificationJson(Example()));
  EXPECT_EQ(json["verdict"], "failed");
  ASSERT_EQ(json["cases"].size(), 3U);
  EXPECT_EQ(json["cases"][0]["kind"], "benefit");
  EXPECT_EQ(json["cases"][0]["status"], "passed");
  EXPECT_EQ(json["cases"][0]["took_ns"], 40'000'000);
  EXPECT_EQ(json["cases"][1]["status"], "left_out");
  EXPECT_TRUE(json["cases"][1]["took_ns"].is_null());
  EXPECT_TRUE(json["cases"][1]["bound_ns"].is_null());
}

}  // namespace
}  // namespace rouse::report
