// TOML -> Plan, by the table of keys. Only what a single key can tell is checked here; what keys
// mean together is checked in lab/plan_check.cc.
#include <toml++/toml.h>

#include "base/fd.h"
#include "base/units.h"
#include "lab/plan.h"
#include "lab/plan_internal.h"
#include "lab/plan_keys.h"
#include "lab/plan_section.h"
#include "lab/targets.h"

namespace rouse::lab {
namespace {

constexpr size_t kPlanLimitBytes = 1U << 20U;

std::string Quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

template <typename Into>
Names NamesOf(std::span<const Key<Into>> keys) {
  Names names;
  for (const Key<Into>& key : keys) names.push_back(key.row.name);
  return names;
}

template <typename Into>
Status ReadKey(const Section& section, const Key<Into>& key, Into& into) {
  RETURN_IF_ERROR(section.Require(key.row));
  ASSIGN_OR_RETURN(const std::optional<KeyValue> value, section.Read(key.row));
  return value ? key.set(*value, section.PlaceOf(key.row), into) : Status();
}

// Reads every key of the table; with a `kind` of condition or hypothesis the section is called by
// its name from then on.
template <typename Into>
Status ReadKeys(Section& section, std::span<const Key<Into>> keys, std::string_view kind,
                Into& into) {
  for (const Key<Into>& key : keys) {
    const bool names = key.row.type == KeyType::kName;
    if (!names) continue;
    RETURN_IF_ERROR(ReadKey(section, key, into));
    if (kind.empty()) continue;
    const std::string name = section.Find(key.row.name)->value_or(std::string());
    section.set_title(std::string(kind) + " " + Quoted(name));
  }
  RETURN_IF_ERROR(section.AllowOnly(NamesOf(keys)));
  for (const Key<Into>& key : keys) RETURN_IF_ERROR(ReadKey(section, key, into));
  return {};
}

Status ParseTarget(Section& section, TargetSpec& spec) {
  RETURN_IF_ERROR(section.AllowOnly(NamesOf(TargetKeys())));
  for (const Key<TargetSpec>& key : TargetKeys()) {
    if (InScope(key.row.scope, spec.kind)) {
      RETURN_IF_ERROR(ReadKey(section, key, spec));
    } else if (section.Find(key.row.name) != nullptr) {
      // A key without a meaning for this kind is a mistake, not something to ignore.
      return section.PlaceOf(key.row).Fail(" has no meaning for kind " +
                                           Quoted(TargetKindName(spec.kind)));
    }
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
  RETURN_IF_ERROR(root.AllowOnly(SectionNames()));
  ASSIGN_OR_RETURN(const toml::table* const experiment, TableOf(root, "experiment"));
  Section head(*experiment, file, "[experiment]");
  RETURN_IF_ERROR(ReadKeys(head, ExperimentKeys(), "", plan));
  if (root.Find("target") != nullptr) {
    ASSIGN_OR_RETURN(const toml::table* const target, TableOf(root, "target"));
    Section section(*target, file, "[target]");
    RETURN_IF_ERROR(ParseTarget(section, plan.target));
  }
  ASSIGN_OR_RETURN(const auto conditions, TablesOf(root, "condition"));
  if (conditions.empty()) return root.Fail(1, "the plan needs at least one [[condition]]");
  for (const toml::table* const each : conditions) {
    Section section(*each, file, "[[condition]]");
    RawCondition raw;
    RETURN_IF_ERROR(ReadKeys(section, ConditionKeys(), "condition", raw));
    raw.line = section.line();
    raw.base_line = section.LineOf("base");
    RETURN_IF_ERROR(AddCondition(raw, file, plan));
  }
  ASSIGN_OR_RETURN(const auto hypotheses, TablesOf(root, "hypothesis"));
  for (const toml::table* const each : hypotheses) {
    Section section(*each, file, "[[hypothesis]]");
    RawHypothesis raw;
    raw.row.metric = "ttft";
    raw.row.statistic = "median";
    RETURN_IF_ERROR(ReadKeys(section, HypothesisKeys(), "hypothesis", raw));
    raw.line = section.line();
    raw.treatment_line = section.LineOf("treatment");
    raw.control_line = section.LineOf("control");
    raw.margin_line = section.LineOf("margin");
    RETURN_IF_ERROR(AddHypothesis(raw, file, plan));
  }
  return plan;
}

}  // namespace

Result<Plan> ParsePlanForAnyTarget(std::string_view text, std::string_view file_name) {
  if (text.size() > kPlanLimitBytes) {
    return PlanError(
        file_name, 1,
        "a plan has at most 1 MiB, not " + FormatBytes(static_cast<int64_t>(text.size())));
  }
  try {
    const toml::table table = toml::parse(text, file_name);
    ASSIGN_OR_RETURN(Plan plan, Interpret(table, file_name));
    plan.toml = text;
    return plan;
  } catch (const toml::parse_error& error) {
    return PlanError(file_name, static_cast<int>(error.source().begin.line),
                     "not valid TOML: " + std::string(error.description()));
  }
}

Result<Plan> ParsePlan(std::string_view text, std::string_view file_name) {
  ASSIGN_OR_RETURN(Plan plan, ParsePlanForAnyTarget(text, file_name));
  RETURN_IF_ERROR(CheckFeasible(plan, file_name));
  return plan;
}

Result<Plan> LoadPlan(const std::string& path, const PlanOverrides& overrides) {
  const Result<std::string> text = ReadSmallFile(path, kPlanLimitBytes + 1);
  if (!text.ok()) return text.error().WithContext("plan");
  if (!overrides.Any()) return ParsePlan(*text, path);
  ASSIGN_OR_RETURN(Plan plan, ParsePlanForAnyTarget(*text, path));
  RETURN_IF_ERROR(ApplyOverrides(overrides, plan));
  return plan;
}

}  // namespace rouse::lab
