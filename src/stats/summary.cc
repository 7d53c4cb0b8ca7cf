// Sources. Order-statistic intervals: the number of values at or below a quantile of level p is
// Binomial(n, p), whatever the distribution (Thompson 1936; Hahn and Meeker, Statistical Intervals,
// chapter 5). With ties the intervals are conservative. Nearest rank: Hyndman and Fan 1996,
// definition 1. Mean and standard deviation: two passes, since the one-pass difference of squares
// loses all digits at large offsets (Welford 1962).
#include "stats/summary.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "stats/binomial.h"

namespace rouse::stats {
namespace {

// One more than rounding can take from a probability that is exactly the limit.
constexpr double kSlack = 1e-12;

std::string TooFew(int64_t n, int64_t needed) {
  return "n = " + std::to_string(n) + ", needs " + std::to_string(needed);
}

// The order statistics of a sample with failures behind every value.
class Ranked {
 public:
  explicit Ranked(const Sample& sample) : sample_(sample), sorted_(sample.values) {
    std::sort(sorted_.begin(), sorted_.end());
  }

  int64_t n() const { return static_cast<int64_t>(sorted_.size()) + sample_.failures; }

  // The rank-th smallest, from 1.
  Estimate At(int64_t rank) const {
    CHECK(rank >= 1 && rank <= n());
    if (rank <= static_cast<int64_t>(sorted_.size())) {
      return Estimate::Of(sorted_[static_cast<size_t>(rank - 1)]);
    }
    if (sample_.longest_wait) return Estimate::AtLeast(*sample_.longest_wait);
    return Estimate::None("falls among failures, and how long they waited is not known");
  }

  Estimate Midpoint() const {
    Estimate upper = At(n() / 2 + 1);
    if (n() % 2 == 1 || upper.kind != Estimate::Kind::kValue) return upper;
    const Estimate lower = At(n() / 2);
    return Estimate::Of(lower.value + (upper.value - lower.value) / 2);
  }

  const std::vector<double>& sorted() const { return sorted_; }

