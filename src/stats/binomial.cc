#include "stats/binomial.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace rouse::stats {
namespace {

double LogProbability(int64_t k, int64_t n, double p) {
  const auto count = static_cast<double>(n);
  const auto hits = static_cast<double>(k);
  return std::lgamma(count + 1) - std::lgamma(hits + 1) - std::lgamma(count - hits + 1) +
         hits * std::log(p) + (count - hits) * std::log1p(-p);
}

// The sum of P(B = i) for i = first..last, walking outwards from the largest term so that the
// terms that no longer matter end the walk.
double SumTerms(int64_t first, int64_t last, int64_t n, double p) {
  const auto mode = static_cast<int64_t>(static_cast<double>(n + 1) * p);
  const int64_t start = std::clamp(mode, first, last);
  const double odds = p / (1 - p);
  const double largest = std::exp(LogProbability(start, n, p));
  double sum = largest;
  double term = largest;
  for (int64_t i = start; i < last && term > largest * 1e-18; ++i) {
    term *= static_cast<double>(n - i) / static_cast<double>(i + 1) * odds;
    sum += term;
  }
  term = largest;
  for (int64_t i = start; i > first && term > largest * 1e-18; --i) {
    term *= static_cast<double>(i) / static_cast<double>(n - i + 1) / odds;
    sum += term;
  }
  return sum;
}

}  // namespace

double BinomialCdf(int64_t k, int64_t n, double p) {
  CHECK(n >= 0 && p > 0 && p < 1);
  if (k < 0) return 0;
  if (k >= n) return 1;
  // The smaller tail is summed, for its relative precision.
  if (static_cast<double>(k) < static_cast<double>(n) * p) return SumTerms(0, k, n, p);
  return 1 - SumTerms(k + 1, n, n, p);
}

double NormalCdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

// Bisection on the distribution function: no coefficients to trust, about a microsecond.
double NormalQuantile(double p) {
  CHECK(p > 0 && p < 1);
  double low = -40;
  double high = 40;
  for (int step = 0; step < 100; ++step) {
    const double middle = 0.5 * (low + high);
    (NormalCdf(middle) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace rouse::stats
