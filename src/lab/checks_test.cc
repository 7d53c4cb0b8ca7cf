#include "lab/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/fakes.h"

namespace rouse::lab {
namespace {

using results::Attempt;
using results::Stage;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kFileBytes = 100'000'000;

const Plan& QuickPlan() {
  static const Plan plan = Bench::ParseOrDie(std::string(FindPreset("quick")->toml));
  return plan;
}
const Condition& Warm() { return QuickPlan().conditions[0]; }
const Condition& Cold() { return QuickPlan().conditions[4]; }

// An attempt in which nothing is impossible.
Attempt Sound() {
  Attempt attempt;
  attempt.marks = {.send_start = 0,
                   .connected = 50'000,
                   .request_sent = 80'000,
                   .response_headers = 99'000'000,
                   .first_byte = 99'000'000,
                   .first_event = 99'500'000,
                   .first_token = 100'000'000,
                   .first_content = 100'000'000,
                   .last_token = 150'000'000,
                   .end = 150'100'000};
  attempt.ttft_ns = 100'000'000;
  attempt.stages[static_cast<size_t>(Stage::kPrefill)].ns = 99'500'000;
  attempt.stages[static_cast<size_t>(Stage::kUnattributed)].ns = 500'000;
  attempt.counters["target_read_bytes"] = int64_t{0};
  return attempt;
}

std::vector<std::string> Codes(const Condition& condition, Attempt attempt) {
  FlagImpossibleValues(condition, kFileBytes, true, attempt);
  std::vector<std::string> codes;
  for (const results::Warning& warning : attempt.warnings) codes.push_back(warning.code);
  return codes;
}

TEST(ImpossibleValues, LeaveASoundAttemptAlone) { EXPECT_THAT(Codes(Warm(), Sound()), IsEmpty()); }

TEST(ImpossibleValues, FlagATokenBeforeItsConnection) {
  Attempt attempt = Sound();
  attempt.marks.connected = 100'000'001;
  attempt.marks.request_sent.reset();
  attempt.marks.response_headers.reset();
  attempt.marks.first_byte.reset();
  attempt.marks.first_event.reset();
  EXPECT_THAT(Codes(Warm(), attempt), ElementsAre("marks_out_of_order", "ttft_below_connect"));
}

TEST(ImpossibleValues, FlagReadsOfAWarmFileAboveOnePercent) {
  Attempt attempt = Sound();
  attempt.counters["target_read_bytes"] = kFileBytes / 100;
  EXPECT_THAT(Codes(Warm(), attempt), IsEmpty());
  attempt.counters["target_read_bytes"] = kFileBytes / 100 + 1;
  EXPECT_THAT(Codes(Warm(), attempt), ElementsAre("read_with_warm_page_cache"));
  Condition locked = Warm();
  locked.state[Layer::kPageCache] = kLockedPages;
  EXPECT_THAT(Codes(locked, attempt), ElementsAre("read_with_warm_page_cache"));
}

TEST(ImpossibleValues, FlagAColdStartThatReadLessThanHalf) {
  Attempt attempt = Sound();
  attempt.counters["target_read_bytes"] = kFileBytes / 2;
  EXPECT_THAT(Codes(Cold(), attempt), IsEmpty());
  attempt.counters["target_read_bytes"] = kFileBytes / 2 - 1;
  EXPECT_THAT(Codes(Cold(), attempt), ElementsAre("no_read_with_cold_page_cache"));
}

TEST(ImpossibleValues, SayNothingAboutReadsThatWereNotMeasured) {
  Attempt attempt = Sound();
  attempt.counters["target_read_bytes"] = std::nullopt;
  EXPECT_THAT(Codes(Cold(), attempt), IsEmpty());
}

TEST(ImpossibleValues, FlagStagesThatDoNotSum) {
  Attempt attempt = Sound();
  attempt.stages[static_cast<size_t>(Stage::kPrefill)].ns = 99'499'999;
  EXPECT_THAT(Codes(Warm(), attempt), ElementsAre("stages_do_not_sum"));
}

TEST(ImpossibleValues, FlagAnUnattributedRestAboveTwoPercentAndOneMillisecond) {
  Attempt attempt = Sound();
  attempt.stages[static_cast<size_t>(Stage::kPrefill)].ns = 98'000'000;
  attempt.stages[static_cast<size_t>(Stage::kUnattributed)].ns = 2'000'000;
  EXPECT_THAT(Codes(Warm(), attempt), IsEmpty());
  attempt.stages[static_cast<size_t>(Stage::kPrefill)].ns = 97'999'999;
  attempt.stages[static_cast<size_t>(Stage::kUnattributed)].ns = 2'000'001;
  EXPECT_THAT(Codes(Warm(), attempt), ElementsAre("unattributed_large"));
}

TEST(ImpossibleValues, FlagCachedTokensWithAnEmptyPrefix) {
  Attempt attempt = Sound();
  results::LayerReading& reading = attempt.state_after["prefix_cache"];
  reading.wanted = "empty";
  reading.reached = true;
  EXPECT_THAT(Codes(Warm(), attempt), IsEmpty());
  reading.reached = false;
  reading.detail = "7 cached tokens";
  EXPECT_THAT(Codes(Warm(), attempt), ElementsAre("cached_tokens_with_empty_prefix"));
}

TEST(ImpossibleValues, FlagAnEmptiedCompileCacheThatTheAnswerDidNotFill) {
  Condition condition = Warm();
  condition.state[Layer::kCompileCache] = "empty";
  Attempt attempt = Sound();
  results::LayerReading& reading = attempt.state_after["compile_cache"];
  reading.value = std::string("kept");
  EXPECT_THAT(Codes(condition, attempt), IsEmpty());
  reading.value = std::string("empty");
  EXPECT_THAT(Codes(condition, attempt), ElementsAre("compile_cache_unused"));
  EXPECT_THAT(Codes(Warm(), attempt), IsEmpty());  // a kept one may stay empty
}

TEST(ImpossibleValues, FlagATokenAtTheMomentOfSending) {
  Attempt attempt = Sound();
  attempt.marks = {};
  attempt.ttft_ns = 0;
  attempt.stages = {};
  attempt.stages[0].ns = 0;
  EXPECT_THAT(Codes(Warm(), attempt), ElementsAre("ttft_not_positive"));
}

}  // namespace
}  // namespace rouse::lab
