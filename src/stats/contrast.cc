// Sources. Hodges and Lehmann 1963: the shift is the median of all pairwise means of the
// differences (paired) or of all differences (two samples). Intervals: order statistics of the same
// pairwise values at the critical rank of the signed-rank or rank-sum statistic (Hollander, Wolfe
// and Chicken, sections 3.3 and 4.3); closed, so that ties can only widen them.
#include "stats/contrast.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "stats/pairwise.h"
#include "stats/rank_tests.h"
#include "stats/summary.h"

namespace rouse::stats {
namespace {

std::vector<double> SortedFinite(std::span<const double> values) {
  std::vector<double> sorted;
  sorted.reserve(values.size());
  for (const double value : values) sorted.push_back(ToFinite(value));
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

int64_t SmallestPairs(double confidence) {
  int64_t n = 1;
  while (!SignedRankCritical(n, confidence)) ++n;
  return n;
}

// The smallest n for which n and n do.
int64_t SmallestSides(double confidence) {
  int64_t n = 1;
  while (!RankSumCritical(n, n, confidence)) ++n;
  return n;
}

std::string Percent(double confidence) {
  std::string text = std::to_string(100 * confidence);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text + " %";
}

template <typename At>
double Middle(int64_t count, const At& at) {
  const double upper = at(count / 2 + 1);
  if (count % 2 == 1) return upper;
  const double lower = at(count / 2);
  return lower + (upper - lower) / 2;
}

// `differences` may hold infinities; `shift` gets value and interval.
void FillPaired(std::span<const double> differences, double confidence, Shift& shift) {
  const std::vector<double> sorted = SortedFinite(differences);
  const auto n = static_cast<int64_t>(sorted.size());
  if (n == 0) {
    shift.reason = "no pair of attempts";
    return;
  }
  const int64_t count = n * (n + 1) / 2;
  const auto at = [&](int64_t rank) { return WalshAverage(sorted, rank); };
  shift.value = FromFinite(Middle(count, at));
  const auto critical = SignedRankCritical(n, confidence);
  if (!critical) {
    shift.reason = std::to_string(n) + " pairs; a " + Percent(confidence) + " interval needs " +
                   std::to_string(SmallestPairs(confidence));
    return;
  }
  shift.method = critical->exact ? "exact signed-rank" : "signed-rank, normal approximation";
  shift.ci = Interval{FromFinite(at(critical->rank)), FromFinite(at(count + 1 - critical->rank))};
}

void FillTwoSample(std::span<const double> treatment, std::span<const double> control,
                   double confidence, Shift& shift) {
  const std::vector<double> t = SortedFinite(treatment);
  const std::vector<double> c = SortedFinite(control);
  if (t.empty() || c.empty()) {
    shift.reason = "no attempt on one side";
    return;
  }
  const auto n = static_cast<int64_t>(t.size());
  const auto m = static_cast<int64_t>(c.size());
  const int64_t count = n * m;
  const auto at = [&](int64_t rank) { return PairwiseDifference(t, c, rank); };
  shift.value = FromFinite(Middle(count, at));
  const auto critical = RankSumCritical(n, m, confidence);
  if (!critical) {
    shift.reason = std::to_string(n) + " and " + std::to_string(m) + " attempts; a " +
                   Percent(confidence) + " interval needs about " +
                   std::to_string(SmallestSides(confidence)) + " on each side";
    return;
  }
  shift.method = critical->exact ? "exact rank-sum" : "rank-sum, normal approximation";
  shift.ci = Interval{FromFinite(at(critical->rank)), FromFinite(at(count + 1 - critical->rank))};
}

Shift NewShift(std::span<const double> treatment, std::span<const double> control, bool paired,
               double confidence) {
  Shift shift;
  shift.estimator = "hodges-lehmann";
  shift.paired = paired;
  shift.n_treatment = static_cast<int64_t>(treatment.size());
  shift.n_control = static_cast<int64_t>(control.size());
  shift.confidence = confidence;
  return shift;
}

// The logarithms, or nothing when there are none.
std::optional<std::vector<double>> Logarithms(std::span<const double> values) {
  std::vector<double> logarithms;
  logarithms.reserve(values.size());
  for (const double value : values) {
    if (!(value > 0)) return std::nullopt;
    logarithms.push_back(std::log(value));
  }
  return logarithms;
}

void ExponentiateInPlace(Shift& shift) {
  if (shift.value) shift.value = std::exp(*shift.value);
  if (shift.ci) shift.ci = Interval{std::exp(shift.ci->low), std::exp(shift.ci->high)};
}

}  // namespace

Shift PairedShift(std::span<const double> treatment, std::span<const double> control,
                  double confidence) {
  CHECK(treatment.size() == control.size());
  Shift shift = NewShift(treatment, control, true, confidence);
  std::vector<double> differences;
  differences.reserve(treatment.size());
  for (size_t index = 0; index < treatment.size(); ++index) {
    // Two failures: kHuge - kHuge = 0, a tie.
    differences.push_back(FromFinite(ToFinite(treatment[index]) - ToFinite(control[index])));
  }
  FillPaired(differences, confidence, shift);
  return shift;
}

Shift TwoSampleShift(std::span<const double> treatment, std::span<const double> control,
                     double confidence) {
  Shift shift = NewShift(treatment, control, false, confidence);
  FillTwoSample(treatment, control, confidence, shift);
  return shift;
}

namespace {

template <typename ShiftOf>
Shift RatioOf(std::span<const double> treatment, std::span<const double> control, bool paired,
              double confidence, const ShiftOf& shift_of) {
  const auto t = Logarithms(treatment);
  const auto c = Logarithms(control);
  Shift shift = NewShift(treatment, control, paired, confidence);
  if (!t || !c) {
    shift.reason = "a value is not above 0";
    return shift;
  }
  shift = shift_of(*t, *c, confidence);
  ExponentiateInPlace(shift);
  return shift;
}

}  // namespace

Shift PairedRatio(std::span<const double> treatment, std::span<const double> control,
                  double confidence) {
  return RatioOf(treatment, control, true, confidence, PairedShift);
}

Shift TwoSampleRatio(std::span<const double> treatment, std::span<const double> control,
                     double confidence) {
  return RatioOf(treatment, control, false, confidence, TwoSampleShift);
}

}  // namespace rouse::stats