 private:
  const Sample& sample_;
  std::vector<double> sorted_;
};

int64_t NearestRankOf(int64_t n, double level) {
  // 0.95 * 20 is 19.000000000000004 or so; what is that near a whole number is meant as one.
  const double rank = std::ceil(level * static_cast<double>(n) - 1e-9);
  return std::clamp<int64_t>(static_cast<int64_t>(rank), 1, n);
}

Quantile QuantileOf(const Ranked& ranked, double level, double confidence) {
  const int64_t n = ranked.n();
  Quantile quantile;
  quantile.level = level;
  const auto upper = QuantileUpperRank(n, level, confidence);
  const std::string needs_upper = TooFew(n, SmallestNUpper(level, confidence));
  quantile.upper = upper ? ranked.At(*upper) : Estimate::None(needs_upper);
  if (n == 0) {
    quantile.value = Estimate::None("n = 0");
  } else if (level == 0.5) {
    // The median describes any sample; the tail percentiles of a small one are only its maximum.
    quantile.value = ranked.Midpoint();
  } else {
    quantile.value = upper ? ranked.At(NearestRankOf(n, level)) : Estimate::None(needs_upper);
  }
  if (const auto ranks = QuantileRanks(n, level, confidence); ranks) {
    quantile.low = ranked.At(ranks->low);
    quantile.high = ranked.At(ranks->high);
  } else {
    const std::string needs = TooFew(n, SmallestNTwoSided(level, confidence));
    quantile.low = Estimate::None(needs);
    quantile.high = Estimate::None(needs);
  }
  return quantile;
}

void FillMoments(const Ranked& ranked, SampleSummary& summary) {
  const std::vector<double>& values = ranked.sorted();
  if (summary.censored > 0) {
    const std::string reason = std::to_string(summary.censored) + " of " +
                               std::to_string(summary.n) + " failed: a mean would need their times";
    summary.mean = Estimate::None(reason);
    summary.standard_deviation = Estimate::None(reason);
    return;
  }
  if (values.empty()) {
    summary.mean = Estimate::None("n = 0");
    summary.standard_deviation = Estimate::None("n = 0");
    return;
  }
  const auto n = static_cast<double>(values.size());
  // Relative to one of the values, so that a large offset costs no digits.
  const double origin = values.front();
  double sum = 0;
  for (const double value : values) sum += value - origin;
  const double mean = sum / n;
  summary.mean = Estimate::Of(origin + mean);
  if (values.size() < 2) {
    summary.standard_deviation = Estimate::None("n = 1: undefined");
    return;
  }
  double squares = 0;
  for (const double value : values) {
    const double distance = (value - origin) - mean;
    squares += distance * distance;
  }
  summary.standard_deviation = Estimate::Of(std::sqrt(squares / (n - 1)));
}

// The smallest n at which `exists` becomes true; it stays true for larger ones.
template <typename Exists>
int64_t SmallestN(const Exists& exists) {
  int64_t high = 1;
  while (!exists(high)) high *= 2;
  int64_t low = high / 2;  // does not exist there (or is 0)
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (exists(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace

std::optional<RankInterval> QuantileRanks(int64_t n, double level, double confidence) {
  CHECK(level > 0 && level < 1 && confidence > 0 && confidence < 1);
  const double tail = (1 - confidence) / 2 + kSlack;
  if (n < 1 || BinomialCdf(0, n, level) > tail) return std::nullopt;
  // low: the largest rank with P(B <= low - 1) <= tail; by bisection, the function is monotone.
  int64_t low = 1;
  int64_t above = n + 1;
  while (above - low > 1) {
    const int64_t middle = low + (above - low) / 2;
    (BinomialCdf(middle - 1, n, level) <= tail ? low : above) = middle;
  }
  // high: the smallest rank with P(B >= high) <= tail.
  const auto high = QuantileUpperRank(n, level, 1 - (1 - confidence) / 2);
  if (!high) return std::nullopt;
  return RankInterval{low, *high};
}

std::optional<int64_t> QuantileUpperRank(int64_t n, double level, double confidence) {
  CHECK(level > 0 && level < 1 && confidence > 0 && confidence < 1);
  const double wanted = confidence - kSlack;
  // P(quantile <= X(rank)) = P(B <= rank - 1).
  if (n < 1 || BinomialCdf(n - 1, n, level) < wanted) return std::nullopt;
  int64_t rank = n;
  int64_t below = 0;
  while (rank - below > 1) {
    const int64_t middle = below + (rank - below) / 2;
    (BinomialCdf(middle - 1, n, level) >= wanted ? rank : below) = middle;
  }
  return rank;
}

int64_t SmallestNTwoSided(double level, double confidence) {
  return SmallestN([&](int64_t n) { return QuantileRanks(n, level, confidence).has_value(); });
}

int64_t SmallestNUpper(double level, double confidence) {
  return SmallestN([&](int64_t n) { return QuantileUpperRank(n, level, confidence).has_value(); });
}

SampleSummary Summarize(const Sample& sample, double confidence) {
  const Ranked ranked(sample);
  SampleSummary summary;
  summary.n = ranked.n();
  summary.censored = sample.failures;
  summary.confidence = confidence;
  summary.median = QuantileOf(ranked, 0.5, confidence);
  summary.p90 = QuantileOf(ranked, 0.9, confidence);
  summary.p95 = QuantileOf(ranked, 0.95, confidence);
  summary.p99 = QuantileOf(ranked, 0.99, confidence);
  summary.min = summary.n > 0 ? ranked.At(1) : Estimate::None("n = 0");
  summary.max = summary.n > 0 ? ranked.At(summary.n) : Estimate::None("n = 0");
  FillMoments(ranked, summary);
  return summary;
}

double Median(std::vector<double> values) {
  CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  if (values.size() % 2 == 1) return values[half];
  // Both may be the same infinity, whose difference is no number.
  if (values[half - 1] == values[half]) return values[half];
  return values[half - 1] + (values[half] - values[half - 1]) / 2;
}

double NearestRank(std::vector<double> values, double level) {
  CHECK(!values.empty());
  const auto n = static_cast<int64_t>(values.size());
  const auto place = values.begin() + (NearestRankOf(n, level) - 1);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

OutlierFlags FlagOutliers(std::span<const double> values) {
  OutlierFlags flags;
  flags.mad.assign(values.size(), false);
  flags.tukey.assign(values.size(), false);
  if (values.size() < 4) return flags;
  const std::vector<double> all(values.begin(), values.end());
  const double median = Median(all);
  std::vector<double> distances;
  distances.reserve(all.size());
  for (const double value : all) distances.push_back(std::abs(value - median));
  const double mad = 1.4826 * Median(distances);
  const double q1 = NearestRank(all, 0.25);
  const double q3 = NearestRank(all, 0.75);
  for (size_t index = 0; index < all.size(); ++index) {
    // With more than half of the values equal the MAD is 0 and says nothing.
    flags.mad[index] = mad > 0 && distances[index] > 3.5 * mad;
    flags.tukey[index] = all[index] < q1 - 1.5 * (q3 - q1) || all[index] > q3 + 1.5 * (q3 - q1);
  }
  return flags;
}

}  // namespace rouse::stats
