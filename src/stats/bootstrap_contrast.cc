// Contrasts of percentiles and of means, by bootstrap (the sources stand in bootstrap.cc). For
// means the studentized bootstrap: it follows the skew of a small sample, where a t interval does
// not (Hall 1988). A percentile has no usable standard error at these n, so that its contrast takes
// the redrawn percentiles themselves.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/check.h"
#include "stats/bootstrap.h"
#include "stats/contrast.h"
#include "stats/pairwise.h"
#include "stats/summary.h"

namespace rouse::stats {
namespace {

constexpr int64_t kFewestForMean = 6;

int64_t LargerOf(std::span<const double> treatment, std::span<const double> control) {
  return static_cast<int64_t>(std::max(treatment.size(), control.size()));
}

std::string LevelName(double level) {
  return "p" + std::to_string(static_cast<int>(std::lround(level * 100)));
}

Shift QuantileContrast(std::span<const double> treatment, std::span<const double> control,
                       double level, bool paired, double confidence, BootstrapOptions options,
                       Combine combine) {
  options.resamples = ResamplesFor(LargerOf(treatment, control), options);
  CHECK(!paired || treatment.size() == control.size());
  Shift shift;
  shift.estimator =
      (combine == Combine::kDifference ? "difference of " : "ratio of ") + LevelName(level);
  shift.paired = paired;
  shift.n_treatment = static_cast<int64_t>(treatment.size());
  shift.n_control = static_cast<int64_t>(control.size());
  shift.confidence = confidence;
  const int64_t fewest = std::min(shift.n_treatment, shift.n_control);
  const int64_t for_value = SmallestNUpper(level, confidence);
  if (fewest < for_value) {
    shift.reason = "n = " + std::to_string(fewest) + ", a " + LevelName(level) + " needs " +
                   std::to_string(for_value);
    return shift;
  }
  const double t = NearestRank({treatment.begin(), treatment.end()}, level);
  const double c = NearestRank({control.begin(), control.end()}, level);
  if (combine == Combine::kRatio && !(c > 0 && t > 0)) {
    shift.reason = "a percentile is not above 0";
    return shift;
  }
  const bool tie = std::isinf(t) && std::isinf(c);
  if (combine == Combine::kDifference) {
    shift.value = tie ? 0 : FromFinite(ToFinite(t) - ToFinite(c));
  } else {
    shift.value = tie ? 1 : t / c;
  }
  const int64_t for_interval = SmallestNTwoSided(level, confidence);
  if (fewest < for_interval) {
    shift.reason = "n = " + std::to_string(fewest) + ", an interval for a " + LevelName(level) +
                   " needs " + std::to_string(for_interval);
    return shift;
  }
  std::vector<double> redrawn =
      RedrawnQuantiles(treatment, control, level, paired, combine, options);
  shift.method = "bootstrap percentile, " + std::to_string(options.resamples) + " resamples";
  shift.ci = BootstrapInterval(redrawn, *shift.value, confidence, BootstrapKind::kPercentile);
  shift.seed = options.seed;
  return shift;
}

struct Moments {
  double mean = 0;
  double variance_of_mean = 0;
};

Moments MomentsOf(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += value;
  const double mean = sum / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, squares / (n - 1) / n};
}

void Redraw(std::span<const double> values, Random& random, std::vector<double>& redrawn) {
  for (double& value : redrawn) value = values[random.Below(values.size())];
}

// The distribution of (redrawn - estimate) / its own standard error gives the interval.
Interval StudentizedInterval(std::span<const double> t, std::span<const double> c,
                             double confidence, const BootstrapOptions& options) {
  const Moments t_moments = MomentsOf(t);
  const Moments c_moments = c.empty() ? Moments{} : MomentsOf(c);
  const double estimate = t_moments.mean - c_moments.mean;
  const double error = std::sqrt(t_moments.variance_of_mean + c_moments.variance_of_mean);
  Random random(options.seed);
  std::vector<double> t_redrawn(t.size());
  std::vector<double> c_redrawn(c.size());
  std::vector<double> scores;
  scores.reserve(static_cast<size_t>(options.resamples));
  for (int resample = 0; resample < options.resamples; ++resample) {
    Redraw(t, random, t_redrawn);
    Moments control{};
    if (!c.empty()) {
      Redraw(c, random, c_redrawn);
      control = MomentsOf(c_redrawn);
    }
    const Moments treatment = MomentsOf(t_redrawn);
    const double spread = std::sqrt(treatment.variance_of_mean + control.variance_of_mean);
    const double distance = treatment.mean - control.mean - estimate;
    // All values redrawn alike: the score is infinite, or 0 when nothing differs at all.
    scores.push_back(spread > 0      ? distance / spread
                     : distance == 0 ? 0
                     : distance > 0  ? INFINITY
                                     : -INFINITY);
  }
  const Interval score = BootstrapInterval(scores, 0, confidence, BootstrapKind::kPercentile);
  if (error == 0) return {estimate, estimate};
  return {estimate - score.high * error, estimate - score.low * error};
}

bool AnyInfinite(std::span<const double> values) {
  return std::any_of(values.begin(), values.end(), [](double value) { return std::isinf(value); });
}

// The common part of MeanShift and MeanRatio; false when there is no mean (the reason is set).
bool StartMean(std::span<const double> treatment, std::span<const double> control, bool paired,
               double confidence, Shift& shift) {
  CHECK(!paired || treatment.size() == control.size());
  shift.paired = paired;
  shift.n_treatment = static_cast<int64_t>(treatment.size());
  shift.n_control = static_cast<int64_t>(control.size());
  shift.confidence = confidence;
  if (treatment.empty() || control.empty()) {
    shift.reason = "no attempt on one side";
    return false;
  }
  if (AnyInfinite(treatment) || AnyInfinite(control)) {
    shift.reason = "a failed attempt has no time that a mean could use";
    return false;
  }
  return true;
}

bool EnoughForMean(Shift& shift) {
  const int64_t fewest = std::min(shift.n_treatment, shift.n_control);
  if (fewest >= kFewestForMean) return true;
  shift.reason = "n = " + std::to_string(fewest) + ", an interval for a mean needs " +
                 std::to_string(kFewestForMean);
  return false;
}

}  // namespace

