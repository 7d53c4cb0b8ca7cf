#include "explain/contrasts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "base/strings.h"
#include "base/units.h"
#include "explain/layer_words.h"
#include "stats/summary.h"

namespace rouse::explain {
namespace {

using results::Attempt;
using results::ConditionRow;
using Group = std::vector<const Attempt*>;

constexpr double kConfidence = 0.95;
constexpr double kColdAtMost = 0.01;
constexpr double kOtherLayerTolerance = 0.02;

std::string ValueOf(const ConditionRow& row, const std::string& layer) {
  const auto found = row.state.find(layer);
  return found == row.state.end() ? "" : found->second;
}

// "0.5": a part of a file.
std::optional<double> ShareIn(const std::string& value) {
  double share = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), share);
  if (error != std::errc() || end != value.data() + value.size()) return std::nullopt;
  return share;
}

Group Counted(std::span<const Attempt> attempts, const std::string& condition) {
  Group group;
  for (const Attempt& attempt : attempts) {
    if (attempt.condition != condition || attempt.prime) continue;
    if (results::CountsInSample(attempt.outcome)) group.push_back(&attempt);
  }
  return group;
}

double TimeOf(const Attempt& attempt) {
  const bool ok = attempt.outcome == results::Outcome::kOk && attempt.ttft_ns;
  return ok ? static_cast<double>(*attempt.ttft_ns) : std::numeric_limits<double>::infinity();
}

std::map<int64_t, double> ByBlock(const Group& group) {
  std::map<int64_t, double> blocks;
  for (const Attempt* const attempt : group) {
    if (!attempt->block || !blocks.emplace(*attempt->block, TimeOf(*attempt)).second) return {};
  }
  return blocks;
}

stats::Shift CostOf(const Group& treatment, const Group& control) {
  const std::map<int64_t, double> t = ByBlock(treatment);
  const std::map<int64_t, double> c = ByBlock(control);
  std::vector<double> left;
  std::vector<double> right;
  if (!t.empty() && !c.empty()) {
    for (const auto& [block, value] : t) {
      const auto partner = c.find(block);
      if (partner == c.end()) continue;
      left.push_back(value);
      right.push_back(partner->second);
    }
    return stats::PairedShift(left, right, kConfidence);
  }
  for (const Attempt* const attempt : treatment) left.push_back(TimeOf(*attempt));
  for (const Attempt* const attempt : control) right.push_back(TimeOf(*attempt));
  return stats::TwoSampleShift(left, right, kConfidence);
}

// Whether the attempt's layer was read back as declared, and no reading said otherwise. Idle time
// is set by waiting, and read back from the clock.
bool Proved(const Attempt& attempt, const std::string& layer, const ConditionRow& row) {
  if (layer == "idle") return attempt.idle_ns.value_or(0) >= row.idle_ns.value_or(0);
  bool reached = false;
  for (const results::LayerReadings* const readings :
       {&attempt.state_before, &attempt.state_at_send, &attempt.state_after}) {
    const auto found = readings->find(layer);
    if (found == readings->end() || !found->second.reached) continue;
    if (!*found->second.reached) return false;
    reached = reached || !found->second.proof.empty();
  }
  return reached;
}

std::string Describe(const LayerView& view) {
  return view.share ? Percent(*view.share) : view.word;
}

bool Differ(const LayerView& a, const LayerView& b) {
  if (a.share && b.share) return std::fabs(*a.share - *b.share) > kOtherLayerTolerance;
  return a.word != b.word;
}

// "model unloaded (loaded in the base)": layers beside the changed one that were not alike.
std::vector<std::string> OtherDifferences(const Profile& t, const Profile& c,
                                          const std::string& changed) {
  std::vector<std::string> words;
  for (const auto& [layer, view] : t.layers) {
    const LayerView* const other = c.Layer(layer);
    if (layer == changed || other == nullptr || !Differ(view, *other)) continue;
    words.push_back(layer + " " + Describe(view) + " (" + Describe(*other) + " in the base)");
  }
  return words;
}

std::string WhyNotProved(const Contrast& contrast, const ConditionRow& condition,
                         const ConditionRow& base, const Group& t, const Group& c, bool compound) {
  if (compound || contrast.layer.find(',') != std::string::npos) {
    return "it changes several layers together";
  }
  const auto unproved = [&](const Group& group, const ConditionRow& row) {
    return std::count_if(group.begin(), group.end(), [&](const Attempt* attempt) {
      return !Proved(*attempt, contrast.layer, row);
    });
  };
  const int64_t missing = unproved(t, condition) + unproved(c, base);
  if (missing > 0) {
    return contrast.layer + " was not read back in " + std::to_string(missing) + " of " +
           std::to_string(t.size() + c.size()) + " attempts";
  }
  // Layers that idling loses are what idling does; they are named, and isolated by other contrasts.
  if (contrast.layer != "idle" && !contrast.lost_layers.empty()) {
    return "another layer differed as well: " + contrast.lost_layers.front();
  }
  return "";
}

void Decide(Contrast& contrast) {
  if (!contrast.cost.value || !contrast.cost.ci) {
    contrast.grade = Grade::kUndecided;
  } else if (contrast.cost.ci->low > 0) {
    contrast.grade = contrast.why_not_proved.empty() ? Grade::kProved : Grade::kCosts;
  } else {
    contrast.grade = Grade::kNoCost;
  }
}

