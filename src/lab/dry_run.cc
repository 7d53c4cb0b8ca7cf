// A plan and its schedule, as --dry-run shows them: as JSON and for people.
#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "base/units.h"
#include "lab/factors.h"
#include "lab/schedule.h"
#include "lab/targets.h"

namespace rouse::lab {
namespace {

using Json = nlohmann::ordered_json;

// One layer or factor that a condition brings about.
struct StateLine {
  std::string name;
  std::string value;
  std::string set;
  std::string proof;
  bool shown = false;  // to people: what varies, and the layers that nearly every plan is about
};

std::vector<StateLine> StatesOf(const Plan& plan, const Condition& condition) {
  std::vector<StateLine> lines;
  for (const LayerRow& row : Layers()) {
    const TargetLayer& on = RowOf(plan.target.kind).On(row.layer);
    const std::string& value = condition.Value(row.layer);
    if (on.set.empty()) continue;
    std::string proof(on.proof.empty() ? "nothing can" : on.proof);
    if (value == kLockedPages) proof += ", and VmLck of rouse, which has its pages locked";
    const std::optional<int64_t> bytes =
        row.layer == Layer::kMemoryPressure ? ParseInt64(value) : std::nullopt;
    lines.push_back({.name = std::string(row.name),
                     .value = bytes ? FormatBytes(*bytes) : value,
                     .set = std::string(on.set),
                     .proof = proof,
                     .shown = row.layer < Layer::kCompileCache || value != row.default_value});
  }
  for (const FactorRow& factor : Factors()) {
    const std::string value = factor.value(condition);
    if (value.empty()) continue;
    lines.push_back({.name = std::string(factor.name),
                     .value = value,
                     .set = std::string(factor.set),
                     .proof = std::string(factor.proof),
                     .shown = true});
  }
  return lines;
}

std::string Padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

size_t LongestName(const Plan& plan) {
  size_t width = 9;
  for (const Condition& condition : plan.conditions) {
    width = std::max(width, condition.name.size());
  }
  return width;
}

std::string Percent(double ratio) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), ratio < 0.0995 ? "%.1f %%" : "%.0f %%", ratio * 100);
  return text.data();
}

template <typename Value>
Json OrNull(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

void AppendConditionText(const Plan& plan, const Condition& condition, std::string& out) {
  out += "  " + condition.name;
  if (!condition.base.empty()) {
    out += "  (base " + condition.base + ", changes " + condition.changed;
    out += condition.compound ? ", compound)" : ")";
  }
  out += "\n";
  for (const StateLine& line : StatesOf(plan, condition)) {
    if (!line.shown) continue;
    out += "    " + Padded(line.name + " = " + line.value, 28) + "proved by: " + line.proof + "\n";
  }
}

// How each of them is brought about: once for the plan.
void AppendSettings(const Plan& plan, std::string& out) {
  out += "\nHow they are brought about:\n";
  std::vector<std::string> told;
  for (const Condition& condition : plan.conditions) {
    for (const StateLine& line : StatesOf(plan, condition)) {
      if (!line.shown || std::find(told.begin(), told.end(), line.name) != told.end()) continue;
      told.push_back(line.name);
      out += "  " + Padded(line.name, 16) + line.set + "\n";
    }
  }
}

void AppendEffects(const std::vector<SmallestEffect>& effects, std::string& out) {
  if (effects.empty()) return;
  out += "\nSmallest difference in TTFT that this n can see (power 80 %, hypotheses together):\n";
  for (const SmallestEffect& effect : effects) {
    out += "  " + effect.treatment + " against " + effect.control +
           ", n = " + std::to_string(effect.n) + ": ";
    if (!effect.ratio) {
      out += "not known: " + effect.why_not + "\n";
      continue;
    }
    out += Percent(*effect.ratio);
    if (effect.ns) out += " (" + FormatDuration(*effect.ns) + ")";
    out += ", from " + effect.source + "\n";
  }
}

}  // namespace

