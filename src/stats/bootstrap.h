// Drawing again with replacement, for percentiles and means. Deterministic for a seed on every
// machine. For this folder and the coverage program only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stats/contrast.h"

namespace rouse::stats {

// SplitMix64 (Steele, Lea and Flood 2014): 64 bits of state, passes BigCrush, about 1 ns.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  // Uniform on 0..limit-1; the bias of the multiplication is below limit / 2^64.
  uint64_t Below(uint64_t limit);
  // Uniform on (0, 1).
  double Unit();

 private:
  uint64_t state_;
};

// options.resamples, or fewer for a large sample (see BootstrapOptions).
int ResamplesFor(int64_t n, const BootstrapOptions& options);

enum class BootstrapKind {
  kPercentile,     // quantiles of the redrawn statistics
  kBiasCorrected,  // Efron's BC: their levels shifted by the median bias
};

// The interval that redrawn statistics give (they are sorted in place).
Interval BootstrapInterval(std::vector<double>& redrawn, double estimate, double confidence,
                           BootstrapKind kind);

// How two percentiles or means are put together.
enum class Combine { kDifference, kRatio };

// Redrawn differences or ratios of nearest-rank percentiles. `paired` redraws whole pairs.
std::vector<double> RedrawnQuantiles(std::span<const double> treatment,
                                     std::span<const double> control, double level, bool paired,
                                     Combine combine, const BootstrapOptions& options);

}  // namespace rouse::stats
