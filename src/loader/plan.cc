#include "loader/plan.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace rouse::loader {
namespace {

constexpr int64_t kPageBytes = 4096;

// `fraction` of `bytes`, rounded up, between none and all.
int64_t ShareOf(int64_t bytes, double fraction) {
  CHECK(fraction >= 0.0 && fraction <= 1.0);
  const double share = std::ceil(static_cast<double>(bytes) * fraction);
  return std::clamp<int64_t>(static_cast<int64_t>(share), 0, bytes);
}

}  // namespace

std::vector<PlanStep> GraphOrderPlan(const gguf::Header& header) {
  std::vector<PlanStep> plan;
  plan.push_back({"header", {{0, header.data_offset}}, header.data_offset});
  for (gguf::Group& group : gguf::GraphOrder(header)) {
    PlanStep step{std::move(group.name), std::move(group.ranges), 0};
    for (const gguf::FileRange& range : step.ranges) step.bytes += range.bytes;
    if (step.bytes > 0) plan.push_back(std::move(step));
  }
  return plan;
}

std::vector<gguf::FileRange> LeadingRanges(const std::vector<PlanStep>& plan, double fraction) {
  int64_t total_bytes = 0;
  for (const PlanStep& step : plan) total_bytes += step.bytes;
  int64_t missing_bytes = ShareOf(total_bytes, fraction);
  std::vector<gguf::FileRange> ranges;
  for (const PlanStep& step : plan) {
    for (const gguf::FileRange& range : step.ranges) {
      const int64_t bytes = std::min(range.bytes, missing_bytes);
      if (bytes > 0) ranges.push_back({range.offset, bytes});
      missing_bytes -= bytes;
    }
  }
  std::ranges::sort(ranges, {}, &gguf::FileRange::offset);
  std::vector<gguf::FileRange> merged;
  for (const gguf::FileRange& range : ranges) {
    if (!merged.empty() && merged.back().offset + merged.back().bytes == range.offset) {
      merged.back().bytes += range.bytes;
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

std::vector<gguf::FileRange> LeadingBytes(int64_t file_bytes, double fraction) {
  const int64_t share = ShareOf(file_bytes, fraction);
  if (share == 0) return {};
  const int64_t pages = (share + kPageBytes - 1) / kPageBytes;
  return {{0, std::min(file_bytes, pages * kPageBytes)}};
}

}  // namespace rouse::loader
