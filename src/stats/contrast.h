// How far two samples lie apart, with an interval: Hodges-Lehmann shifts (paired and two-sample),
// bootstrap intervals for means and percentiles, ratios on logarithms. Shift = treatment - control.
//
// A failed measurement is +infinity; two that failed in one pair are a tie. Pure functions; sources
// stand at each definition, measured coverage in docs/statistics.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rouse::stats {

struct Interval {
  double low = 0;   // -infinity when unbounded
  double high = 0;  // +infinity when unbounded
};

struct Shift {
  std::string estimator;  // "hodges-lehmann", "difference of p95", "difference of means"
  std::string method;     // of the interval: "exact signed-rank", "bootstrap BCa", ...
  bool paired = false;
  int64_t n_treatment = 0;  // pairs, when paired
  int64_t n_control = 0;
  std::optional<double> value;   // may be infinite; empty without data
  std::optional<Interval> ci;    // empty when n is too small for the confidence
  double confidence = 0.95;      // asked for
  std::string reason;            // why value or ci is empty
  std::optional<uint64_t> seed;  // of a bootstrap
};

// Pairs: treatment[i] and control[i] belong together; both spans have the same size.
Shift PairedShift(std::span<const double> treatment, std::span<const double> control,
                  double confidence);
Shift TwoSampleShift(std::span<const double> treatment, std::span<const double> control,
                     double confidence);

// The same on logarithms: value and ci are ratios treatment / control. Empty, with the reason, when
// a value is not above 0.
Shift PairedRatio(std::span<const double> treatment, std::span<const double> control,
                  double confidence);
Shift TwoSampleRatio(std::span<const double> treatment, std::span<const double> control,
                     double confidence);

struct BootstrapOptions {
  uint64_t seed = 1;
  // Fewer when n is above 5,000, so that no more than 50 million values are drawn; at least 1,000.
  int resamples = 10'000;
};

// Difference (or ratio) of the `level` percentiles by bootstrap: whole pairs are redrawn when
// `paired`, else each side by itself.
Shift QuantileShift(std::span<const double> treatment, std::span<const double> control,
                    double level, bool paired, double confidence, const BootstrapOptions& options);
Shift QuantileRatio(std::span<const double> treatment, std::span<const double> control,
                    double level, bool paired, double confidence, const BootstrapOptions& options);

// Difference (or ratio) of the means; empty with a failure on either side.
Shift MeanShift(std::span<const double> treatment, std::span<const double> control, bool paired,
                double confidence, const BootstrapOptions& options);
Shift MeanRatio(std::span<const double> treatment, std::span<const double> control, bool paired,
                double confidence, const BootstrapOptions& options);

}  // namespace rouse::stats
