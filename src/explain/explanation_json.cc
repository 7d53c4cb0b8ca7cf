// Explanations as JSON, `rouse.explanation/1` (docs/results_format.md).
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "explain/explain.h"
#include "explain/layer_words.h"

namespace rouse::explain {
namespace {

using Json = nlohmann::ordered_json;

Json Whole(const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return static_cast<int64_t>(std::llround(*value));
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json StagesJson(const Attribution& attribution) {
  Json stages = Json::object();
  for (const StageExcessRow& row : attribution.stages) {
    stages[std::string(results::StageName(row.stage))] = {
        {"here_ns", Whole(row.here_ns)},
        {"usual_ns", Whole(row.usual_ns)},
        {"excess_ns", Whole(row.Excess())},
        {"source", row.source ? Json(std::string(results::StageSourceName(*row.source))) : Json()}};
  }
  return stages;
}

Json ClaimsJson(const std::vector<Claim>& claims, bool with_time) {
  Json list = Json::array();
  for (const Claim& claim : claims) {
    const CauseRow& row = RowOf(claim.cause);
    Json entry = {{"cause", std::string(row.name)},
                  {"title", std::string(row.title)},
                  {"layer", TextOrNull(std::string(row.layer))}};
    if (with_time) entry["claimed_ns"] = Whole(claim.claimed_ns);
    entry["evidence"] = claim.sentence;
    entry["reads"] = std::string(row.reads);
    entry["threshold"] = std::string(row.threshold);
    list.push_back(std::move(entry));
  }
  return list;
}

void AddAttribution(const Attribution& attribution, Json& json) {
  json["stages"] = StagesJson(attribution);
  json["holder"] =
      attribution.holder ? Json(std::string(results::StageName(*attribution.holder))) : Json();
  json["causes"] = ClaimsJson(attribution.claims, true);
  json["without_cost"] = ClaimsJson(attribution.without_cost, true);
  json["ruled_out"] = ClaimsJson(attribution.ruled_out, false);
  json["unknown"] = ClaimsJson(attribution.unknown, false);
  json["unattributed_ns"] = Whole(attribution.unattributed_ns);
}

Json NextJson(const NextStep& next) { return {{"why", next.why}, {"command", next.command}}; }

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// "loaded model", as the ladder calls it; what is no layer of the server has its own name.
std::string LayerNameOf(const std::string& layer) {
  const LayerWords* const words = FindLayerWords(layer);
  std::string name = words == nullptr || words->name.empty() ? layer : std::string(words->name);
  std::ranges::replace(name, '_', ' ');
  return name;
}

Json ContrastJson(const Contrast& contrast) {
  const stats::Shift& cost = contrast.cost;
  Json json = {{"condition", contrast.condition},
               {"base", contrast.base},
               {"layer", contrast.layer},
               {"layer_name", LayerNameOf(contrast.layer)},
               {"title", contrast.title},
               {"grade", std::string(GradeName(contrast.grade))},
               {"why_not_proved", TextOrNull(contrast.why_not_proved)},
               {"cost_ns", Whole(cost.value)}};
  json["ci_ns"] = cost.ci ? Json::array({Whole(cost.ci->low), Whole(cost.ci->high)}) : Json();
  json["confidence"] = cost.confidence;
  json["paired"] = cost.paired;
  json["n"] = contrast.n_condition;
  json["n_base"] = contrast.n_base;
  json["failures"] = contrast.failures;
  json["other_layers"] = contrast.lost_layers;
  if (contrast.attribution.excess_ns > 0) AddAttribution(contrast.attribution, json);
  return json;
}

}  // namespace

std::string ExplanationJson(const AttemptExplanation& explanation) {
  Json json = {{"schema", "rouse.explanation/1"},
               {"of", "attempt"},
               {"run", explanation.run},
               {"attempt", explanation.attempt},
               {"condition", explanation.condition},
               {"outcome", std::string(results::OutcomeName(explanation.outcome))},
               {"ttft_ns", Whole(explanation.ttft_ns)}};
  const Reference& reference = explanation.reference;
  json["reference"] = {{"condition", TextOrNull(reference.condition)},
                       {"why", TextOrNull(reference.why)},
                       {"n", reference.profile.with_ttft},
                       {"ttft_ns", Whole(reference.profile.ttft_ns)}};
  json["excess_ns"] = Whole(explanation.excess_ns);
  json["within_reference"] = explanation.within_reference;
  json["proved_by"] = TextOrNull(explanation.proved_by);
  if (explanation.attribution) {
    AddAttribution(*explanation.attribution, json);
  } else {
    json["causes"] = Json::array();
  }
  json["layers"] = Json::array();
  for (const LayerRow& row : explanation.layers) {
    json["layers"].push_back({{"layer", row.layer},
                              {"before", TextOrNull(row.before)},
                              {"at_send", TextOrNull(row.at_send)},
                              {"after", TextOrNull(row.after)},
                              {"usual", TextOrNull(row.usual)},
                              {"proof", TextOrNull(row.proof)},
                              {"cold", row.cold},
                              {"changed", row.changed}});
  }
  json["reading"] = TextOrNull(explanation.reading);
  json["clocks"] = TextOrNull(explanation.clocks);
  json["boundary"] = TextOrNull(explanation.boundary);
  json["next"] = NextJson(explanation.next);
  return Dump(json);
}

std::string ExplanationJson(const RunExplanation& explanation) {
  Json json = {{"schema", "rouse.explanation/1"}, {"of", "run"},
               {"run", explanation.run},          {"name", explanation.name},
               {"target", explanation.target},    {"attempts", explanation.attempts},
               {"failed", explanation.failed},    {"state_not_reached", explanation.not_reached},
               {"contrasts", Json::array()}};
  for (const Contrast& contrast : explanation.contrasts) {
    json["contrasts"].push_back(ContrastJson(contrast));
  }
  json["warm"] = {{"condition", TextOrNull(explanation.warm_condition)},
                  {"n", explanation.warm.with_ttft},
                  {"ttft_ns", Whole(explanation.warm.ttft_ns)}};
  json["boundary"] = TextOrNull(explanation.boundary);
  json["next"] = NextJson(explanation.next);
  return Dump(json);
}

std::string ExplanationJson(const ServerExplanation& explanation) {
  Json json = {{"schema", "rouse.explanation/1"},
               {"of", "server"},
               {"url", explanation.url},
               {"headline", explanation.headline},
               {"findings", Json::array()},
               {"cannot_tell", explanation.cannot_tell},
               {"next", NextJson(explanation.next)}};
  for (const ServerFinding& finding : explanation.findings) {
    json["findings"].push_back(
        {{"layer", finding.layer}, {"cold", finding.cold}, {"sentence", finding.sentence}});
  }
  return Dump(json);
}

}  // namespace rouse::explain
