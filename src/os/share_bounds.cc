#include "os/share_bounds.h"

#include <cmath>

namespace rouse::os {
namespace {

constexpr double kTail = 0.025;

// P(X <= hits) for X of a binomial distribution.
double BinomialAtMost(int64_t hits, int64_t samples, double share) {
  if (share <= 0) return 1;
  if (share >= 1) return hits >= samples ? 1 : 0;
  const auto n = static_cast<double>(samples);
  double sum = 0;
  for (int64_t i = 0; i <= hits; ++i) {
    const auto k = static_cast<double>(i);
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) +
                    k * std::log(share) + (n - k) * std::log1p(-share));
  }
  return sum;
}

// The share at which at most `hits` would be seen with this probability; by bisection.
double ShareWhereAtMost(int64_t hits, int64_t samples, double probability) {
  double low = 0;
  double high = 1;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (BinomialAtMost(hits, samples, middle) > probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace

ShareBounds BoundsOfShare(int64_t hits, int64_t samples) {
  if (samples <= 0) return {};
  ShareBounds bounds;
  if (hits > 0) bounds.low = ShareWhereAtMost(hits - 1, samples, 1 - kTail);
  if (hits < samples) bounds.high = ShareWhereAtMost(hits, samples, kTail);
  return bounds;
}

}  // namespace rouse::os
