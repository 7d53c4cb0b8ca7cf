#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rouse::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Histogram, CountsIntoTheFirstBucketThatHoldsTheValue) {
  Histogram histogram;
  histogram.Observe(0);
  histogram.Observe(kNsPerMs);             // at a limit: that bucket
  histogram.Observe(kNsPerMs + 1);         // the next
  histogram.Observe(5000 * kNsPerSecond);  // beyond all
  std::string text;
  histogram.Render(text, "h", "a=\"b\"");
  EXPECT_THAT(text, HasSubstr("h_bucket{a=\"b\",le=\"0.001\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("h_bucket{a=\"b\",le=\"0.002\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("le=\"1048.576\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("h_bucket{a=\"b\",le=\"+Inf\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("h_sum{a=\"b\"} 5000.002\n"));
  EXPECT_THAT(text, HasSubstr("h_count{a=\"b\"} 4\n"));
}

TEST(Metrics, SumsTheSegmentsOfOneStage) {
  Metrics metrics;
  metrics.ObserveFirstToken(10 * kNsPerMs, {{"queue", {0}, {2 * kNsPerMs}},
                                            {"prefill", {2 * kNsPerMs}, {8 * kNsPerMs}},
                                            {"queue", {8 * kNsPerMs}, {10 * kNsPerMs}}});
  const std::string text = metrics.Render({});
  EXPECT_THAT(text, HasSubstr("rouse_stage_seconds_sum{stage=\"queue\"} 0.004\n"));
  EXPECT_THAT(text, HasSubstr("rouse_stage_seconds_count{stage=\"queue\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("rouse_stage_seconds_sum{stage=\"prefill\"} 0.006\n"));
  EXPECT_THAT(text, HasSubstr("rouse_ttft_seconds_sum 0.01\n"));
}

TEST(Metrics, CountsRequestsTokensAndLoads) {
  Metrics metrics;
  metrics.CountRequest(RequestOutcome::kOk);
  metrics.CountRequest(RequestOutcome::kOk);
  metrics.CountRequest(RequestOutcome::kFailed);
  metrics.CountTokens(10, 4, 3);
  metrics.ObserveLoad(true, kNsPerSecond);
  metrics.ObserveLoad(false, 3 * kNsPerSecond);
  const std::string text = metrics.Render({});
  EXPECT_THAT(text, HasSubstr("rouse_requests_total{outcome=\"ok\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("rouse_requests_total{outcome=\"failed\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("rouse_requests_total{outcome=\"cancelled\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("rouse_prompt_tokens_total 10\n"));
  EXPECT_THAT(text, HasSubstr("rouse_cached_tokens_total 4\n"));
  EXPECT_THAT(text, HasSubstr("rouse_generated_tokens_total 3\n"));
  EXPECT_THAT(text, HasSubstr("rouse_loads_total{result=\"failed\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("rouse_load_seconds_sum 1\n"));
}

TEST(Metrics, LeavesOutWhatIsNotKnown) {
  EXPECT_THAT(Metrics().Render({}), Not(HasSubstr("rouse_model_resident_ratio")));
  Gauges gauges;
  gauges.model = "a\"b\\c\nd";
  gauges.resident_ratio = 0.25;
  EXPECT_THAT(Metrics().Render(gauges),
              HasSubstr("rouse_model_resident_ratio{model=\"a\\\"b\\\\c\\nd\"} 0.25\n"));
}

}  // namespace
}  // namespace rouse::server