Shift QuantileShift(std::span<const double> treatment, std::span<const double> control,
                    double level, bool paired, double confidence, const BootstrapOptions& options) {
  return QuantileContrast(treatment, control, level, paired, confidence, options,
                          Combine::kDifference);
}

Shift QuantileRatio(std::span<const double> treatment, std::span<const double> control,
                    double level, bool paired, double confidence, const BootstrapOptions& options) {
  return QuantileContrast(treatment, control, level, paired, confidence, options, Combine::kRatio);
}

Shift MeanShift(std::span<const double> treatment, std::span<const double> control, bool paired,
                double confidence, const BootstrapOptions& wanted) {
  BootstrapOptions options = wanted;
  options.resamples = ResamplesFor(LargerOf(treatment, control), wanted);
  Shift shift;
  shift.estimator = "difference of means";
  if (!StartMean(treatment, control, paired, confidence, shift)) return shift;
  std::vector<double> differences;
  for (size_t index = 0; paired && index < treatment.size(); ++index) {
    differences.push_back(treatment[index] - control[index]);
  }
  // Relative to one control value, so that a large common offset costs no digits.
  const double origin = control.front();
  std::vector<double> t(treatment.begin(), treatment.end());
  std::vector<double> c(control.begin(), control.end());
  for (double& value : t) value -= origin;
  for (double& value : c) value -= origin;
  shift.value = paired ? MomentsOf(differences).mean : MomentsOf(t).mean - MomentsOf(c).mean;
  if (!EnoughForMean(shift)) return shift;
  shift.method = "studentized bootstrap, " + std::to_string(options.resamples) + " resamples";
  shift.seed = options.seed;
  shift.ci = paired ? StudentizedInterval(differences, {}, confidence, options)
                    : StudentizedInterval(t, c, confidence, options);
  return shift;
}

Shift MeanRatio(std::span<const double> treatment, std::span<const double> control, bool paired,
                double confidence, const BootstrapOptions& wanted) {
  BootstrapOptions options = wanted;
  options.resamples = ResamplesFor(LargerOf(treatment, control), wanted);
  Shift shift;
  shift.estimator = "ratio of means";
  if (!StartMean(treatment, control, paired, confidence, shift)) return shift;
  const double t = MomentsOf(treatment).mean;
  const double c = MomentsOf(control).mean;
  if (!(t > 0 && c > 0)) {
    shift.reason = "a mean is not above 0";
    return shift;
  }
  shift.value = t / c;
  if (!EnoughForMean(shift)) return shift;
  Random random(options.seed);
  std::vector<double> redrawn;
  for (int resample = 0; resample < options.resamples; ++resample) {
    double t_sum = 0;
    double c_sum = 0;
    for (size_t draw = 0; draw < treatment.size(); ++draw) {
      const uint64_t index = random.Below(treatment.size());
      t_sum += treatment[index];
      if (paired) c_sum += control[index];
    }
    for (size_t draw = 0; !paired && draw < control.size(); ++draw) {
      c_sum += control[random.Below(control.size())];
    }
    const double ratio = (t_sum / static_cast<double>(treatment.size())) /
                         (c_sum / static_cast<double>(control.size()));
    if (std::isfinite(ratio)) redrawn.push_back(ratio);
  }
  shift.method = "bootstrap, bias-corrected, " + std::to_string(options.resamples) + " resamples";
  shift.seed = options.seed;
  shift.ci = BootstrapInterval(redrawn, *shift.value, confidence, BootstrapKind::kBiasCorrected);
  return shift;
}

}  // namespace rouse::stats
