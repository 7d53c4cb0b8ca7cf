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
// Less than this is missing of every file now and then.
constexpr double kWarmRatio = 0.99;

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

// How long the missing part of the file takes to read; 0 when none is missing to speak of. Empty
// when that can't be told.
std::optional<int64_t> MissingNs(const EtaHistory::Now& now) {
  if (!now.from.resident_ratio) return std::nullopt;
  if (*now.from.resident_ratio >= kWarmRatio) return 0;
  if (!now.file_bytes || !now.read_bytes_per_s || *now.read_bytes_per_s <= 0) return std::nullopt;
  const double missing_bytes =
      static_cast<double>(*now.file_bytes) * (1 - *now.from.resident_ratio);
  return std::llround(missing_bytes * 1e9 / static_cast<double>(*now.read_bytes_per_s));
}

}  // namespace

void EtaHistory::AddLoad(const LoadStart& from, int64_t duration_ns) {
  AddBounded(loads_, {from, duration_ns}, kLoadsKept);
}

void EtaHistory::AddStart(const LoadStart& from, int64_t first_token_ns) {
  AddBounded(starts_, {from, first_token_ns}, kLoadsKept);
}

void EtaHistory::AddRequest(int64_t first_token_ns, int64_t whole_ns) {
  AddBounded(first_token_ns_, first_token_ns, kRequestsKept);
  AddBounded(whole_ns_, whole_ns, kRequestsKept);
}

std::optional<int64_t> EtaHistory::StartNs(engine::Tier tier) const {
  std::vector<int64_t> all;
  for (const Sample& sample : starts_) {
    if (sample.from.tier == tier) all.push_back(sample.ns);
  }
  return Median(all);
}

std::optional<int64_t> EtaHistory::Like(const std::deque<Sample>& samples, const LoadStart& from) {
  std::vector<int64_t> same;
  const Sample* below = nullptr;  // the nearest one that began with less of the file resident
  const Sample* above = nullptr;
  for (const Sample& sample : samples) {
    if (sample.from.tier != from.tier || sample.from.tokenizer_kept != from.tokenizer_kept)
      continue;
    if (!from.resident_ratio || !sample.from.resident_ratio) {
      // Where residency can't be read, all are alike.
      if (!from.resident_ratio && !sample.from.resident_ratio) same.push_back(sample.ns);
      continue;
    }
    const double ratio = *sample.from.resident_ratio;
    if (std::abs(ratio - *from.resident_ratio) <= kSameRatio) same.push_back(sample.ns);
    if (ratio <= *from.resident_ratio &&
        (below == nullptr || ratio >= *below->from.resident_ratio)) {
      below = &sample;
    }
    if (ratio >= *from.resident_ratio &&
        (above == nullptr || ratio <= *above->from.resident_ratio)) {
      above = &sample;
    }
  }
  if (!same.empty()) return Median(same);
  if (below == nullptr || above == nullptr) return std::nullopt;
  // Between two shares, the time grows with the bytes that are missing.
  const double part = (*from.resident_ratio - *below->from.resident_ratio) /
                      (*above->from.resident_ratio - *below->from.resident_ratio);
  return std::llround(static_cast<double>(below->ns) * (1 - part) +
                      static_cast<double>(above->ns) * part);
}

EtaHistory::Estimate EtaHistory::FirstToken(const Now& now) const {
  const auto first_token = Median(first_token_ns_);
  const auto whole = Median(whole_ns_);
  int64_t before_ns = 0;
  if (now.waiting > 0 || now.running_for_ns) {
    if (!whole) return {std::nullopt, "no request was answered by the loaded model yet"};
    before_ns = now.waiting * *whole;
    if (now.running_for_ns) before_ns += std::max<int64_t>(0, *whole - *now.running_for_ns);
  }
  if (!now.loaded) {
    const int64_t passed_ns = now.loading_for_ns.value_or(0);
    if (const auto start = Like(starts_, now.from)) {
      return {before_ns + std::max<int64_t>(first_token.value_or(0), *start - passed_ns), ""};
    }
    const auto load = Like(loads_, now.from);
    if (!load) return {std::nullopt, "no load from a state like this one was measured here yet"};
    before_ns += std::max<int64_t>(0, *load - passed_ns);
  }
  if (!first_token) return {std::nullopt, "no request was answered by the loaded model yet"};
  const auto missing = MissingNs(now);
  // Where residency can't be read at all, past requests are all there is to go by.
  if (!missing && now.from.resident_ratio) {
    return {std::nullopt,
            "part of the file is not in memory, and how fast it is read was not measured here yet"};
  }
  return {before_ns + *first_token + missing.value_or(0), ""};
}

}  // namespace rouse::server
