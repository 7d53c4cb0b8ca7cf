#include "results/metric_text.h"

#include <gtest/gtest.h>

namespace rouse::results {
namespace {

TEST(ParseGuard, TakesStatisticsUnitsAndBlanks) {
  const auto guard = ParseGuard("p95(ttft) <= 2s");
  ASSERT_TRUE(guard.ok()) << guard.error().message();
  EXPECT_EQ(guard->metric, "ttft_ns");
  EXPECT_EQ(guard->statistic, "p95");
  EXPECT_EQ(guard->limit, 2e9);
  EXPECT_EQ(ParseGuard("psi_io_full_us<5ms")->limit, 5000);
  EXPECT_EQ(ParseGuard("page_cache_resident>=0.99")->relation, GuardRelation::kAtLeast);
  for (const char* const bad : {"", "ttft", "ttft<=", "ttft<=5", "x<=5", "p42(ttft)<=1s",
                                "failure_rate<=-1", "failure_rate<=nan"}) {
    EXPECT_FALSE(ParseGuard(bad).ok()) << bad;
  }
}

TEST(ParseMargin, IsAShareOrAValueInTheMetricsUnit) {
  const Metric& ttft = *FindMetric("ttft");
  EXPECT_TRUE(ParseMargin("10%", ttft)->relative);
  EXPECT_DOUBLE_EQ(ParseMargin("10%", ttft)->value, 0.1);
  EXPECT_EQ(ParseMargin("50ms", ttft)->value, 5e7);
  EXPECT_EQ(ParseMargin("10MB", *FindMetric("target_read_bytes"))->value, 1e7);
  for (const char* const bad : {"", "0%", "-1%", "nan%", "10", "0ms", "5MB"}) {
    EXPECT_FALSE(ParseMargin(bad, ttft).ok()) << bad;
  }
}

}  // namespace
}  // namespace rouse::results
