// The null distributions of the signed-rank and the rank-sum statistic, as the one number that an
// interval needs. For this folder only.
#pragma once

#include <cstdint>
#include <optional>

namespace rouse::stats {

struct CriticalRank {
  int64_t rank = 0;  // the interval runs from this smallest to this largest pairwise value
  bool exact = false;
};

// Of the n(n+1)/2 Walsh averages; empty when even the whole range has less than the confidence.
std::optional<CriticalRank> SignedRankCritical(int64_t n, double confidence);

// Of the n*m differences.
std::optional<CriticalRank> RankSumCritical(int64_t n, int64_t m, double confidence);

}  // namespace rouse::stats
