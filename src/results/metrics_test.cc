#include "results/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

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

// The rows "| `name` | ... |" of the last section of docs/method.md, with their cells.
std::map<std::string, std::vector<std::string>> TabledCounters() {
  std::ifstream file(std::string(ROUSE_SOURCE_DIR) + "/docs/method.md");
  EXPECT_TRUE(file.is_open());
  std::map<std::string, std::vector<std::string>> rows;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) inside = line.ends_with("Every counter of an attempt");
    if (!inside || !line.starts_with("| `")) continue;
    const std::string name = line.substr(3, line.find('`', 3) - 3);
    EXPECT_FALSE(rows.contains(name)) << name << " stands twice";
    std::istringstream cells(line.substr(1));
    for (std::string cell; std::getline(cells, cell, '|');) rows[name].push_back(cell);
  }
  return rows;
}

TEST(MetricCatalogue, HasARowWithSixCellsInTheMethodForEachCounter) {
  std::set<std::string> counters;
  for (const Metric& metric : Metrics()) {
    if (metric.home == MetricHome::kCounter) counters.emplace(metric.name);
  }
  std::set<std::string> tabled;
  for (const auto& [name, cells] : TabledCounters()) {
    tabled.insert(name);
    EXPECT_EQ(cells.size(), 6) << name;
    for (const std::string& cell : cells) EXPECT_GT(cell.size(), 4) << name << ":" << cell;
  }
  EXPECT_EQ(tabled, counters);
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
