#include "lab/calibration.h"

#include <gtest/gtest.h>

#include "base/time.h"

namespace rouse::lab {
namespace {

TEST(Calibration, MeasuresEveryTokenOfOneAndOfSixtyFourStreams) {
  const Result<std::vector<results::CalibrationRow>> rows = Calibrate();
  ASSERT_TRUE(rows.ok()) << rows.error().message();
  ASSERT_EQ(rows->size(), 2U);
  EXPECT_EQ((*rows)[0].streams, 1);
  EXPECT_EQ((*rows)[0].samples, 400);
  EXPECT_EQ((*rows)[1].streams, 64);
  EXPECT_EQ((*rows)[1].samples, 64 * 25);
  for (const results::CalibrationRow& row : *rows) {
    ASSERT_TRUE(row.median_ns && row.p99_ns && row.max_ns);
    // A mark before its stamp would mean two clocks.
    EXPECT_GT(*row.median_ns, 0);
    EXPECT_LE(*row.median_ns, *row.p99_ns);
    EXPECT_LE(*row.p99_ns, *row.max_ns);
    // Far above anything but a broken path; how good it is, a benchmark tells.
    EXPECT_LT(*row.median_ns, 100 * kNsPerMs);
  }
}

TEST(CalibrationLine, ShowsMedianAndTailOfEachLoad) {
  EXPECT_EQ(
      CalibrationLine(
          {{.streams = 1, .samples = 100, .median_ns = 31'000, .p99_ns = 88'000, .max_ns = 90'000},
           {.streams = 64,
            .samples = 1600,
            .median_ns = 45'000,
            .p99_ns = std::nullopt,
            .max_ns = std::nullopt}}),
      "Client overhead 31.0 us (p99 88.0 us); at 64 streams 45.0 us (p99 unknown).");
  EXPECT_EQ(CalibrationLine({}), "Client overhead not measured.");
}

TEST(JitterWarning, NamesTheTightestMarginBelowTheClientsOwnTail) {
  const std::vector<results::CalibrationRow> rows = {
      {.streams = 1, .samples = 400, .median_ns = 30'000, .p99_ns = 90'000, .max_ns = 95'000}};
  std::vector<results::HypothesisRow> hypotheses(3);
  hypotheses[0].name = "wide";
  hypotheses[0].margin = "100us";
  hypotheses[1].name = "relative";
  hypotheses[1].margin = "10%";
  EXPECT_EQ(JitterWarning(rows, hypotheses), "");
  hypotheses[2].name = "narrow";
  hypotheses[2].margin = "50us";
  EXPECT_NE(JitterWarning(rows, hypotheses)
                .find("(90.0 us) exceeds the margin 50us of hypothesis "
                      "\"narrow\""),
            std::string::npos);
  EXPECT_EQ(JitterWarning({}, hypotheses), "");
}

}  // namespace
}  // namespace rouse::lab
