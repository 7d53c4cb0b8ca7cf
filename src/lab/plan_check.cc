// What the keys of a plan mean together: bases and the one-change rule, states that cannot exist,
// layers that a kind of target cannot set, hypotheses over conditions that are there.
#include <algorithm>
#include <array>

#include "base/strings.h"
#include "base/units.h"
#include "lab/factors.h"
#include "lab/plan.h"
#include "lab/plan_internal.h"
#include "lab/targets.h"
#include "results/attempt.h"
#include "results/metric_text.h"
#include "results/metrics.h"

namespace rouse::lab {
namespace {

std::string Quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

const Condition* FindCondition(const Plan& plan, std::string_view name) {
  for (const Condition& condition : plan.conditions) {
    if (condition.name == name) return &condition;
  }
  return nullptr;
}

std::string NearestCondition(const Plan& plan, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Condition& condition : plan.conditions) names.push_back(condition.name);
  const std::string nearest = NearestName(name, names);
  return nearest.empty() ? "" : " (did you mean " + Quoted(nearest) + "?)";
}

std::string CountWord(size_t count) {
  constexpr std::array<std::string_view, 7> kWords = {"no",   "one",  "two", "three",
                                                      "four", "five", "six"};
  return count < kWords.size() ? std::string(kWords[count]) : std::to_string(count);
}

// "idle, prompt_tokens, ... or path"
std::string FactorNames() {
  std::string text;
  for (const FactorRow& factor : Factors()) {
    if (!text.empty()) text += &factor == &Factors().back() ? " or " : ", ";
    text += factor.name;
  }
  return text;
}

std::string JoinNames(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Status ApplyOneChangeRule(const RawCondition& raw, std::string_view file, const Condition& base,
                          Condition& condition) {
  const std::vector<std::string> changes = ChangesFrom(condition, base);
  condition.changed = JoinNames(changes);
  const std::string title = "condition " + Quoted(raw.name);
  if (changes.empty()) {
    return PlanError(file, raw.line,
                     title + " is the same as its base " + Quoted(raw.base) +
                         "; expected one changed layer, " + FactorNames());
  }
  if (changes.size() > 1 && !raw.compound) {
    return PlanError(file, raw.line,
                     title + " differs from its base " + Quoted(raw.base) + " in " +
                         CountWord(changes.size()) + " layers (" + condition.changed +
                         ").\nPut a condition between them, or write compound = true to say that "
                         "they are meant together.");
  }
  if (changes.size() == 1 && raw.compound) {
    return PlanError(file, raw.line,
                     title + " says compound = true but differs from its base " + Quoted(raw.base) +
                         " in one layer only (" + condition.changed + "); remove it");
  }
  return {};
}

// A state that no server can be in, whatever its kind.
std::string WhyImpossible(const Condition& condition) {
  const bool process_new = condition.Value(Layer::kProcess) == "new";
  const bool loaded = condition.Value(Layer::kModel) == "loaded";
  if (process_new && condition.Value(Layer::kModel) != "unloaded") {
    return "a new process has no model loaded: process = \"new\" needs model = \"unloaded\"";
  }
  if (process_new && condition.Value(Layer::kConnection) == "reused") {
    return "a connection to a process that is only being started cannot be reused";
  }
  if (process_new && condition.idle_ns.value_or(0) > 0) {
    return "a process that is started by the request cannot idle before it";
  }
  if (!loaded && condition.Value(Layer::kPrefixCache) == "hit") {
    return "an unloaded model has lost its prefix cache: prefix_cache = \"hit\" needs model = "
           "\"loaded\"";
  }
  return "";
}

// Whether the model's file is rouse's to name when it starts the server.
bool CanMoveModel(const TargetSpec& target) {
  if (target.kind == TargetKind::kBuiltin) return true;
  return RowOf(target.kind).owns_process && target.command.find("{model}") != std::string::npos;
}

// Layers that need more than their kind of target: a file, a key of [target], another layer.
std::string WhyNotTogether(const Condition& condition, const TargetSpec& target) {
  const auto wants = [&](Layer layer) {
    return condition.Value(layer) != RowOf(layer).default_value;
  };
  const auto text = [&](Layer layer) {
    return std::string(LayerName(layer)) + " = " + Quoted(condition.Value(layer));
  };
  const bool builtin = target.kind == TargetKind::kBuiltin;
  const bool leaves_cache =
      wants(Layer::kPageCache) && condition.Value(Layer::kPageCache) != kLockedPages;
  if (builtin && leaves_cache && !wants(Layer::kModel)) {
    return "a loaded model keeps its file's pages mapped, so they cannot leave the page cache: " +
           text(Layer::kPageCache) + " needs model = \"unloaded\"";
  }
  if (!builtin && condition.Value(Layer::kModel) == "asleep") {
    return "model = \"asleep\" is a state of the built-in server, which keeps all but the weights' "
           "pages; the sleep of other servers frees the model: take model = \"unloaded\"";
  }
  if (target.kind == TargetKind::kCommand && wants(Layer::kModel) && !wants(Layer::kProcess)) {
    return "rouse does not know this server's unload call: on a command, model = \"unloaded\" "
           "needs process = \"new\"";
  }
  const bool file_known = !target.model_file.empty() || CanMoveModel(target);
  if (wants(Layer::kPageCache) && !file_known) {
    return text(Layer::kPageCache) +
           " needs model_file in [target], the local file whose pages are meant";
  }
  if (condition.Value(Layer::kBackground) == "disk" && !file_known) {
    return "background = \"disk\" needs model_file in [target], the local file that is read";
  }
  if (condition.Value(Layer::kBackground) == "requests" && wants(Layer::kModel) &&
      !wants(Layer::kProcess)) {
    return "background = \"requests\" would load the model that is to be unloaded";
  }
  if (wants(Layer::kCompileCache) && target.compile_cache_env.empty()) {
    return "compile_cache = \"empty\" needs compile_cache_env in [target], the environment "
           "variable that tells this server where to keep compiled kernels, such as "
           "\"CUDA_CACHE_PATH\"";
  }
  if (wants(Layer::kCompileCache) && !wants(Layer::kProcess)) {
    return "a running server has its compiled kernels in memory: compile_cache = \"empty\" needs "
           "process = \"new\"";
  }
  return "";
}

std::string WhyNotPath(const Condition& condition, const TargetSpec& target) {
  if (condition.path.empty()) return "";
  if (!RowOf(target.kind).owns_process) {
    return "a server that rouse does not start cannot be told to load from another path";
  }
  if (!CanMoveModel(target)) return "path needs {model} in the command, where the file is named";
  if (target.paths.contains(condition.path)) return "";
  std::vector<std::string_view> names;
  for (const auto& [name, directory] : target.paths) names.push_back(name);
  const std::string nearest = NearestName(condition.path, names);
  return "path " + Quoted(condition.path) + " is not among paths in [target]" +
         (nearest.empty() ? "" : " (did you mean " + Quoted(nearest) + "?)") +
         "; give it there or by --path " + condition.path + "=DIR";
}

// A state that this kind of target cannot be brought into, or not provably.
std::string WhyNotOnTarget(const Condition& condition, const TargetSpec& target) {
  const TargetRow& kind = RowOf(target.kind);
  for (const LayerRow& row : Layers()) {
    if (condition.Value(row.layer) == row.default_value || kind.Sets(row.layer)) continue;
    return std::string(row.name) + " = " + Quoted(condition.Value(row.layer)) +
           " cannot be set on a target of kind " + Quoted(kind.name) + ": " +
           std::string(kind.On(row.layer).limit) + "; expected " + Quoted(row.default_value);
  }
  if (!kind.owns_process && !condition.target_args.empty()) {
    return "target_args cannot be given to a server that rouse does not start";
  }
  const std::string why = WhyNotPath(condition, target);
  return why.empty() ? WhyNotTogether(condition, target) : why;
}

// ": NAME is in bytes", where a duration is not what is wanted.
std::string OfMetric(const results::Metric& metric) {
  if (metric.unit == "ns" || metric.unit == "us") return "";
  return ": " + std::string(metric.name) + " is " +
         (metric.kind == results::MetricKind::kRatio ? "a ratio"
                                                     : "in " + std::string(metric.unit));
}

}  // namespace

std::vector<std::string> ChangesFrom(const Condition& condition, const Condition& base) {
  std::vector<std::string> changes;
  for (const LayerRow& row : Layers()) {
    if (condition.Value(row.layer) != base.Value(row.layer)) changes.emplace_back(row.name);
  }
  for (const FactorRow& factor : Factors()) {
    if (factor.value(condition) != factor.value(base)) changes.emplace_back(factor.name);
  }
  return changes;
}

Error PlanError(std::string_view file, int line, const std::string& what) {
  if (file.empty()) return Error(ErrorCode::kUsage, what);
  return Error(ErrorCode::kUsage, std::string(file) + ":" + std::to_string(line) + ": " + what);
}

std::vector<std::string_view> HypothesisMetrics() {
  std::vector<std::string_view> names = {"ttft", "ttfc"};
  for (const results::Metric& metric : results::Metrics()) names.push_back(metric.name);
  return names;
}

Status CheckMargin(const results::HypothesisRow& row, std::string_view file, int line,
                   std::string_view title) {
  const std::string what = "\"margin\" in " + std::string(title) + ": ";
  const results::Metric* const metric = results::FindMetric(row.metric);
  if (metric == nullptr) return {};  // told where the metric is named
  if (row.margin.ends_with('%')) {
    if (results::ParseMargin(row.margin, *metric).ok()) return {};
    return PlanError(file, line,
                     what + Quoted(row.margin) + " is not a share above 0, such as \"10%\"");
  }
  const Result<double> value = results::ParseMetricValue(row.margin, *metric);
  if (!value.ok()) {
    return PlanError(file, line,
                     what + value.error().message() + ", or \"10%\"" + OfMetric(*metric));
  }
  if (*value > 0) return {};
  return PlanError(file, line, what + "must be above 0: the smallest change worth having");
}

Status CheckGuard(const std::string& guard, std::string_view file, int line,
                  std::string_view title) {
  const Result<results::Guard> parsed = results::ParseGuard(guard);
  if (parsed.ok()) return {};
  return PlanError(file, line,
                   "\"guard\" in " + std::string(title) + ": " + parsed.error().message() +
                       "; expected for example \"failure_rate<=0.05\"");
}

Status AddCondition(const RawCondition& raw, std::string_view file, Plan& plan) {
  const std::string title = "condition " + Quoted(raw.name);
  if (const Condition* const twin = FindCondition(plan, raw.name)) {
    return PlanError(file, raw.line,
                     title + " is declared twice, first in line " + std::to_string(twin->line));
  }
  Condition condition;
  condition.name = raw.name;
  condition.base = raw.base;
  condition.repeat = raw.repeat;
  condition.line = raw.line;
  if (raw.base.empty()) {
    if (raw.compound) {
      return PlanError(file, raw.line, title + " says compound = true but has no base");
    }
    for (const LayerRow& row : Layers()) condition.state[row.layer] = row.default_value;
  } else {
    const Condition* const base = FindCondition(plan, raw.base);
    if (base == nullptr) {
      return PlanError(file, raw.base_line,
                       "base " + Quoted(raw.base) + " of " + title + " is no condition above it" +
                           NearestCondition(plan, raw.base));
    }
    condition.state = base->state;
    condition.idle_ns = base->idle_ns;
    condition.target_args = base->target_args;
    condition.prompt_tokens = base->prompt_tokens;
    condition.concurrency = base->concurrency;
    condition.path = base->path;
  }
  for (const auto& [layer, value] : raw.state) condition.state[layer] = value;
  if (raw.idle_ns) condition.idle_ns = raw.idle_ns;
  if (raw.target_args) condition.target_args = *raw.target_args;
  if (raw.prompt_tokens) condition.prompt_tokens = raw.prompt_tokens;
  if (raw.concurrency) condition.concurrency = *raw.concurrency;
  if (raw.path) condition.path = *raw.path;
  if (!raw.base.empty()) {
    condition.compound = raw.compound;
    RETURN_IF_ERROR(ApplyOneChangeRule(raw, file, *FindCondition(plan, raw.base), condition));
  }
  plan.conditions.push_back(std::move(condition));
  return {};
}

Status AddHypothesis(const RawHypothesis& raw, std::string_view file, Plan& plan) {
  const std::string title = "hypothesis " + Quoted(raw.row.name);
  for (const results::HypothesisRow& other : plan.hypotheses) {
    if (other.name == raw.row.name) return PlanError(file, raw.line, title + " is declared twice");
  }
  RETURN_IF_ERROR(CheckMargin(raw.row, file, raw.margin_line, title));
  if (FindCondition(plan, raw.row.treatment) == nullptr) {
    return PlanError(file, raw.treatment_line,
                     "treatment " + Quoted(raw.row.treatment) + " of " + title +
                         " is no condition of this plan" +
                         NearestCondition(plan, raw.row.treatment));
  }
  if (FindCondition(plan, raw.row.control) == nullptr) {
    return PlanError(file, raw.control_line,
                     "control " + Quoted(raw.row.control) + " of " + title +
                         " is no condition of this plan" + NearestCondition(plan, raw.row.control));
  }
  if (raw.row.treatment == raw.row.control) {
    return PlanError(file, raw.control_line,
                     title + " compares " + Quoted(raw.row.control) + " with itself");
  }
  plan.hypotheses.push_back(raw.row);
  return {};
}

std::string WhyNotFeasible(const Plan& plan, const Condition& condition) {
  std::string impossible = WhyImpossible(condition);
  if (!impossible.empty()) return impossible;
  const bool bounded = plan.target.kind == TargetKind::kBuiltin;
  const int64_t wanted = condition.prompt_tokens.value_or(0) + plan.max_tokens;
  if (bounded && condition.prompt_tokens && wanted > plan.target.context) {
    return "prompt_tokens = " + std::to_string(*condition.prompt_tokens) +
           " and max_tokens = " + std::to_string(plan.max_tokens) +
           " are more than context = " + std::to_string(plan.target.context) + " in [target]";
  }
  return WhyNotOnTarget(condition, plan.target);
}

// Whether any argument of the started server names the port that is chosen for it.
bool TellsPort(const Plan& plan) {
  const auto names = [](const std::string& word) {
    return word.find("{port}") != std::string::npos;
  };
  return names(plan.target.command) || std::ranges::any_of(plan.target.args, names) ||
         std::ranges::any_of(plan.conditions, [&](const Condition& each) {
           return std::ranges::any_of(each.target_args, names);
         });
}

Status CheckFeasible(const Plan& plan, std::string_view file_name) {
  const auto idles = [](const Condition& each) { return each.idle_ns.has_value(); };
  if (plan.require_ttft_ns && std::none_of(plan.conditions.begin(), plan.conditions.end(), idles)) {
    return PlanError(file_name, 1,
                     "require_ttft asks what holds after idle times, and no condition has one; "
                     "expected idle = \"10m\" in a condition, or --preset idle");
  }
  if (plan.target.kind == TargetKind::kCommand && !TellsPort(plan)) {
    return PlanError(file_name, 1,
                     "the command " + Quoted(plan.target.command) +
                         " has no {port}: rouse chooses a free port, and the server has to be told "
                         "it; expected for instance \"my-server --port {port}\"");
  }
  for (const Condition& condition : plan.conditions) {
    const std::string why = WhyNotFeasible(plan, condition);
    if (why.empty()) continue;
    return PlanError(file_name, condition.line, "condition " + Quoted(condition.name) + ": " + why);
  }
  return {};
}

}  // namespace rouse::lab
