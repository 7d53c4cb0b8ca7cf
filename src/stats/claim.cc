#include "stats/claim.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/units.h"

namespace rouse::stats {
namespace {

std::string Duration(double ns) { return FormatDuration(std::llround(ns)); }

std::string Times(int64_t count) { return count == 1 ? "once" : std::to_string(count) + " times"; }

std::string Percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", share * 100);
  return text.data();
}

ClaimRow RowOf(const ClaimSample& given, double required_ns, double confidence) {
  ClaimRow row;
  row.name = given.name;
  row.idle_ns = given.idle_ns;
  row.failures = given.sample.failures;
  row.n = static_cast<int64_t>(given.sample.values.size()) + row.failures;
  row.median = Summarize(given.sample, confidence).median;
  if (row.n == 0) return row;
  const auto within = [&](double value) { return value <= required_ns; };
  row.held = row.failures == 0 &&
             std::all_of(given.sample.values.begin(), given.sample.values.end(), within);
  if (row.failures > 0 || row.n < kClaimRepeats) return row;
  row.bound = ClaimBound{
      .worst_ns = *std::max_element(given.sample.values.begin(), given.sample.values.end()),
      .n = row.n,
      .confidence = confidence,
      .least_share = std::pow(1 - confidence, 1.0 / static_cast<double>(row.n))};
  return row;
}

// Why no bound can be given, or "".
std::string WhyNoBound(const Claim& claim, bool complete) {
  if (claim.rows.empty()) return "no idle time was measured";
  if (!complete) return "the run is not complete; rouse measure --resume goes on with it";
  for (const ClaimRow& row : claim.rows) {
    if (row.failures == 0) continue;
    return "after " + row.name + " the first token never came in " + std::to_string(row.failures) +
           " of " + std::to_string(row.n) + " attempts, so nothing bounds it";
  }
  for (const ClaimRow& row : claim.rows) {
    if (row.n >= kClaimRepeats) continue;
    return row.name + " was measured " + Times(row.n) + "; a claim needs it at least " +
           std::to_string(kClaimRepeats) + " times";
  }
  return "";
}

// The first guard that does not allow to call it warm, in words, or "".
std::string WhyOthersPaid(const std::vector<ClaimGuard>& guards) {
  if (guards.empty()) return "no guard was measured, so that others may have paid for it";
  for (const ClaimGuard& guard : guards) {
    if (!guard.worst) {
      return "the guard " + guard.name + " was not measured (" + guard.why_not_measured +
             "), so that others may have paid for it";
    }
    if (*guard.worst <= guard.limit) continue;
    const bool bytes = guard.unit == "bytes";
    const auto text = [&](double value) {
      return bytes ? FormatBytes(std::llround(value)) : Percent(value);
    };
    return "others were squeezed: " + guard.name + " was " + text(*guard.worst) + ", limit " +
           text(guard.limit);
  }
  return "";
}

}  // namespace

std::string_view ClaimWordName(ClaimWord word) {
  switch (word) {
    case ClaimWord::kWarm:
      return "warm";
    case ClaimWord::kBoundedColdStart:
      return "bounded cold start";
    case ClaimWord::kNotHeld:
      return "not held";
  }
  return "not held";
}

Claim JudgeClaim(double required_ns, std::span<const ClaimSample> samples, bool complete,
                 std::vector<ClaimGuard> guards, double confidence) {
  Claim claim;
  claim.required_ns = required_ns;
  claim.guards = std::move(guards);
  for (const ClaimSample& sample : samples) {
    claim.rows.push_back(RowOf(sample, required_ns, confidence));
  }
  claim.reason = WhyNoBound(claim, complete);
  if (!claim.reason.empty()) return claim;
  const auto worst = std::max_element(
      claim.rows.begin(), claim.rows.end(),
      [](const ClaimRow& a, const ClaimRow& b) { return a.bound->worst_ns < b.bound->worst_ns; });
  claim.bound = worst->bound;
  claim.bound_name = worst->name;
  const bool held = std::all_of(claim.rows.begin(), claim.rows.end(),
                                [](const ClaimRow& row) { return row.held == true; });
  const std::string paid = WhyOthersPaid(claim.guards);
  const std::string seen = "the worst first token came after " + Duration(worst->bound->worst_ns) +
                           " (" + worst->name + ")";
  if (held && paid.empty()) {
    claim.word = ClaimWord::kWarm;
    claim.reason = seen + ", and no other service was squeezed for it";
  } else {
    claim.word = ClaimWord::kBoundedColdStart;
    claim.reason = held ? "the wanted time held, but " + paid : seen;
  }
  return claim;
}

}  // namespace rouse::stats
