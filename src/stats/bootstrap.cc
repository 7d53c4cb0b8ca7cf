// Source: Efron and Tibshirani, An Introduction to the Bootstrap, chapters 13, 14 and 22.
#include "stats/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "stats/binomial.h"
#include "stats/pairwise.h"

namespace rouse::stats {
namespace {

// A side's values in ascending order, and each original index's place among them.
struct Ordered {
  std::vector<double> sorted;
  std::vector<uint32_t> place;
};

Ordered OrderOf(std::span<const double> values) {
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return values[a] < values[b]; });
  Ordered ordered;
  ordered.sorted.reserve(values.size());
  ordered.place.resize(values.size());
  for (uint32_t rank = 0; rank < order.size(); ++rank) {
    ordered.sorted.push_back(values[order[rank]]);
    ordered.place[order[rank]] = rank;
  }
  return ordered;
}

// The value whose rank among the redrawn ones is the level's nearest rank: walks the counts from
// the top, which is nearer for the tail percentiles.
double QuantileOfCounts(const Ordered& ordered, const std::vector<uint32_t>& counts, double level) {
  const auto n = static_cast<double>(counts.size());
  const auto rank = static_cast<uint64_t>(std::max(1.0, std::ceil(level * n - 1e-9)));
  uint64_t above = counts.size() - rank;  // redrawn values that must lie behind the answer
  for (size_t place = counts.size(); place-- > 0;) {
    if (counts[place] > above) return ordered.sorted[place];
    above -= counts[place];
  }
  CHECK(false);
  return 0;
}

double Combined(Combine combine, double treatment, double control) {
  if (combine == Combine::kDifference) {
    return FromFinite(ToFinite(treatment) - ToFinite(control));
  }
  if (std::isinf(treatment) && std::isinf(control)) return 1;
  return treatment / control;
}

}  // namespace

uint64_t Random::Next() {
  state_ += 0x9e3779b97f4a7c15U;
  uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31U);
}

uint64_t Random::Below(uint64_t limit) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * limit) >> 64U);
}

int ResamplesFor(int64_t n, const BootstrapOptions& options) {
  constexpr int64_t kMostDraws = 50'000'000;
  const int64_t affordable = std::max<int64_t>(kMostDraws / std::max<int64_t>(n, 1), 1000);
  return static_cast<int>(std::min<int64_t>(options.resamples, affordable));
}

double Random::Unit() { return (static_cast<double>(Next() >> 11U) + 0.5) * 0x1p-53; }

Interval BootstrapInterval(std::vector<double>& redrawn, double estimate, double confidence,
                           BootstrapKind kind) {
  CHECK(!redrawn.empty());
  std::sort(redrawn.begin(), redrawn.end());
  const auto count = static_cast<double>(redrawn.size());
  const double tail = (1 - confidence) / 2;
  double low_level = tail;
  double high_level = 1 - tail;
  if (kind == BootstrapKind::kBiasCorrected) {
    const auto [first, last] = std::equal_range(redrawn.begin(), redrawn.end(), estimate);
    // Ties with the estimate count half: percentiles are discrete.
    const double below =
        static_cast<double>(first - redrawn.begin()) + 0.5 * static_cast<double>(last - first);
    const double share = std::clamp(below / count, 0.5 / count, 1 - 0.5 / count);
    const double bias = NormalQuantile(share);
    low_level = NormalCdf(2 * bias + NormalQuantile(tail));
    high_level = NormalCdf(2 * bias + NormalQuantile(1 - tail));
  }
  const auto at = [&](double place) {
    const double index = std::clamp(place, 0.0, count - 1);
    return redrawn[static_cast<size_t>(index)];
  };
  return {at(std::floor(low_level * (count + 1)) - 1), at(std::ceil(high_level * (count + 1)) - 1)};
}

std::vector<double> RedrawnQuantiles(std::span<const double> treatment,
                                     std::span<const double> control, double level, bool paired,
                                     Combine combine, const BootstrapOptions& options) {
  CHECK(!paired || treatment.size() == control.size());
  const Ordered t = OrderOf(treatment);
  const Ordered c = OrderOf(control);
  std::vector<uint32_t> t_counts(treatment.size());
  std::vector<uint32_t> c_counts(control.size());
  Random random(options.seed);
  std::vector<double> redrawn;
  redrawn.reserve(static_cast<size_t>(options.resamples));
  for (int resample = 0; resample < options.resamples; ++resample) {
    std::fill(t_counts.begin(), t_counts.end(), 0U);
    std::fill(c_counts.begin(), c_counts.end(), 0U);
    for (size_t draw = 0; draw < treatment.size(); ++draw) {
      const uint64_t index = random.Below(treatment.size());
      ++t_counts[t.place[index]];
      if (paired) ++c_counts[c.place[index]];
    }
    for (size_t draw = 0; !paired && draw < control.size(); ++draw) {
      ++c_counts[random.Below(control.size())];
    }
    redrawn.push_back(Combined(combine, QuantileOfCounts(t, t_counts, level),
                               QuantileOfCounts(c, c_counts, level)));
  }
  return redrawn;
}

}  // namespace rouse::stats
