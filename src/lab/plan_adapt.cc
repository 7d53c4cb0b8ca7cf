#include "lab/plan_adapt.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "base/units.h"
#include "lab/command_line.h"
#include "lab/factors.h"
#include "lab/plan_internal.h"
#include "lab/targets.h"
#include "models/catalog.h"
#include "os/page_cache.h"

namespace rouse::lab {
namespace {

// What any server of today takes.
constexpr int64_t kSafeContextTokens = 2080;

std::string Quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

const Condition* Find(const std::vector<Condition>& conditions, std::string_view name) {
  for (const Condition& each : conditions) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

// `condition` with the change that it made on `from`, made on `to` instead.
Condition Moved(const Condition& condition, const Condition& from, const Condition& to) {
  Condition moved = condition;
  for (const LayerRow& row : Layers()) {
    if (condition.Value(row.layer) == from.Value(row.layer)) {
      moved.state[row.layer] = to.Value(row.layer);
    }
  }
  if (condition.idle_ns == from.idle_ns) moved.idle_ns = to.idle_ns;
  if (condition.prompt_tokens == from.prompt_tokens) moved.prompt_tokens = to.prompt_tokens;
  if (condition.concurrency == from.concurrency) moved.concurrency = to.concurrency;
  if (condition.target_args == from.target_args) moved.target_args = to.target_args;
  if (condition.path == from.path) moved.path = to.path;
  return moved;
}

// A condition keeps its length, arguments and the like: it is called by them.
bool SameFactors(const Condition& a, const Condition& b) {
  return std::all_of(Factors().begin(), Factors().end(),
                     [&](const FactorRow& factor) { return factor.value(a) == factor.value(b); });
}

// The arguments that presets vary are those of llama.cpp's server, which rouse serve shares. Of
// another program they are not known.
std::string WhyNotArguments(const Plan& plan, const Condition& condition) {
  if (condition.target_args.empty() || plan.target.kind != TargetKind::kCommand) return "";
  const Result<std::vector<std::string>> words = SplitCommand(plan.target.command);
  const std::string program = words.ok() && !words->empty()
                                  ? std::filesystem::path(words->front()).filename().string()
                                  : "";
  if (program.find("llama-server") != std::string::npos || program == "rouse") return "";
  return "the arguments of " + (program.empty() ? "this command" : program) +
         " for it are not known; write a plan with target_args of its own";
}

// What this machine does not permit, though the kind of target would.
std::string WhyNotHere(const Plan& plan, const Condition& condition) {
  if (condition.Value(Layer::kPageCache) != kLockedPages) return "";
  const std::optional<int64_t> limit = os::LockLimitBytes();
  const std::string& file =
      plan.target.model_file.empty() ? plan.target.model : plan.target.model_file;
  const Result<models::ModelFile> model = models::Resolve(file);
  if (!limit || !model.ok() || model->bytes <= *limit) return "";
  return "the file has " + FormatBytes(model->bytes) + ", and this user may lock " +
         FormatBytes(*limit) + " (RLIMIT_MEMLOCK)";
}

// The built-in server's context is a key of the plan; of others it is not known.
std::string WhyNotThisLong(const Plan& plan, const Condition& condition) {
  const bool is_known = plan.target.kind == TargetKind::kBuiltin;
  const int64_t wanted = condition.prompt_tokens.value_or(0) + plan.max_tokens;
  if (is_known || !condition.prompt_tokens || wanted <= kSafeContextTokens) return "";
  return "whether " + std::to_string(wanted) + " tokens fit this server's context is not known: " +
         "print the plan and keep the lengths that do";
}

std::string WhyNot(const Plan& plan, const Condition& condition) {
  std::string why = WhyNotFeasible(plan, condition);
  if (why.empty()) why = WhyNotThisLong(plan, condition);
  if (why.empty()) why = WhyNotArguments(plan, condition);
  return why.empty() ? WhyNotHere(plan, condition) : why;
}

// The preset's own text with the tables of what is left out as comments. A preset's tables are
// separated by empty lines.
std::string TextWithout(std::string_view toml, const std::vector<LeftOut>& left_out) {
  std::string text;
  for (size_t from = 0; from < toml.size();) {
    const size_t end = std::min(toml.find("\n\n", from), toml.size());
    const std::string_view table = toml.substr(from, end - from);
    from = std::min(end + 2, toml.size());
    const LeftOut* gone = nullptr;
    for (const LeftOut& each : left_out) {
      const std::string head = each.hypothesis ? "[[hypothesis]]\n" : "[[condition]]\n";
      if (table.find(head + "name = " + TomlString(each.name) + "\n") != table.npos) gone = &each;
    }
    if (!text.empty()) text += "\n\n";
    if (gone == nullptr) {
      text += table;
      continue;
    }
    std::string comment = "# " + LeftOutText({*gone});
    for (const std::string_view line : SplitAt(table, '\n')) {
      comment += (line.starts_with('#') ? "" : "# ") + std::string(line) + "\n";
    }
    comment.pop_back();
    text += comment;
  }
  return text + (text.ends_with('\n') ? "" : "\n");
}

// Keeps the conditions that the target can be brought into, on bases that are kept.
class Adapter {
 public:
  explicit Adapter(Plan& plan) : plan_(plan), all_(plan.conditions) {}

  std::vector<LeftOut> Run() {
    for (const Condition& condition : all_) Keep(condition);
    plan_.conditions = std::move(kept_);
    std::erase_if(plan_.hypotheses, [&](const results::HypothesisRow& row) {
      for (const std::string* const name : {&row.treatment, &row.control}) {
        if (Find(plan_.conditions, *name) != nullptr) continue;
        left_out_.push_back({row.name, true, "condition " + Quoted(*name) + " is left out"});
        return true;
      }
      return false;
    });
    return std::move(left_out_);
  }

 private:
  // The nearest base that is kept; null for a root.
  const Condition* KeptBase(const Condition& condition) const {
    std::string name = condition.base;
    while (!name.empty()) {
      if (const Condition* const base = Find(kept_, name)) return base;
      name = Find(all_, name)->base;
    }
    return nullptr;
  }

  void Keep(const Condition& condition) {
    const Condition* const base = KeptBase(condition);
    const std::string declared = condition.base;
    const bool moves = !declared.empty() && (base == nullptr || base->name != declared ||
                                             base->state != Find(all_, declared)->state);
    Condition candidate = condition;
    std::string why = WhyNot(plan_, condition);
    if (moves && base != nullptr) {
      // Its own change on another base, where that can be; else its whole state.
      const Condition moved = Moved(condition, *Find(all_, declared), *base);
      if (SameFactors(moved, condition) && WhyNot(plan_, moved).empty()) {
        candidate = moved;
        why.clear();
      }
    }
    if (why.empty() && base != nullptr) why = Rebase(*base, candidate);
    if (why.empty() && base == nullptr) {
      candidate.base.clear();
      candidate.changed.clear();
      candidate.compound = false;
    }
    if (why.empty()) {
      kept_.push_back(std::move(candidate));
    } else {
      left_out_.push_back({condition.name, false, why});
    }
  }

  static std::string Rebase(const Condition& base, Condition& candidate) {
    const std::vector<std::string> changes = ChangesFrom(candidate, base);
    if (changes.empty()) return "on this target it is the same as " + Quoted(base.name);
    candidate.base = base.name;
    candidate.changed.clear();
    for (const std::string& change : changes) {
      candidate.changed += (candidate.changed.empty() ? "" : ", ") + change;
    }
    candidate.compound = changes.size() > 1;
    return "";
  }

  Plan& plan_;
  const std::vector<Condition> all_;
  std::vector<Condition> kept_;
  std::vector<LeftOut> left_out_;
};

}  // namespace

std::vector<LeftOut> AdaptToTarget(Plan& plan) { return Adapter(plan).Run(); }

std::string LeftOutText(const std::vector<LeftOut>& left_out) {
  std::string text;
  for (const LeftOut& each : left_out) {
    text += std::string("left out ") + (each.hypothesis ? "hypothesis " : "condition ") +
            Quoted(each.name) + ": " + each.reason + "\n";
  }
  return text;
}

Result<AdaptedPlan> PlanFromPreset(const Preset& preset, const PlanOverrides& overrides) {
  AdaptedPlan adapted;
  ASSIGN_OR_RETURN(adapted.plan,
                   ParsePlanForAnyTarget(preset.toml, "preset " + std::string(preset.name)));
  Plan& plan = adapted.plan;
  RETURN_IF_ERROR(OverrideTarget(overrides, plan.target));
  adapted.left_out = AdaptToTarget(plan);
  if (plan.conditions.empty()) {
    return Error(ErrorCode::kUsage, "preset " + std::string(preset.name) +
                                        " has nothing for this target:\n" +
                                        LeftOutText(adapted.left_out));
  }
  for (const std::string& name : overrides.only) {
    for (const LeftOut& each : adapted.left_out) {
      if (each.hypothesis || each.name != name) continue;
      return Error(ErrorCode::kUsage, "--only: condition " + Quoted(name) +
                                          " is left out on this target: " + each.reason);
    }
  }
  RETURN_IF_ERROR(ApplyOverrides(overrides, plan));
  if (adapted.left_out.empty()) return adapted;
  plan.toml = TextWithout(preset.toml, adapted.left_out);
  const Result<Plan> told = ParsePlanForAnyTarget(plan.toml, "preset");
  if (told.ok() && PlanHash(*told) == PlanHash(plan)) return adapted;
  // More was changed than left out.
  std::string comments;
  for (const LeftOut& each : adapted.left_out) comments += "# " + LeftOutText({each});
  plan.toml = comments + "\n" + CanonicalPlan(plan);
  return adapted;
}

}  // namespace rouse::lab
