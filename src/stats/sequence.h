// What the order of the attempts shows: drift and dependence that would make n worth less than it
// looks. Pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "stats/contrast.h"

namespace rouse::stats {

struct SequenceFindings {
  std::optional<double> lag1;        // autocorrelation of neighbours; empty for n < 4 or no spread
  std::optional<double> lag1_limit;  // beyond +-this it is no accident: 1.96 / sqrt(n)
  Shift halves;                      // second half against first half, two-sample
  bool drifts = false;               // the halves' interval excludes 0
  bool depends = false;              // lag1 is beyond its limit
};

// `values` in the order in which they were measured. To look at a whole run, subtract each
// condition's median first. May hold infinities (failures); lag1 is then that of the finite ones.
SequenceFindings ExamineSequence(std::span<const double> values, double confidence = 0.95);

}  // namespace rouse::stats