std::string TitleOf(const std::string& layer, const ConditionRow& condition) {
  if (layer == "idle") {
    return "nothing was asked for " + FormatWrittenDuration(condition.idle_ns.value_or(0));
  }
  const std::string value = ValueOf(condition, layer);
  if (const std::string_view met = MetWords(layer, value); !met.empty()) return std::string(met);
  if (const std::optional<double> share = ShareIn(value); layer == "page_cache" && share) {
    return "only " + Percent(*share) + " of the model's file were in the page cache";
  }
  if (const LayerWords* const words = FindLayerWords(layer)) {
    return std::string(words->lost);
  }
  return "\"" + condition.name + "\" (" + layer + ")";
}

Contrast ContrastOf(const results::Run& run, std::span<const Attempt> attempts,
                    const ConditionRow& declared, const ConditionRow& declared_base) {
  // A condition that is the warmer one of the two tells what its base lacks.
  const LayerWords* const words = FindLayerWords(declared.changed);
  const bool flipped = words != nullptr && ValueOf(declared, declared.changed) == words->warmer;
  const ConditionRow& condition = flipped ? declared_base : declared;
  const ConditionRow& base = flipped ? declared : declared_base;
  Contrast contrast;
  contrast.condition = condition.name;
  contrast.base = base.name;
  contrast.layer = declared.changed;
  contrast.title = TitleOf(declared.changed, condition);
  const Group t = Counted(attempts, condition.name);
  const Group c = Counted(attempts, base.name);
  contrast.n_condition = static_cast<int64_t>(t.size());
  contrast.n_base = static_cast<int64_t>(c.size());
  for (const Group* const group : {&t, &c}) {
    for (const Attempt* const attempt : *group) {
      contrast.failures += attempt->outcome == results::Outcome::kOk ? 0 : 1;
    }
  }
  contrast.cost = CostOf(t, c);
  const Profile there = ProfileOf(t);
  const Profile here = ProfileOf(c);
  contrast.lost_layers = OtherDifferences(there, here, contrast.layer);
  contrast.why_not_proved = WhyNotProved(contrast, condition, base, t, c, declared.compound);
  Decide(contrast);
  if (there.ttft_ns && here.ttft_ns && *there.ttft_ns > *here.ttft_ns) {
    contrast.attribution = Attribute({.subject = there,
                                      .reference = here,
                                      .excess_ns = *there.ttft_ns - *here.ttft_ns,
                                      .model_bytes = ModelBytes(run),
                                      .disk_bytes_per_s = DiskRate(run, attempts, nullptr)});
  }
  return contrast;
}

}  // namespace

std::string_view GradeName(Grade grade) {
  constexpr std::array<std::string_view, 4> kNames = {"proved", "costs", "no_cost", "undecided"};
  return kNames[static_cast<size_t>(grade)];
}

std::vector<Contrast> FindContrasts(const results::Run& run, std::span<const Attempt> attempts) {
  std::vector<Contrast> contrasts;
  for (const ConditionRow& row : run.conditions) {
    const auto base = std::find_if(run.conditions.begin(), run.conditions.end(),
                                   [&](const auto& each) { return each.name == row.base; });
    if (row.base.empty() || base == run.conditions.end()) continue;
    contrasts.push_back(ContrastOf(run, attempts, row, *base));
  }
  const auto cost = [](const Contrast& contrast) {
    return contrast.cost.value.value_or(-std::numeric_limits<double>::infinity());
  };
  std::stable_sort(contrasts.begin(), contrasts.end(),
                   [&](const Contrast& a, const Contrast& b) { return cost(a) > cost(b); });
  return contrasts;
}

std::optional<double> ModelBytes(const results::Run& run) {
  const auto found = run.environment.find("model_bytes");
  if (found == run.environment.end()) return std::nullopt;
  const std::optional<int64_t> bytes = ParseInt64(found->second);
  return bytes && *bytes > 0 ? std::optional<double>(static_cast<double>(*bytes)) : std::nullopt;
}

std::optional<double> DiskRate(const results::Run& run, std::span<const Attempt> attempts,
                               const Attempt* except) {
  const std::optional<double> file = ModelBytes(run);
  std::vector<double> rates;
  for (const Attempt& attempt : attempts) {
    if (&attempt == except || !CanBeReference(attempt)) continue;
    const std::array<const Attempt*, 1> one = {&attempt};
    const Profile profile = ProfileOf(one);
    const LayerView* const cache = profile.Layer("page_cache");
    const std::optional<double> read = profile.Counter("target_read_bytes");
    if (cache == nullptr || !cache->share || *cache->share > kColdAtMost || !read || !file)
      continue;
    const std::optional<double> weights = profile.Stage(results::Stage::kWeights);
    const std::optional<double> ns = profile.lane_ns ? profile.lane_ns : weights;
    if (*read >= *file / 2 && ns && *ns > 0) rates.push_back(*read / (*ns / 1e9));
  }
  return rates.empty() ? std::nullopt : std::optional<double>(stats::Median(std::move(rates)));
}

}  // namespace rouse::explain
