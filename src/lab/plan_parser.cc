// TOML -> Plan. Only what a single key can tell is checked here; what keys mean together is checked
// in lab/plan_check.cc.
#include <toml++/toml.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"
#include "lab/plan.h"
#include "lab/plan_internal.h"
#include "lab/targets.h"
#include "wire/request.h"

namespace rouse::lab {
namespace {

using Names = std::vector<std::string_view>;

constexpr size_t kPlanLimitBytes = 1U << 20U;
constexpr size_t kNameLimitBytes = 60;

std::string Quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

std::string Joined(const Names& names) {
  std::string text;
  for (const std::string_view name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

std::string Meant(std::string_view text, const Names& names) {
  const std::string nearest = NearestName(text, names);
  return nearest.empty() ? "" : " (did you mean " + Quoted(nearest) + "?)";
}

std::string_view TypeWord(toml::node_type type) {
  switch (type) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "a boolean";
    default:
      return "a date or time";
  }
}

Names ApiChoices() {
  const auto names = wire::ApiNames();
  return {names.begin(), names.end()};
}

int LineOf(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

// One table of the plan with its name for messages ("[experiment]", "condition \"warm\"").
class Section {
 public:
  Section(const toml::table& table, std::string_view file, std::string title)
      : table_(table), file_(file), title_(std::move(title)) {}

  void set_title(std::string title) { title_ = std::move(title); }
  int line() const { return LineOf(table_); }

  Error Fail(int line, const std::string& what) const { return PlanError(file_, line, what); }

  // The first key (by line) that is not among `names` is an error.
  Status AllowOnly(const Names& names) const {
    const toml::key* unknown = nullptr;
    for (const auto& [key, node] : table_) {
      if (std::find(names.begin(), names.end(), key.str()) != names.end()) continue;
      if (unknown == nullptr || key.source().begin.line < unknown->source().begin.line) {
        unknown = &key;
      }
    }
    if (unknown == nullptr) return {};
    return Fail(static_cast<int>(unknown->source().begin.line),
                "unknown key " + Quoted(unknown->str()) + " in " + title_ +
                    Meant(unknown->str(), names) + "; expected " + Joined(names));
  }

  const toml::node* Find(std::string_view key) const { return table_.get(key); }

  Error WrongType(std::string_view key, const toml::node& node, std::string_view expected) const {
    return Fail(LineOf(node), Quoted(key) + " in " + title_ + " must be " + std::string(expected) +
                                  ", not " + std::string(TypeWord(node.type())));
  }

  Status String(std::string_view key, std::string& into, std::string_view expected) const {
    const toml::node* const node = Find(key);
    if (node == nullptr) return {};
    if (!node->is_string()) return WrongType(key, *node, expected);
    into = node->as_string()->get();
    if (into.find('\0') != std::string::npos) {
      return Fail(LineOf(*node), Quoted(key) + " in " + title_ + " holds a NUL character");
    }
    return {};
  }

  Status Integer(std::string_view key, int64_t low, int64_t high, int64_t& into) const {
    const toml::node* const node = Find(key);
    if (node == nullptr) return {};
    const std::string range =
        "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
    if (!node->is_integer()) return WrongType(key, *node, range);
    into = node->as_integer()->get();
    if (into >= low && into <= high) return {};
    return Fail(LineOf(*node), Quoted(key) + " in " + title_ + " must be " + range + ", not " +
                                   std::to_string(into));
  }

  Status Duration(std::string_view key, std::optional<int64_t>& into) const {
    std::string text;
    RETURN_IF_ERROR(String(key, text, "a duration such as \"10m\""));
    const toml::node* const node = Find(key);
    if (node == nullptr) return {};
    const Result<int64_t> ns = ParseDuration(text);
    if (!ns.ok()) {
      return Fail(LineOf(*node), Quoted(key) + " in " + title_ + ": " + ns.error().message());
    }
    into = *ns;
    return {};
  }

  Status Boolean(std::string_view key, bool& into) const {
    const toml::node* const node = Find(key);
    if (node == nullptr) return {};
    if (!node->is_boolean()) return WrongType(key, *node, "true or false");
    into = node->as_boolean()->get();
    return {};
  }

  Status Strings(std::string_view key, std::vector<std::string>& into) const {
    const toml::node* const node = Find(key);
    if (node == nullptr) return {};
    constexpr std::string_view kExpected = "an array of strings";
    if (!node->is_array()) return WrongType(key, *node, kExpected);
    into.clear();
    for (const toml::node& element : *node->as_array()) {
      if (!element.is_string()) return WrongType(key, element, kExpected);
      into.push_back(element.as_string()->get());
    }
    return {};
  }

  // A string that must be one of `choices`.
  Status Choice(std::string_view key, const Names& choices, std::string& into) const {
    RETURN_IF_ERROR(String(key, into, "one of " + Joined(choices)));
    const toml::node* const node = Find(key);
    if (node == nullptr || std::find(choices.begin(), choices.end(), into) != choices.end()) {
      return {};
    }
    return Fail(LineOf(*node), Quoted(key) + " in " + title_ + " has no value " + Quoted(into) +
                                   Meant(into, choices) + "; expected one of " + Joined(choices));
  }

  Status Require(std::string_view key, std::string_view expected) const {
    if (Find(key) != nullptr) return {};
    return Fail(line(), title_ + " needs " + Quoted(key) + ": " + std::string(expected));
  }

  Status Name(std::string& into) const {
    RETURN_IF_ERROR(Require("name", "a name of its own"));
    RETURN_IF_ERROR(String("name", into, "a string"));
    const int at = LineOf(*Find("name"));
    if (TrimBlanks(into).empty() || TrimBlanks(into) != into) {
      return Fail(at, "\"name\" in " + title_ + " must not be empty nor begin or end with a blank");
    }
    if (into.size() > kNameLimitBytes) {
      return Fail(at, "\"name\" in " + title_ + " must have at most 60 bytes, not " +
                          std::to_string(into.size()));
    }
    for (const char letter : into) {
      const auto code = static_cast<unsigned char>(letter);
      if (code < 0x20 || code == 0x7f) {
        return Fail(at, "\"name\" in " + title_ + " holds a control character");
      }
    }
    return {};
  }

  std::string_view file() const { return file_; }
  const std::string& title() const { return title_; }

 private:
  const toml::table& table_;
  std::string_view file_;
  std::string title_;
};

Status ParseExperiment(const Section& section, Plan& plan) {
  RETURN_IF_ERROR(
      section.AllowOnly({"name", "repeat", "seed", "prompt", "max_tokens", "timeout", "sentinel"}));
  RETURN_IF_ERROR(section.Name(plan.name));
  RETURN_IF_ERROR(section.Integer("repeat", 1, kRepeatLimit, plan.repeat));
  int64_t seed = 0;
  RETURN_IF_ERROR(section.Integer("seed", 0, std::numeric_limits<int64_t>::max(), seed));
  if (section.Find("seed") != nullptr) plan.seed = static_cast<uint64_t>(seed);
  RETURN_IF_ERROR(section.String("prompt", plan.prompt, "a string"));
  if (const toml::node* const prompt = section.Find("prompt"); TrimBlanks(plan.prompt).empty()) {
    return section.Fail(LineOf(*prompt), "\"prompt\" in [experiment] must not be empty");
  }
  RETURN_IF_ERROR(section.Integer("max_tokens", 1, 1'000'000, plan.max_tokens));
  RETURN_IF_ERROR(section.Boolean("sentinel", plan.sentinel));
  std::optional<int64_t> timeout;
  RETURN_IF_ERROR(section.Duration("timeout", timeout));
  if (!timeout) return {};
  if (*timeout == 0) {
    return section.Fail(LineOf(*section.Find("timeout")),
                        "\"timeout\" in [experiment] must be above 0");
  }
  plan.timeout_ns = *timeout;
  return {};
}

Status ParseHeaders(const Section& target, TargetSpec& spec) {
  const toml::node* const node = target.Find("headers_env");
  if (node == nullptr) return {};
  constexpr std::string_view kExpected =
      "a table of header name to the name of an environment variable";
  if (!node->is_table()) return target.WrongType("headers_env", *node, kExpected);
  for (const auto& [header, variable] : *node->as_table()) {
    if (!variable.is_string()) return target.WrongType("headers_env", variable, kExpected);
    spec.headers_env[std::string(header.str())] = variable.as_string()->get();
  }
  return {};
}

Status ParseTarget(const Section& section, TargetSpec& spec) {
  RETURN_IF_ERROR(section.AllowOnly({"kind", "model", "model_file", "context", "command", "url",
                                     "api", "args", "headers_env", "compile_cache_env"}));
  std::string kind = "builtin";
  RETURN_IF_ERROR(section.Choice("kind", TargetKindNames(), kind));
  spec.kind = *TargetKindFromName(kind);
  RETURN_IF_ERROR(section.String("model", spec.model, "a model's name or a GGUF file"));
  RETURN_IF_ERROR(section.String("model_file", spec.model_file, "the path of a local file"));
  RETURN_IF_ERROR(section.Integer("context", 16, 1 << 24, spec.context));
  RETURN_IF_ERROR(section.String("command", spec.command, "a command line"));
  RETURN_IF_ERROR(section.String("url", spec.url, "a URL such as \"http://127.0.0.1:8080\""));
  RETURN_IF_ERROR(section.Choice("api", ApiChoices(), spec.api));
  RETURN_IF_ERROR(section.Strings("args", spec.args));
  RETURN_IF_ERROR(section.String("compile_cache_env", spec.compile_cache_env,
                                 "the name of an environment variable"));
  RETURN_IF_ERROR(ParseHeaders(section, spec));
  // Keys that have no meaning for this kind are a mistake, not something to ignore.
  const bool by_url = !RowOf(spec.kind).owns_process;
  const Names foreign =
      kind == "builtin" ? Names{"command", "url", "model_file", "headers_env", "compile_cache_env"}
      : by_url          ? Names{"command", "args", "context", "compile_cache_env"}
                        : Names{"url", "context"};
  for (const std::string_view key : foreign) {
    if (const toml::node* const node = section.Find(key)) {
      return section.Fail(LineOf(*node),
                          Quoted(key) + " in [target] has no meaning for kind " + Quoted(kind));
    }
  }
  if (kind == "command") {
    RETURN_IF_ERROR(section.Require("command", "\"my-server --port {port} --model {model}\""));
  }
  if (by_url) RETURN_IF_ERROR(section.Require("url", "\"http://127.0.0.1:8080\""));
  return {};
}

// A state's value as text: words, and numbers where a layer takes them.
Result<std::string> ValueText(const Section& state, std::string_view key, const toml::node& node) {
  if (node.is_string()) return node.as_string()->get();
  if (node.is_integer()) return std::to_string(node.as_integer()->get());
  if (node.is_floating_point()) {
    std::array<char, 64> text{};
    const auto [end, status] =
        std::to_chars(text.data(), text.data() + text.size(), node.as_floating_point()->get());
    return std::string(text.data(), status == std::errc() ? end : text.data());
  }
  return state.WrongType(key, node, "a string or a number");
}

Status ParseState(const Section& condition, const std::string& name, RawCondition& raw) {
  const toml::node* const node = condition.Find("state");
  if (node == nullptr) return {};
  if (!node->is_table()) {
    return condition.WrongType("state", *node, "a table such as { page_cache = \"cold\" }");
  }
  Names names;
  for (const LayerRow& row : Layers()) names.push_back(row.name);
  const Section state(*node->as_table(), condition.file(), "state of condition " + Quoted(name));
  RETURN_IF_ERROR(state.AllowOnly(names));
  for (const auto& [key, value] : *node->as_table()) {
    ASSIGN_OR_RETURN(const std::string text, ValueText(state, key.str(), value));
    const Layer layer = *LayerFromName(key.str());
    const Result<std::string> normal = NormalizeLayerValue(layer, text);
    if (!normal.ok()) {
      return state.Fail(LineOf(value), normal.error().message() + " in condition " + Quoted(name));
    }
    raw.state[layer] = *normal;
  }
  return {};
}

Result<RawCondition> ParseCondition(Section section) {
  RawCondition raw;
  RETURN_IF_ERROR(section.Name(raw.name));
  section.set_title("condition " + Quoted(raw.name));
  for (const std::string_view later : {"prompt_tokens", "concurrency"}) {
    if (const toml::node* const node = section.Find(later)) {
      return section.Fail(LineOf(*node), Quoted(later) + " in " + section.title() +
                                             " is not available in this version of rouse");
    }
  }
  RETURN_IF_ERROR(
      section.AllowOnly({"name", "base", "state", "idle", "repeat", "compound", "target_args"}));
  raw.line = section.line();
  RETURN_IF_ERROR(section.String("base", raw.base, "the name of another condition"));
  if (const toml::node* const node = section.Find("base")) raw.base_line = LineOf(*node);
  RETURN_IF_ERROR(section.Duration("idle", raw.idle_ns));
  if (section.Find("repeat") != nullptr) {
    int64_t repeat = 0;
    RETURN_IF_ERROR(section.Integer("repeat", 1, kRepeatLimit, repeat));
    raw.repeat = repeat;
  }
  if (section.Find("target_args") != nullptr) {
    raw.target_args.emplace();
    RETURN_IF_ERROR(section.Strings("target_args", *raw.target_args));
  }
  RETURN_IF_ERROR(section.Boolean("compound", raw.compound));
  RETURN_IF_ERROR(ParseState(section, raw.name, raw));
  return raw;
}

Status ParseHypothesis(Section section, RawHypothesis& raw) {
  results::HypothesisRow& row = raw.row;
  RETURN_IF_ERROR(section.AllowOnly({"name", "metric", "statistic", "treatment", "control",
                                     "expect", "margin", "confidence", "guard"}));
  RETURN_IF_ERROR(section.Name(row.name));
  section.set_title("hypothesis " + Quoted(row.name));
  raw.line = section.line();
  row.metric = "ttft";
  row.statistic = "median";
  RETURN_IF_ERROR(section.Choice("metric", HypothesisMetrics(), row.metric));
  RETURN_IF_ERROR(section.Choice("statistic", {"median", "p90", "p95", "mean"}, row.statistic));
  for (const std::string_view key : {"treatment", "control"}) {
    RETURN_IF_ERROR(section.Require(key, "the name of a condition"));
  }
  RETURN_IF_ERROR(section.String("treatment", row.treatment, "the name of a condition"));
  RETURN_IF_ERROR(section.String("control", row.control, "the name of a condition"));
  raw.treatment_line = LineOf(*section.Find("treatment"));
  raw.control_line = LineOf(*section.Find("control"));
  RETURN_IF_ERROR(section.Require("expect", "decrease, increase or equal"));
  RETURN_IF_ERROR(section.Choice("expect", {"decrease", "increase", "equal"}, row.expect));
  RETURN_IF_ERROR(
      section.Require("margin", "the smallest change worth having, \"100ms\" or \"10%\""));
  RETURN_IF_ERROR(section.String("margin", row.margin, "\"100ms\" or \"10%\""));
  RETURN_IF_ERROR(
      CheckMargin(row.margin, section.file(), LineOf(*section.Find("margin")), section.title()));
  if (const toml::node* const node = section.Find("confidence")) {
    const auto value = node->value<double>();
    if (!value) return section.WrongType("confidence", *node, "a number such as 0.95");
    if (!(*value >= 0.5 && *value < 1)) {
      return section.Fail(LineOf(*node), "\"confidence\" in " + section.title() +
                                             " must be at least 0.5 and below 1");
    }
    row.confidence = *value;
  }
  RETURN_IF_ERROR(section.Strings("guard", row.guards));
  for (const std::string& guard : row.guards) {
    RETURN_IF_ERROR(
        CheckGuard(guard, section.file(), LineOf(*section.Find("guard")), section.title()));
  }
  return {};
}

// The elements of [[key]]; a single [key] is an error that says so.
Result<std::vector<const toml::table*>> TablesOf(const Section& root, std::string_view key) {
  std::vector<const toml::table*> tables;
  const toml::node* const node = root.Find(key);
  if (node == nullptr) return tables;
  const std::string expected = "written [[" + std::string(key) + "]]";
  if (!node->is_array()) return root.WrongType(key, *node, expected);
  for (const toml::node& element : *node->as_array()) {
    if (!element.is_table()) return root.WrongType(key, element, expected);
    tables.push_back(element.as_table());
  }
  return tables;
}

Result<const toml::table*> TableOf(const Section& root, std::string_view key) {
  const toml::node* const node = root.Find(key);
  if (node == nullptr) {
    return root.Fail(1, "the plan needs a section [" + std::string(key) + "]");
  }
  if (!node->is_table()) return root.WrongType(key, *node, "a section [" + std::string(key) + "]");
  return node->as_table();
}

Result<Plan> Interpret(const toml::table& table, std::string_view file) {
  Plan plan;
  const Section root(table, file, "the plan");
  RETURN_IF_ERROR(root.AllowOnly({"experiment", "target", "condition", "hypothesis"}));
  ASSIGN_OR_RETURN(const toml::table* const experiment, TableOf(root, "experiment"));
  RETURN_IF_ERROR(ParseExperiment(Section(*experiment, file, "[experiment]"), plan));
  if (root.Find("target") != nullptr) {
    ASSIGN_OR_RETURN(const toml::table* const target, TableOf(root, "target"));
    RETURN_IF_ERROR(ParseTarget(Section(*target, file, "[target]"), plan.target));
  }
  ASSIGN_OR_RETURN(const auto conditions, TablesOf(root, "condition"));
  if (conditions.empty()) return root.Fail(1, "the plan needs at least one [[condition]]");
  for (const toml::table* const each : conditions) {
    ASSIGN_OR_RETURN(const RawCondition raw, ParseCondition(Section(*each, file, "[[condition]]")));
    RETURN_IF_ERROR(AddCondition(raw, file, plan));
  }
  ASSIGN_OR_RETURN(const auto hypotheses, TablesOf(root, "hypothesis"));
  for (const toml::table* const each : hypotheses) {
    RawHypothesis raw;
    RETURN_IF_ERROR(ParseHypothesis(Section(*each, file, "[[hypothesis]]"), raw));
    RETURN_IF_ERROR(AddHypothesis(raw, file, plan));
  }
  return plan;
}

}  // namespace

Result<Plan> ParsePlan(std::string_view text, std::string_view file_name) {
  if (text.size() > kPlanLimitBytes) {
    return PlanError(
        file_name, 1,
        "a plan has at most 1 MiB, not " + FormatBytes(static_cast<int64_t>(text.size())));
  }
  try {
    const toml::table table = toml::parse(text, file_name);
    ASSIGN_OR_RETURN(Plan plan, Interpret(table, file_name));
    plan.toml = text;
    RETURN_IF_ERROR(CheckFeasible(plan, file_name));
    return plan;
  } catch (const toml::parse_error& error) {
    return PlanError(file_name, static_cast<int>(error.source().begin.line),
                     "not valid TOML: " + std::string(error.description()));
  }
}

Result<Plan> LoadPlan(const std::string& path) {
  const Result<std::string> text = ReadSmallFile(path, kPlanLimitBytes + 1);
  if (!text.ok()) return text.error().WithContext("plan");
  return ParsePlan(*text, path);
}

}  // namespace rouse::lab
