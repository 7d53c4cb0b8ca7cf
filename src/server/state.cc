#include "server/state.h"

#include <utility>

#include "server/json_text.h"

namespace rouse::server {
namespace {

Json OptionalInt(const std::optional<int64_t>& value) { return value ? Json(*value) : Json(); }

Json OptionalText(const std::string& text) { return text.empty() ? Json() : Json(text); }

// The contract's threshold: at most 1 % resident is cold, all but 1 % is warm. A sample proves only
// what holds at both ends of its interval (docs/decisions/0015-residency-for-non-owners.md).
std::string_view PageCacheWord(const Result<ModelResidency>& residency) {
  if (!residency.ok()) return "unknown";
  const auto [low, high] = residency->bounds;
  if (high <= 0.01) return "cold";
  if (low >= 0.99) return "warm";
  return low > 0.01 && high < 0.99 ? "partial" : "unknown";
}

std::optional<double> ExactRatio(const Result<ModelResidency>& residency) {
  return residency.ok() && residency->exact ? std::optional(residency->Ratio()) : std::nullopt;
}

// As `rouse state FILE --json` has it.
Json EstimateJson(const ModelResidency& residency) {
  if (residency.exact) return {};
  return {{"resident_ratio", residency.Ratio()},
          {"low", residency.bounds.low},
          {"high", residency.bounds.high},
          {"confidence", 0.95},
          {"sampled_pages", OptionalInt(residency.sampled_pages)}};
}

// A layer's word. Asleep, everything is there but its memory.
std::string_view LayerWord(const engine::EngineFacts& facts,
                           const engine::EngineFacts::Layer& layer) {
  const bool asleep = facts.tier == engine::Tier::kAsleep;
  if (asleep && layer.state == engine::LayerState::kReady) return "asleep";
  return engine::LayerStateName(layer.state);
}

// Private memory and mapped file pages alike; empty when no part is known. Asleep, the layers'
// sizes are what waking would bring back: what is held is what the process was seen to hold.
std::optional<int64_t> MemoryBytes(const engine::EngineFacts& facts) {
  if (facts.tier == engine::Tier::kAsleep) return facts.asleep_cost.process_bytes;
  std::optional<int64_t> sum;
  for (const auto* layer : {&facts.tokenizer, &facts.weights, &facts.context}) {
    if (layer->bytes) sum = sum.value_or(0) + *layer->bytes;
  }
  return sum;
}

std::string_view PrefixWord(const engine::EngineFacts& facts) {
  if (facts.tier != engine::Tier::kAsleep && facts.prefix_tokens > 0) return "held";
  return facts.kept_prefixes > 0 ? "kept" : "empty";
}

Json LayerJson(const engine::EngineFacts::Layer& layer) {
  return {{"state", engine::LayerStateName(layer.state)},
          {"since_ns", layer.since.ns},
          {"bytes", OptionalInt(layer.bytes)}};
}

Json LayerDetails(const ServerSnapshot& snapshot, const Result<ModelResidency>& residency) {
  const engine::EngineFacts& facts = *snapshot.facts;
  Json details;
  details["process"] = Json::parse(ProcessJson(snapshot.process));
  details["tokenizer"] = LayerJson(facts.tokenizer);
  details["tokenizer"]["shared"] = facts.tokenizer_shared;
  details["weights"] = LayerJson(facts.weights);
  details["weights"]["mapped_bytes"] = OptionalInt(facts.weights_mapped_bytes);
  details["weights"]["private_bytes"] = OptionalInt(facts.weights_private_bytes);
  details["context"] = LayerJson(facts.context);
  details["context"]["tokens"] = OptionalInt(facts.context_tokens);
  details["context"]["kv_bytes"] = OptionalInt(facts.kv_bytes);
  details["context"]["threads"] = facts.threads ? Json(*facts.threads) : Json();
  details["context"]["flash_attention"] =
      facts.flash_attention ? Json(*facts.flash_attention ? "on" : "off") : Json();
  details["context"]["cache_type_k"] = OptionalText(facts.cache_type_k);
  details["context"]["cache_type_v"] = OptionalText(facts.cache_type_v);
  details["context"]["compute_bytes"] = OptionalInt(facts.compute_bytes);
  details["weights"]["repacked"] = facts.repacked;
  details["weights"]["locked_bytes"] = OptionalInt(facts.locked_bytes);
  if (!facts.locked_problem.empty()) details["weights"]["locked_problem"] = facts.locked_problem;
  details["prefix"] = {{"tokens", facts.prefix_tokens},
                       {"bytes", OptionalInt(facts.prefix_bytes)},
                       {"since_ns", facts.prefix_since.ns},
                       {"kept", facts.kept_prefixes},
                       {"kept_bytes", facts.kept_prefix_bytes}};
  if (residency.ok()) {
    details["page_cache"] = {
        {"resident_bytes", residency->exact ? Json(residency->resident_bytes) : Json()},
        {"proof", residency->proof}};
  }
  return details;
}

// What each tier held and what leaving it cost, when that was last seen here.
Json TiersJson(const ServerSnapshot& snapshot) {
  const engine::EngineFacts& facts = *snapshot.facts;
  Json tiers = Json::object();
  for (const auto& [tier, cost] : {std::pair(engine::Tier::kUnloaded, &facts.unloaded_cost),
                                   std::pair(engine::Tier::kAsleep, &facts.asleep_cost),
                                   std::pair(engine::Tier::kReady, &facts.ready_cost)}) {
    Json one = {{"process_bytes", OptionalInt(cost->process_bytes)}};
    if (tier != engine::Tier::kReady) {
      one["wake_ns"] = OptionalInt(cost->wake_ns);
      one["first_token_ns"] = OptionalInt(snapshot.worker->history.StartNs(tier));
    }
    tiers[std::string(engine::TierName(tier))] = std::move(one);
  }
  return tiers;
}

Json ReaderJson(const ServerSnapshot& snapshot) {
  if (!snapshot.reader) return {};
  const loader::PrefetchReport& reader = *snapshot.reader;
  Json json = {{"state", loader::PrefetchEndName(reader.end)},
               {"started_ns", reader.started.ns},
               {"duration_ns", reader.ended - reader.started},
               {"resident_bytes", OptionalInt(reader.resident_bytes)},
               {"read_bytes", reader.read_bytes},
               {"mapped_bytes", reader.mapped_bytes},
               {"omitted_bytes", reader.omitted_bytes},
               {"stepped_back_ns", reader.slept_ns},
               {"setup", loader::SetupText(reader.setup)}};
  if (!reader.problem.empty()) json["problem"] = reader.problem;
  if (snapshot.tail) {
    json["tail"] = {{"passes", snapshot.tail->passes},
                    {"given_up_bytes", snapshot.tail->given_up_bytes},
                    {"ahead_bytes", snapshot.tail->ahead_bytes}};
  }
  json["probed"] = Json::array();
  for (const loader::MeasuredSetup& one : reader.probed) {
    json["probed"].push_back(
        {{"setup", loader::SetupText(one.setup)}, {"bytes_per_s", one.Typical()}});
  }
  return json;
}

Json MemoryJson(const os::ProcStatus& memory) {
  return {{"resident_bytes", OptionalInt(memory.rss_bytes)},
          {"anonymous_bytes", OptionalInt(memory.rss_anon_bytes)},
          {"file_bytes", OptionalInt(memory.rss_file_bytes)},
          {"locked_bytes", OptionalInt(memory.locked_bytes)},
          {"peak_bytes", OptionalInt(memory.peak_rss_bytes)}};
}

Json ModelJson(const ServerSnapshot& snapshot, const Result<ModelResidency>& residency) {
  const engine::EngineFacts& facts = *snapshot.facts;
  const std::optional<double> ratio = ExactRatio(residency);
  const EtaHistory::Estimate eta = FirstTokenEta(snapshot, ratio);
  Json reasons = Json::object();
  if (!ratio) {
    reasons["resident_ratio"] =
        residency.ok() ? std::string(os::kWhyNotExact) : residency.error().message();
  }
  if (!eta.ns) reasons["eta_first_token_ns"] = eta.reason;

  Json model = {{"id", snapshot.model->id},
                {"file", snapshot.model->path},
                {"bytes", snapshot.model->bytes},
                {"state", PhaseName(snapshot.worker->phase)}};
  model["layers"] = {{"process", "running"},
                     {"tokenizer", engine::LayerStateName(facts.tokenizer.state)},
                     {"weights", LayerWord(facts, facts.weights)},
                     {"context", LayerWord(facts, facts.context)},
                     {"prefix", PrefixWord(facts)},
                     {"page_cache", PageCacheWord(residency)}};
  model["resident_ratio"] = ratio ? Json(*ratio) : Json();
  model["estimate"] = residency.ok() ? EstimateJson(*residency) : Json();
  model["memory_bytes"] = OptionalInt(MemoryBytes(facts));
  model["since_ns"] = snapshot.worker->since.ns;
  model["eta_first_token_ns"] = OptionalInt(eta.ns);
  if (!snapshot.worker->failure.empty()) model["failure"] = snapshot.worker->failure;
  model["tiers"] = TiersJson(snapshot);
  if (snapshot.reader) model["reader"] = ReaderJson(snapshot);
  model["layer_details"] = LayerDetails(snapshot, residency);
  model["null_reasons"] = std::move(reasons);
  return model;
}

}  // namespace

http::Response HealthResponse(const ServerSnapshot& snapshot) {
  http::Response response;
  response.status = 503;
  Json body;
  if (snapshot.draining) {
    body["status"] = "shutting down";
  } else {
    switch (snapshot.worker->phase) {
      case Phase::kReady:
        response.status = 200;
        body["status"] = "ok";
        break;
      case Phase::kLoading:
        body["status"] = "loading model";
        break;
      case Phase::kStarting:
        body["status"] = "starting";
        break;
      case Phase::kUnloaded:
        body["status"] = "unloaded";
        body["message"] = "the next request loads the model and is answered";
        break;
      case Phase::kAsleep:
        body["status"] = "asleep";
        body["message"] = "the next request wakes the model and is answered";
        break;
      case Phase::kFailed:
        body["status"] = "load failed";
        body["message"] = snapshot.worker->failure;
        break;
    }
  }
  response.body = Dump(body);
  return response;
}

std::string ModelsJson(const ServerSnapshot& snapshot, int64_t created_s) {
  Json list = Json::array();
  if (snapshot.model != nullptr) {
    Json model = {{"id", snapshot.model->id},
                  {"object", "model"},
                  {"created", created_s},
                  {"owned_by", "rouse"}};
    model["status"] = {{"value", snapshot.worker->phase == Phase::kReady
                                     ? "loaded"
                                     : PhaseName(snapshot.worker->phase)}};
    if (const auto& facts = snapshot.facts; facts != nullptr) {
      model["meta"] = {{"n_vocab", OptionalInt(facts->vocabulary_tokens)},
                       {"n_ctx_train", OptionalInt(facts->trained_context_tokens)},
                       {"n_ctx", OptionalInt(facts->context_tokens)},
                       {"n_embd", OptionalInt(facts->embedding_length)},
                       {"n_params", OptionalInt(facts->parameters)},
                       {"size", snapshot.model->bytes}};
    }
    list.push_back(std::move(model));
  }
  return Dump({{"object", "list"}, {"data", std::move(list)}});
}

std::string StateJson(const ServerSnapshot& snapshot, const Result<ModelResidency>& residency) {
  Json state = {{"schema", "rouse.server_state/1"},
                {"clock", "monotonic"},
                {"now_ns", snapshot.now.ns},
                {"process", Json::parse(ProcessJson(snapshot.process))}};
  if (snapshot.memory) state["process"]["memory"] = MemoryJson(*snapshot.memory);
  state["models"] = Json::array();
  if (snapshot.model != nullptr && snapshot.facts != nullptr) {
    state["models"].push_back(ModelJson(snapshot, residency));
  }
  state["queue"] = {{"waiting", snapshot.waiting},
                    {"limit", snapshot.queue_limit},
                    {"running", snapshot.worker->running_since ? 1 : 0}};
  return Dump(state);
}

Gauges ReadGauges(const ServerSnapshot& snapshot, const Result<ModelResidency>& residency) {
  Gauges gauges;
  gauges.model = snapshot.model == nullptr ? "" : snapshot.model->id;
  gauges.loaded = snapshot.worker->phase == Phase::kReady;
  gauges.loading = snapshot.worker->phase == Phase::kLoading;
  gauges.queue_waiting = snapshot.waiting;
  gauges.queue_limit = snapshot.queue_limit;
  gauges.running = snapshot.worker->running_since ? 1 : 0;
  gauges.connections = snapshot.connections;
  gauges.resident_ratio = ExactRatio(residency);
  gauges.reader_bytes = snapshot.reader_total_bytes;
  gauges.sleeps = snapshot.worker->sleeps;
  gauges.unloads = snapshot.worker->unloads;
  if (snapshot.memory) gauges.process_memory = *snapshot.memory;
  if (snapshot.facts != nullptr) {
    gauges.tier = snapshot.facts->tier;
    for (const auto& [tier, cost] :
         {std::pair(engine::Tier::kUnloaded, &snapshot.facts->unloaded_cost),
          std::pair(engine::Tier::kAsleep, &snapshot.facts->asleep_cost),
          std::pair(engine::Tier::kReady, &snapshot.facts->ready_cost)}) {
      gauges.tiers.push_back({tier, cost->process_bytes, snapshot.worker->history.StartNs(tier)});
    }
    gauges.memory_bytes = MemoryBytes(*snapshot.facts);
    gauges.prefix_tokens = snapshot.facts->prefix_tokens;
  }
  return gauges;
}

EtaHistory::Estimate FirstTokenEta(const ServerSnapshot& snapshot,
                                   std::optional<double> resident_ratio) {
  EtaHistory::Now now;
  const WorkerSnapshot& worker = *snapshot.worker;
  now.loaded = worker.phase == Phase::kReady;
  if (worker.phase == Phase::kLoading) now.loading_for_ns = snapshot.now - worker.since;
  now.from.resident_ratio = resident_ratio;
  if (snapshot.facts != nullptr) {
    now.from.tier = snapshot.facts->tier;
    now.from.tokenizer_kept = snapshot.facts->tokenizer.state == engine::LayerState::kReady;
    // Computing from private memory needs no page of the file.
    if (now.loaded && snapshot.facts->repacked) now.from.resident_ratio = 1;
  }
  if (snapshot.model != nullptr) now.file_bytes = snapshot.model->bytes;
  now.read_bytes_per_s = worker.read_bytes_per_s;
  now.waiting = snapshot.waiting;
  // A running request that waits for a load is counted as that load.
  if (worker.running_since && now.loaded) now.running_for_ns = snapshot.now - *worker.running_since;
  return worker.history.FirstToken(now);
}

}  // namespace rouse::server
