#include "report/tiers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/strings.h"
#include "base/terminal_text.h"
#include "base/units.h"
#include "stats/summary.h"

namespace rouse::report {
namespace {

using Json = nlohmann::ordered_json;

struct Tier {
  std::string condition;
  std::string path;
  std::string storage;
  std::string how;
  std::map<int64_t, int64_t> depths;  // reads in flight -> bytes per second
  std::optional<int64_t> possible;    // the best of them
  std::optional<int64_t> simulated;   // bytes per second that a simulated disk is limited to
  std::optional<int64_t> achieved;    // the median of what the load read per second
  std::optional<double> Ratio() const {
    if (!possible || !achieved || *possible <= 0) return std::nullopt;
    return static_cast<double>(*achieved) / static_cast<double>(*possible);
  }
};

std::string Fact(const results::Run& run, const std::string& name) {
  const auto found = run.environment.find(name);
  return found == run.environment.end() ? "" : found->second;
}

// The server's own reader, from its first read to its last, beside whatever else the load did: its
// bytes by its time. The stage `weights` is no measure of a disk, for it holds only what the
// request was kept waiting.
std::optional<double> MedianReadRate(const std::string& condition,
                                     std::span<const results::Attempt> attempts) {
  std::vector<double> rates;
  for (const results::Attempt& attempt : attempts) {
    if (attempt.prime || attempt.condition != condition) continue;
    if (attempt.outcome != results::Outcome::kOk) continue;
    for (const results::Lane& lane : attempt.lanes) {
      if (lane.name != "reader" || !lane.bytes || lane.end_ns <= lane.start_ns) continue;
      const auto seconds = static_cast<double>(lane.end_ns - lane.start_ns) / 1e9;
      rates.push_back(static_cast<double>(*lane.bytes) / seconds);
    }
  }
  if (rates.empty()) return std::nullopt;
  return stats::Median(rates);
}

std::vector<Tier> TiersOf(const results::Run& run, std::span<const results::Attempt> attempts) {
  std::vector<Tier> tiers;
  for (const results::ConditionRow& row : run.conditions) {
    const auto path = row.state.find("path");
    if (path == row.state.end() || path->second.empty()) continue;
    Tier tier;
    tier.condition = row.name;
    tier.path = path->second;
    const std::string prefix = "tier_" + tier.path + "_";
    tier.storage = Fact(run, prefix + "storage");
    tier.how = Fact(run, prefix + "how");
    if (tier.storage.empty()) continue;
    tier.simulated = ParseInt64(Fact(run, prefix + "simulated_bytes_per_second"));
    for (const int64_t depth : {1, 4, 16}) {
      const auto rate =
          ParseInt64(Fact(run, prefix + "depth" + std::to_string(depth) + "_bytes_per_second"));
      if (!rate) continue;
      tier.depths[depth] = *rate;
      tier.possible = std::max(tier.possible.value_or(0), *rate);
    }
    const std::optional<double> rate = MedianReadRate(row.name, attempts);
    if (rate) tier.achieved = std::llround(*rate);
    tiers.push_back(std::move(tier));
  }
  return tiers;
}

std::string Percent(double ratio) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.0f %%", ratio * 100);
  return text.data();
}

template <typename Value>
Json OrNull(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

std::string RenderTiers(const results::Run& run, std::span<const results::Attempt> attempts,
                        int columns) {
  std::string out;
  for (const Tier& tier : TiersOf(run, attempts)) {
    std::string head = tier.path + " (";
    if (tier.simulated) {
      head += "simulated: reads limited to " + FormatBytes(*tier.simulated) + "/s, on ";
    }
    head += tier.storage + "): ";
    std::string depths;
    for (const auto& [depth, rate] : tier.depths) {
      depths +=
          (depths.empty() ? "" : ", ") + FormatBytes(rate) + "/s at depth " + std::to_string(depth);
    }
    out += WrapText(head + depths, {.columns = columns, .indent = 2, .hanging = 4});
    std::string got = "what the load got is not known: the server told no lane of its reader";
    if (tier.achieved) {
      got = "the load got " + FormatBytes(*tier.achieved) + "/s";
      if (const auto ratio = tier.Ratio()) got += ", " + Percent(*ratio) + " of the best of these";
    }
    out += WrapText(got, {.columns = columns, .indent = 4, .hanging = 4});
    if (tier.simulated && tier.possible && *tier.possible > *tier.simulated * 115 / 100) {
      out += WrapText(
          "faster than its limit: the kernel grants reads in steps of 0.1 s, the first at once, "
          "and this file needs too few of them",
          {.columns = columns, .indent = 4, .hanging = 4});
    }
  }
  if (out.empty()) return "";
  return "\nWhat each tier gives by itself, and what the load got of it\n" + out;
}

std::string TiersJson(const results::Run& run, std::span<const results::Attempt> attempts) {
  const std::vector<Tier> tiers = TiersOf(run, attempts);
  if (tiers.empty()) return "null";
  Json out = Json::array();
  for (const Tier& tier : tiers) {
    Json row = {{"condition", tier.condition},
                {"path", tier.path},
                {"storage", tier.storage},
                {"how", tier.how},
                {"simulated", tier.simulated.has_value()},
                {"limit_bytes_per_second", OrNull(tier.simulated)}};
    row["depths"] = Json::object();
    for (const auto& [depth, rate] : tier.depths) row["depths"][std::to_string(depth)] = rate;
    row["possible_bytes_per_second"] = OrNull(tier.possible);
    row["achieved_bytes_per_second"] = OrNull(tier.achieved);
    row["achieved_ratio"] = OrNull(tier.Ratio());
    out.push_back(std::move(row));
  }
  return out.dump();
}

}  // namespace rouse::report
