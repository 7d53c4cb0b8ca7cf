#include "lab/effect.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "stats/summary.h"
#include "stats/verdict.h"

namespace rouse::lab {
namespace {

using results::Attempt;

// With fewer pairs a standard deviation says next to nothing.
constexpr size_t kPairsLeast = 3;

const Condition* Find(const Plan& plan, const std::string& name) {
  for (const Condition& each : plan.conditions) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

// Block -> TTFT of the condition's successes.
std::map<int64_t, double> TtftByBlock(const std::vector<Attempt>& attempts,
                                      const std::string& condition) {
  std::map<int64_t, double> ttfts;
  for (const Attempt& attempt : attempts) {
    const bool counts = !attempt.prime && attempt.outcome == results::Outcome::kOk;
    if (!counts || attempt.condition != condition || !attempt.block || !attempt.ttft_ns) continue;
    ttfts[*attempt.block] = static_cast<double>(*attempt.ttft_ns);
  }
  return ttfts;
}

// Two passes: the sum of squares less the square of the sum fails on large offsets.
double DeviationOf(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

void FromPilot(const Pilot& pilot, SmallestEffect& effect) {
  const std::map<int64_t, double> treatment = TtftByBlock(pilot.attempts, effect.treatment);
  const std::map<int64_t, double> control = TtftByBlock(pilot.attempts, effect.control);
  std::vector<double> differences;
  std::vector<double> controls;
  for (const auto& [block, ttft] : treatment) {
    const auto partner = control.find(block);
    if (partner == control.end()) continue;
    differences.push_back(ttft - partner->second);
    controls.push_back(partner->second);
  }
  const std::string run = "run " + std::to_string(pilot.run);
  if (differences.size() < kPairsLeast) {
    effect.why_not = run + " has " + std::to_string(differences.size()) +
                     " pairs of them, at least " + std::to_string(kPairsLeast) + " are needed";
    return;
  }
  const double shift = stats::SmallestDetectableShift(effect.n, DeviationOf(differences), true,
                                                      effect.confidence, kEffectPower);
  effect.ns = std::llround(shift);
  effect.ratio = shift / MedianOf(controls);
  effect.source = run + ", " + std::to_string(differences.size()) + " pairs";
}

SmallestEffect EffectOf(const Plan& plan, const std::string& treatment, const std::string& control,
                        double confidence, const std::optional<Pilot>& pilot,
                        std::optional<double> spread) {
  SmallestEffect effect{.treatment = treatment,
                        .control = control,
                        .confidence = confidence,
                        .ratio = {},
                        .ns = {},
                        .source = {},
                        .why_not = {}};
  const auto repeats = [&](const std::string& name) {
    return Find(plan, name)->repeat.value_or(plan.repeat);
  };
  effect.n = std::min(repeats(treatment), repeats(control));
  const int64_t least = stats::SmallestNTwoSided(0.5, confidence);
  if (effect.n < least) {
    effect.why_not = "n = " + std::to_string(effect.n) + " has no interval: at least " +
                     std::to_string(least) + " are needed";
  } else if (spread) {
    // Two independent attempts of that spread make a pair.
    effect.ratio = stats::SmallestDetectableShift(effect.n, *spread * std::numbers::sqrt2, true,
                                                  confidence, kEffectPower);
    effect.source = "a stated spread of " + std::to_string(std::lround(*spread * 100)) + " %";
  } else if (pilot) {
    FromPilot(*pilot, effect);
  } else {
    effect.why_not = "no earlier run of it is stored; state a spread with --spread 10%";
  }
  return effect;
}

}  // namespace

Result<std::optional<Pilot>> FindPilot(results::Store& store, const Plan& plan) {
  ASSIGN_OR_RETURN(const std::vector<results::RunSummary> runs, store.ListRuns());
  const std::string hash = PlanHash(plan);
  std::optional<int64_t> alike;
  std::optional<int64_t> same;
  for (auto run = runs.rbegin(); run != runs.rend() && !same; ++run) {
    if (run->kind != "measure" || run->target != TargetText(plan.target)) continue;
    if (run->model != plan.target.model || run->attempts == 0) continue;
    ASSIGN_OR_RETURN(const results::Run stored, store.LoadRun(run->id));
    if (stored.plan_hash == hash) same = run->id;
    const bool has_all = std::all_of(
        plan.conditions.begin(), plan.conditions.end(), [&](const Condition& condition) {
          return std::any_of(stored.conditions.begin(), stored.conditions.end(),
                             [&](const auto& row) { return row.name == condition.name; });
        });
    if (has_all && !alike) alike = run->id;
  }
  const std::optional<int64_t> found = same ? same : alike;
  if (!found) return std::optional<Pilot>();
  Pilot pilot{.run = *found, .attempts = {}};
  ASSIGN_OR_RETURN(pilot.attempts, store.LoadAttempts(*found, results::Detail::kSummary));
  return std::optional<Pilot>(std::move(pilot));
}

std::vector<SmallestEffect> SmallestEffects(const Plan& plan, const std::optional<Pilot>& pilot,
                                            std::optional<double> spread) {
  std::vector<SmallestEffect> effects;
  for (const results::HypothesisRow& row : plan.hypotheses) {
    if (row.metric != "ttft" && row.metric != "ttft_ns") continue;
    // Hypotheses of one plan are judged together (Holm): the first step asks this much.
    const double together = 1 - (1 - row.confidence) / static_cast<double>(plan.hypotheses.size());
    effects.push_back(EffectOf(plan, row.treatment, row.control, together, pilot, spread));
  }
  if (!plan.hypotheses.empty()) return effects;
  for (const Condition& condition : plan.conditions) {
    if (condition.base.empty() || Find(plan, condition.base) == nullptr) continue;
    effects.push_back(EffectOf(plan, condition.name, condition.base, 0.95, pilot, spread));
  }
  return effects;
}

}  // namespace rouse::lab
