// Binomial tail probabilities, exact to rounding. For this folder only.
#pragma once

#include <cstdint>

namespace rouse::stats {

// P(B <= k) for B ~ Binomial(n, p), 0 < p < 1; 0 for k < 0 and 1 for k >= n.
double BinomialCdf(int64_t k, int64_t n, double p);

// The z with P(Z <= z) = p for a standard normal Z; 0 < p < 1.
double NormalQuantile(double p);
// P(Z <= z).
double NormalCdf(double z);

}  // namespace rouse::stats
