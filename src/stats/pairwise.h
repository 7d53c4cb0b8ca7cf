// Order statistics of all pairwise means or differences without making them: O(n) memory, about
// 64 * n steps each. For this folder only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rouse::stats {

// Stands for infinity in pairwise arithmetic: so large that its mean with any time is beyond
// kBeyond, and of two opposite ones it leaves 0, as a tie of two failures should.
inline constexpr double kHuge = 1e300;
inline constexpr double kBeyond = 1e299;

// Infinities as +-kHuge and back.
double ToFinite(double value);
double FromFinite(double value);

// The rank-th smallest (from 1) of (a[i] + a[j]) / 2 over i <= j; `sorted` ascends.
double WalshAverage(std::span<const double> sorted, int64_t rank);
// The rank-th smallest of t[i] - c[j]; both ascend.
double PairwiseDifference(std::span<const double> t, std::span<const double> c, int64_t rank);

}  // namespace rouse::stats