std::string ScheduleJson(const Plan& plan, const DryRun& run) {
  Json json = {{"schema", "rouse.schedule/1"},
               {"seed", run.seed},
               {"plan_hash", PlanHash(plan)},
               {"eta_ns", run.eta_ns}};
  json["attempts"] = Json::array();
  for (const ScheduledAttempt& attempt : run.schedule) {
    if (attempt.prime) continue;
    const Condition& condition = plan.conditions[attempt.condition];
    json["attempts"].push_back({{"block", attempt.block},
                                {"position", *attempt.position},
                                {"condition", condition.name},
                                {"idle_ns", condition.idle_ns.value_or(0)}});
  }
  json["states"] = Json::array();
  for (const Condition& condition : plan.conditions) {
    for (const StateLine& line : StatesOf(plan, condition)) {
      json["states"].push_back({{"condition", condition.name},
                                {"layer", line.name},
                                {"value", line.value},
                                {"set", line.set},
                                {"proof", line.proof}});
    }
  }
  json["smallest_effects"] = Json::array();
  for (const SmallestEffect& effect : run.effects) {
    Json row = {{"treatment", effect.treatment},
                {"control", effect.control},
                {"n", effect.n},
                {"confidence", effect.confidence},
                {"power", kEffectPower},
                {"ratio", OrNull(effect.ratio)},
                {"ns", OrNull(effect.ns)}};
    row["source"] = effect.source.empty() ? Json() : Json(effect.source);
    if (!effect.why_not.empty()) row["null_reason"] = effect.why_not;
    json["smallest_effects"].push_back(row);
  }
  json["left_out"] = Json::array();
  for (const LeftOut& each : run.left_out) {
    json["left_out"].push_back(
        {{each.hypothesis ? "hypothesis" : "condition", each.name}, {"reason", each.reason}});
  }
  if (!run.cases_json.empty()) json["verification"] = Json::parse(run.cases_json);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string ScheduleText(const Plan& plan, const DryRun& run) {
  const auto count = std::count_if(run.schedule.begin(), run.schedule.end(),
                                   [](const ScheduledAttempt& each) { return !each.prime; });
  std::string out = "Plan " + plan.name + ": " + std::to_string(plan.conditions.size()) +
                    " conditions, " + std::to_string(count) + " attempts, order drawn from seed " +
                    std::to_string(run.seed) + ", about " + FormatDuration(run.eta_ns) + ".\n" +
                    "Hash " + PlanHash(plan) + "\n";
  if (!run.left_out.empty()) out += "\nOn this target:\n" + LeftOutText(run.left_out);
  out += "\nStates, each read back before the request:\n";
  for (const Condition& condition : plan.conditions) AppendConditionText(plan, condition, out);
  for (const results::HypothesisRow& row : plan.hypotheses) {
    out += "  hypothesis " + row.name + ": " + row.metric + " " + row.statistic + " of " +
           row.treatment + " against " + row.control + ", expect " + row.expect + ", margin " +
           row.margin + "\n";
  }
  AppendSettings(plan, out);
  AppendEffects(run.effects, out);
  out += "\nOrder (after one unmeasured prime, \"" +
         plan.conditions[run.schedule.front().condition].name + "\"):\n";
  const size_t width = LongestName(plan);
  out += "  block  position  " + Padded("condition", width) + "  idle\n";
  for (const ScheduledAttempt& attempt : run.schedule) {
    if (attempt.prime) continue;
    const Condition& condition = plan.conditions[attempt.condition];
    out += "  " + Padded(std::to_string(attempt.block), 5) + "  " +
           Padded(std::to_string(*attempt.position), 8) + "  " + Padded(condition.name, width) +
           "  " + FormatWrittenDuration(condition.idle_ns.value_or(0)) + "\n";
  }
  if (!run.cases_text.empty()) out += "\nAfter these attempts:\n" + run.cases_text;
  return out + "\nNothing was run.\n";
}

}  // namespace rouse::lab
