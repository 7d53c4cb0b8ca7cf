#include "lab/plan_schema.h"

#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "lab/layers.h"
#include "lab/plan_keys.h"
#include "lab/targets.h"

namespace rouse::lab {
namespace {

using Json = nlohmann::ordered_json;

// ParseDuration's: a number and a unit.
constexpr const char* kDuration = "^\\s*[0-9]+(\\.[0-9]+)?\\s*(ns|us|ms|s|m|min|h|d)\\s*$";

Json StateSchema() {
  Json layers = Json::object();
  for (const LayerRow& row : Layers()) {
    Json words = Json::array();
    for (const std::string_view word : SplitAt(row.words, ' ')) words.push_back(word);
    Json layer = {{"default", row.default_value}};
    if (row.extra.empty()) {
      layer["enum"] = words;
    } else {
      layer["description"] = row.extra;
      layer["anyOf"] = {{{"enum", words}},
                        {{"type", "number"}, {"minimum", 0}},
                        {{"type", "string"}, {"pattern", "^[0-9.]+ *[A-Za-z]*$"}}};
    }
    layers[std::string(row.name)] = layer;
  }
  return {{"type", "object"}, {"properties", layers}, {"additionalProperties", false}};
}

Json TypeSchema(const KeyRow& row) {
  switch (row.type) {
    case KeyType::kName:
      return {
          {"type", "string"}, {"minLength", 1}, {"maxLength", 60}, {"pattern", "^\\S(.*\\S)?$"}};
    case KeyType::kText:
      return {{"type", "string"}};
    case KeyType::kInteger:
      return {{"type", "integer"}, {"minimum", row.low}, {"maximum", row.high}};
    case KeyType::kShare:
      return {{"type", "number"}, {"exclusiveMinimum", 0.5}, {"exclusiveMaximum", 1}};
    case KeyType::kBoolean:
      return {{"type", "boolean"}};
    case KeyType::kDuration:
      return {{"type", "string"}, {"pattern", kDuration}};
    case KeyType::kTexts:
      return {{"type", "array"}, {"items", {{"type", "string"}}}};
    case KeyType::kChoice:
      return {{"enum", row.choices()}};
    case KeyType::kTable:
      return {{"type", "object"}, {"additionalProperties", {{"type", "string"}}}};
    case KeyType::kState:
      return StateSchema();
  }
  return Json::object();
}

template <typename Into>
Json SectionSchema(std::span<const Key<Into>> keys) {
  Json properties = Json::object();
  Json required = Json::array();
  for (const Key<Into>& key : keys) {
    Json schema = TypeSchema(key.row);
    schema["description"] = key.row.meaning;
    properties[std::string(key.row.name)] = schema;
    if (!key.row.needed.empty() && key.row.scope == KeyScope::kEvery) {
      required.push_back(key.row.name);
    }
  }
  Json section = {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  if (!required.empty()) section["required"] = required;
  return section;
}

// Which keys a kind of target takes and needs.
Json KindRule(const TargetRow& kind) {
  Json then = {{"properties", Json::object()}};
  Json required = Json::array();
  for (const Key<TargetSpec>& key : TargetKeys()) {
    if (!InScope(key.row.scope, kind.kind)) {
      then["properties"][std::string(key.row.name)] = false;
    } else if (!key.row.needed.empty()) {
      required.push_back(key.row.name);
    }
  }
  if (!required.empty()) then["required"] = required;
  Json when = {{"properties", {{"kind", {{"const", kind.name}}}}}};
  // Without a kind it is the built-in server.
  if (kind.kind != TargetKind::kBuiltin) when["required"] = {"kind"};
  return {{"if", when}, {"then", then}};
}

}  // namespace

std::string PlanSchemaJson() {
  Json target = SectionSchema(TargetKeys());
  target["allOf"] = Json::array();
  for (const TargetRow& kind : Targets()) target["allOf"].push_back(KindRule(kind));
  const Json conditions = {
      {"type", "array"}, {"minItems", 1}, {"items", SectionSchema(ConditionKeys())}};
  const Json hypotheses = {{"type", "array"}, {"items", SectionSchema(HypothesisKeys())}};
  const Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                       {"title", "rouse plan"},
                       {"description", "What `rouse measure` runs; docs/plan.md"},
                       {"type", "object"},
                       {"properties",
                        {{"experiment", SectionSchema(ExperimentKeys())},
                         {"target", target},
                         {"condition", conditions},
                         {"hypothesis", hypotheses}}},
                       {"required", {"experiment", "condition"}},
                       {"additionalProperties", false}};
  return schema.dump(2) + "\n";
}

}  // namespace rouse::lab
