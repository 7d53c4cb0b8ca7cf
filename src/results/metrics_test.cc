#include "results/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include "results/example_attempt.h"

namespace rouse::results {
namespace {

// The names in the headings "### `name`" of docs/metrics.md.
std::set<std::string> DocumentedMetrics() {
  std::ifstream file(std::string(ROUSE_SOURCE_DIR) + "/docs/metrics.md");
  EXPECT_TRUE(file.is_open());
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("### `")) continue;
    names.insert(line.substr(5, line.find('`', 5) - 5));
  }
  return names;
}

TEST(MetricCatalogue, HasExactlyTheSectionsOfTheDocument) {
  std::set<std::string> names;
  for (const Metric& metric : Metrics()) names.emplace(metric.name);
  EXPECT_EQ(names.size(), Metrics().size()) << "a name stands twice";
  EXPECT_EQ(names, DocumentedMetrics());
}

TEST(MetricCatalogue, CarriesTheUnitLastInEachNameOfATimeOrSize) {
  const std::set<std::string_view> in_name = {"ns", "us", "bytes", "ratio", "hz", "tokens"};
  for (const Metric& metric : Metrics()) {
    if (!in_name.contains(metric.unit)) continue;
    EXPECT_TRUE(metric.name.ends_with("_" + std::string(metric.unit))) << metric.name;
  }
}

TEST(MetricCatalogue, FindsAMetricWithAndWithoutItsUnit) {
  ASSERT_NE(FindMetric("ttft"), nullptr);
  EXPECT_EQ(FindMetric("ttft")->name, "ttft_ns");
  EXPECT_EQ(FindMetric("stage_prefill")->name, "stage_prefill_ns");
  EXPECT_EQ(FindMetric("cotenant_slowdown")->name, "cotenant_slowdown_ratio");
  EXPECT_EQ(FindMetric("target_major_faults")->name, "target_major_faults");
  EXPECT_EQ(FindMetric("ttf"), nullptr);
  EXPECT_EQ(FindMetric("ttft_n"), nullptr);
  EXPECT_EQ(FindMetric(""), nullptr);
}

TEST(MetricOf, ReadsEveryMetricOfACompleteAttempt) {
  Attempt attempt = ExampleAttempt();
  for (const Metric& metric : Metrics()) {
    if (metric.home == MetricHome::kCounter) {
      attempt.counters[std::string(metric.name)] = MetricValue(int64_t{7});
    }
    const std::optional<double> value = MetricOf(attempt, metric);
    ASSERT_TRUE(value.has_value()) << metric.name;
    if (metric.home == MetricHome::kCounter) {
      EXPECT_EQ(*value, 7);
    }
  }
}

TEST(MetricOf, IsEmptyAndNotZeroForWhatWasNotMeasured) {
  const Attempt attempt;
  for (const Metric& metric : Metrics()) {
    EXPECT_EQ(MetricOf(attempt, metric), std::nullopt) << metric.name;
  }
}

TEST(MetricOf, PrefersThePageCacheReadingAtTheSend) {
  Attempt attempt;
  attempt.state_before["page_cache"].value = 1.0;
  EXPECT_EQ(MetricOf(attempt, *FindMetric("page_cache_resident_ratio")), 1.0);
  attempt.state_at_send["page_cache"].value = 0.25;
  EXPECT_EQ(MetricOf(attempt, *FindMetric("page_cache_resident_ratio")), 0.25);
}

TEST(LongestWait, IsTheEndOrTheTimeToTheFirstToken) {
  Attempt attempt;
  EXPECT_EQ(LongestWait(attempt), std::nullopt);
  attempt.ttft_ns = 5;
  EXPECT_EQ(LongestWait(attempt), 5);
  attempt.marks.end = 9;
  EXPECT_EQ(LongestWait(attempt), 9);
}

TEST(Names, AreUniqueAndReadBack) {
  for (int index = 0; index < kOutcomeCount; ++index) {
    const auto outcome = static_cast<Outcome>(index);
    EXPECT_EQ(OutcomeFromName(OutcomeName(outcome)), outcome);
  }
  for (int index = 0; index < kStageCount; ++index) {
    const auto stage = static_cast<Stage>(index);
    EXPECT_EQ(StageFromName(StageName(stage)), stage);
  }
  EXPECT_EQ(OutcomeFromName("OK"), std::nullopt);
  EXPECT_EQ(StageFromName(""), std::nullopt);
}

}  // namespace
}  // namespace rouse::results
