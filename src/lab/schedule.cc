#include "lab/schedule.h"

#include "lab/targets.h"

#include <sys/random.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/time.h"
#include "base/units.h"

namespace rouse::lab {
namespace {

// Usual costs on two shared cores, for the ETA only.
constexpr int64_t kAttemptNs = 350 * kNsPerMs;
constexpr int64_t kReloadNs = 400 * kNsPerMs;
constexpr int64_t kProcessNs = 500 * kNsPerMs;
constexpr int64_t kModelBytesPerSecond = 500'000'000;

int64_t StateCostNs(const Condition& condition, int64_t model_bytes) {
  int64_t cost = 0;
  const int64_t read_ns = model_bytes * (kNsPerSecond / kModelBytesPerSecond);
  if (condition.Value(Layer::kModel) == "unloaded") cost += kReloadNs;
  if (condition.Value(Layer::kProcess) == "new") cost += kProcessNs;
  if (condition.Value(Layer::kPageCache) != "warm") cost += read_ns;
  return cost;
}

std::string JsonString(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (code < 0x20) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      out += "\\u00";
      out += kDigits[code >> 4U];
      out += kDigits[code & 15U];
    } else {
      out += letter;
    }
  }
  return out + "\"";
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

void AppendConditionText(const Plan& plan, const Condition& condition, std::string& out) {
  out += "  " + condition.name;
  if (!condition.base.empty()) {
    out += "  (base " + condition.base + ", changes " + condition.changed;
    out += condition.compound ? ", compound)" : ")";
  }
  out += "\n";
  for (const LayerRow& row : Layers()) {
    const std::string& value = condition.Value(row.layer);
    const TargetLayer& on_target = RowOf(plan.target.kind).On(row.layer);
    const bool shown = row.layer < Layer::kCompileCache || value != row.default_value;
    if (!shown || on_target.set.empty()) continue;
    out += "    " + Padded(std::string(row.name) + " = " + value, 28) +
           "proved by: " + std::string(on_target.proof.empty() ? "nothing can" : on_target.proof) +
           "\n";
  }
  if (condition.idle_ns.value_or(0) > 0) {
    out += "    idle = " + FormatDuration(*condition.idle_ns) + "\n";
  }
  for (const std::string& argument : condition.target_args) {
    out += "    target argument " + argument + "\n";
  }
}

}  // namespace

uint64_t SplitMix64::Next() {
  // Constants: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014,
  // in the variant mix13 of Stafford that java.util.SplittableRandom uses.
  state_ += 0x9e3779b97f4a7c15U;
  uint64_t z = state_;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

uint64_t SplitMix64::Below(uint64_t bound) {
  CHECK(bound > 0);
  const uint64_t threshold = (0 - bound) % bound;  // 2^64 mod bound
  for (;;) {
    const uint64_t drawn = Next();
    if (drawn >= threshold) return drawn % bound;
  }
}

std::vector<ScheduledAttempt> MakeSchedule(const Plan& plan, uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<ScheduledAttempt> schedule;
  if (plan.conditions.empty()) return schedule;
  schedule.push_back({.block = 0, .position = std::nullopt, .condition = 0, .prime = true});
  const auto repeat_of = [&](size_t i) { return plan.conditions[i].repeat.value_or(plan.repeat); };
  int64_t blocks = 0;
  for (size_t i = 0; i < plan.conditions.size(); ++i) blocks = std::max(blocks, repeat_of(i));
  int64_t position = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    std::vector<size_t> order;
    for (size_t i = 0; i < plan.conditions.size(); ++i) {
      if (block < repeat_of(i)) order.push_back(i);
    }
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<size_t>(random.Below(i))]);
    }
    for (const size_t condition : order) {
      schedule.push_back(
          {.block = block, .position = position++, .condition = condition, .prime = false});
    }
  }
  return schedule;
}

uint64_t DrawSeed() {
  uint64_t drawn = 0;
  CHECK(getrandom(&drawn, sizeof drawn, 0) == sizeof drawn);
  return SplitMix64(drawn).Below(999'999) + 1;
}

int64_t EstimateRunNs(const Plan& plan, const std::vector<ScheduledAttempt>& schedule,
                      std::optional<int64_t> model_bytes) {
  int64_t total = kNsPerSecond;  // calibration, first start
  for (const ScheduledAttempt& attempt : schedule) {
    const Condition& condition = plan.conditions[attempt.condition];
    total += kAttemptNs + StateCostNs(condition, model_bytes.value_or(0)) +
             condition.idle_ns.value_or(0);
  }
  return total;
}

std::string ScheduleJson(const Plan& plan, uint64_t seed,
                         const std::vector<ScheduledAttempt>& schedule, int64_t eta_ns) {
  std::string out = "{\"schema\": \"rouse.schedule/1\", \"seed\": " + std::to_string(seed) +
                    ", \"plan_hash\": \"" + PlanHash(plan) +
                    "\", \"eta_ns\": " + std::to_string(eta_ns) + ", \"attempts\": [";
  bool first = true;
  for (const ScheduledAttempt& attempt : schedule) {
    if (attempt.prime) continue;
    const Condition& condition = plan.conditions[attempt.condition];
    out += first ? "\n  " : ",\n  ";
    first = false;
    out += "{\"block\": " + std::to_string(attempt.block) +
           ", \"position\": " + std::to_string(*attempt.position) +
           ", \"condition\": " + JsonString(condition.name) +
           ", \"idle_ns\": " + std::to_string(condition.idle_ns.value_or(0)) + "}";
  }
  return out + "]}\n";
}

std::string ScheduleText(const Plan& plan, uint64_t seed,
                         const std::vector<ScheduledAttempt>& schedule, int64_t eta_ns) {
  const size_t count = static_cast<size_t>(std::count_if(
      schedule.begin(), schedule.end(), [](const ScheduledAttempt& each) { return !each.prime; }));
  std::string out = "Plan " + plan.name + ": " + std::to_string(plan.conditions.size()) +
                    " conditions, " + std::to_string(count) + " attempts, order drawn from seed " +
                    std::to_string(seed) + ", about " + FormatDuration(eta_ns) + ".\n" + "Hash " +
                    PlanHash(plan) + "\n\nStates, each read back before the request:\n";
  for (const Condition& condition : plan.conditions) AppendConditionText(plan, condition, out);
  for (const results::HypothesisRow& row : plan.hypotheses) {
    out += "  hypothesis " + row.name + ": " + row.metric + " " + row.statistic + " of " +
           row.treatment + " against " + row.control + ", expect " + row.expect + ", margin " +
           row.margin + "\n";
  }
  out += "\nOrder (after one unmeasured prime, \"" +
         plan.conditions[schedule.front().condition].name + "\"):\n";
  const size_t width = LongestName(plan);
  out += "  block  position  " + Padded("condition", width) + "  idle\n";
  for (const ScheduledAttempt& attempt : schedule) {
    if (attempt.prime) continue;
    const Condition& condition = plan.conditions[attempt.condition];
    out += "  " + Padded(std::to_string(attempt.block), 5) + "  " +
           Padded(std::to_string(*attempt.position), 8) + "  " + Padded(condition.name, width) +
           "  " + FormatDuration(condition.idle_ns.value_or(0)) + "\n";
  }
  return out + "\nNothing was run.\n";
}

}  // namespace rouse::lab
