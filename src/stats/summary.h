// What a sample says about its population without assuming a distribution: percentiles with exact
// order-statistic intervals, refused when n is too small, with failures as right-censored values.
// Pure functions; docs/statistics.md has the sources and the measured coverage.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rouse::stats {

// Values that were measured, and failures: things that never came, which rank after every value.
struct Sample {
  std::vector<double> values;          // finite, any order
  int64_t failures = 0;                // right-censored: later than every value
  std::optional<double> longest_wait;  // the longest that anything took or waited
};

// A number, a lower limit for it, or the reason why there is none.
struct Estimate {
  enum class Kind { kNone, kValue, kAtLeast };
  Kind kind = Kind::kNone;
  double value = 0;    // when kValue, or the limit when kAtLeast
  std::string reason;  // when kNone

  static Estimate Of(double value) { return {Kind::kValue, value, ""}; }
  static Estimate AtLeast(double value) { return {Kind::kAtLeast, value, ""}; }
  static Estimate None(std::string reason) { return {Kind::kNone, 0, std::move(reason)}; }
  std::optional<double> Value() const {
    return kind == Kind::kValue ? std::optional<double>(value) : std::nullopt;
  }
};

struct Quantile {
  double level = 0.5;  // 0.5, 0.9, 0.95, 0.99
  Estimate value;      // the median's midpoint, or the nearest-rank sample value
  Estimate low;        // two-sided interval at the summary's confidence
  Estimate high;
  Estimate upper;  // one-sided upper bound at the same confidence
};

struct SampleSummary {
  int64_t n = 0;         // values and failures
  int64_t censored = 0;  // failures
  double confidence = 0.95;
  Quantile median;
  Quantile p90;
  Quantile p95;
  Quantile p99;
  Estimate min;
  Estimate max;
  Estimate mean;                // none with a failure in the sample
  Estimate standard_deviation;  // n - 1 in the denominator; none for n < 2 or with a failure
};

SampleSummary Summarize(const Sample& sample, double confidence = 0.95);

// Ranks (from 1) of the order statistics that enclose the `level` quantile with at least the
// `confidence`, equal tails; empty when n is too small. Source: exact binomial, see summary.cc.
struct RankInterval {
  int64_t low = 0;
  int64_t high = 0;
};
std::optional<RankInterval> QuantileRanks(int64_t n, double level, double confidence);
std::optional<int64_t> QuantileUpperRank(int64_t n, double level, double confidence);

// The smallest n for which QuantileRanks (two-sided) or QuantileUpperRank exists.
int64_t SmallestNTwoSided(double level, double confidence);
int64_t SmallestNUpper(double level, double confidence);

// Midpoint for an even n; values must not be empty. Sorts its copy.
double Median(std::vector<double> values);
// Nearest rank: the ceil(level * n)-th smallest.
double NearestRank(std::vector<double> values, double level);

// Outliers are flagged, never removed.
struct OutlierFlags {
  std::vector<bool> mad;    // |x - median| > 3.5 * 1.4826 * MAD  (Iglewicz and Hoaglin 1993)
  std::vector<bool> tukey;  // outside [Q1 - 1.5 IQR, Q3 + 1.5 IQR]  (Tukey 1977)
};
OutlierFlags FlagOutliers(std::span<const double> values);

}  // namespace rouse::stats
