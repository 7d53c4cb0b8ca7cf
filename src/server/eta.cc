#include "server/eta.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace rouse::server {
namespace {

constexpr size_t kLoadsKept = 32;
constexpr size_t kRequestsKept = 16;
// Loads whose file was as resident as now, within this, are taken as they are.
constexpr double kSameRatio = 0.1;

template <typename Item>
void AddBounded(std::deque<Item>& items, Item item, size_t limit) {
  items.push_back(item);
  if (items.size() > limit) items.pop_front();
}

// The lower median: a duration that was really seen.
template <typename Items>
std::optional<int64_t> Median(const Items& items) {
  if (items.empty()) return std::nullopt;
  std::vector<int64_t> sorted(items.begin(), items.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted[(sorted.size() - 1) / 2];
}

}  // namespace

void EtaHistory::AddLoad(int64_t duration_ns, std::optional<double> resident_ratio,
                         bool tokenizer_kept) {
  AddBounded(loads_, {duration_ns, resident_ratio, tokenizer_kept}, kLoadsKept);
}

void EtaHistory::AddRequest(int64_t first_token_ns, int64_t whole_ns) {
  AddBounded(first_token_ns_, first_token_ns, kRequestsKept);
  AddBounded(whole_ns_, whole_ns, kRequestsKept);
}

std::optional<int64_t> EtaHistory::LoadNs(const Now& now) const {
  std::vector<int64_t> same;
  const Load* below = nullptr;  // the nearest load that began with less of the file resident
  const Load* above = nullptr;
  for (const Load& load : loads_) {
    if (load.tokenizer_kept != now.tokenizer_kept) continue;
    if (!now.resident_ratio || !load.resident_ratio) {
      // Where residency can't be read, all loads are alike.
      if (!now.resident_ratio && !load.resident_ratio) same.push_back(load.duration_ns);
      continue;
    }
    const double ratio = *load.resident_ratio;
    if (std::abs(ratio - *now.resident_ratio) <= kSameRatio) same.push_back(load.duration_ns);
    if (ratio <= *now.resident_ratio && (below == nullptr || ratio >= *below->resident_ratio)) {
      below = &load;
    }
    if (ratio >= *now.resident_ratio && (above == nullptr || ratio <= *above->resident_ratio)) {
      above = &load;
    }
  }
  if (!same.empty()) return Median(same);
  if (below == nullptr || above == nullptr) return std::nullopt;
  // Between two shares, the time grows with the bytes that are missing.
  const double part = (*now.resident_ratio - *below->resident_ratio) /
                      (*above->resident_ratio - *below->resident_ratio);
  return std::llround(static_cast<double>(below->duration_ns) * (1 - part) +
                      static_cast<double>(above->duration_ns) * part);
}

EtaHistory::Estimate EtaHistory::FirstToken(const Now& now) const {
  const auto first_token = Median(first_token_ns_);
  const auto whole = Median(whole_ns_);
  if (!first_token || !whole) return {std::nullopt, "no request was answered here yet"};
  int64_t eta_ns = *first_token + now.waiting * *whole;
  if (now.running_for_ns) eta_ns += std::max<int64_t>(0, *whole - *now.running_for_ns);
  if (!now.loaded) {
    const auto load = LoadNs(now);
    if (!load) {
      return {std::nullopt, "no load from a state like this one was measured here yet"};
    }
    eta_ns += std::max<int64_t>(0, *load - now.loading_for_ns.value_or(0));
  }
  return {eta_ns, ""};
}

}  // namespace rouse::server
