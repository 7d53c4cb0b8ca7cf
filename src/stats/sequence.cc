// Source of the autocorrelation and its limit under independence: Box, Jenkins and Reinsel, Time
// Series Analysis, section 2.1.
#include "stats/sequence.h"

#include <cmath>
#include <vector>

namespace rouse::stats {

SequenceFindings ExamineSequence(std::span<const double> values, double confidence) {
  SequenceFindings findings;
  const size_t half = values.size() / 2;
  findings.halves =
      TwoSampleShift(values.subspan(values.size() - half), values.first(half), confidence);
  if (findings.halves.ci) {
    findings.drifts = findings.halves.ci->low > 0 || findings.halves.ci->high < 0;
  }
  std::vector<double> finite;
  for (const double value : values) {
    if (std::isfinite(value)) finite.push_back(value);
  }
  if (finite.size() < 4) return findings;
  const auto n = static_cast<double>(finite.size());
  double mean = 0;
  for (const double value : finite) mean += (value - finite.front()) / n;
  mean += finite.front();
  double products = 0;
  double squares = 0;
  for (size_t index = 0; index < finite.size(); ++index) {
    const double distance = finite[index] - mean;
    squares += distance * distance;
    if (index > 0) products += distance * (finite[index - 1] - mean);
  }
  if (squares == 0) return findings;
  findings.lag1 = products / squares;
  findings.lag1_limit = 1.96 / std::sqrt(n);
  findings.depends = std::abs(*findings.lag1) > *findings.lag1_limit;
  return findings;
}

}  // namespace rouse::stats
