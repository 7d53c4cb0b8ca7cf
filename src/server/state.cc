#include "server/state.h"

#include <utility>

#include "server/json_text.h"

namespace rouse::server {
namespace {

Json OptionalInt(const std::optional<int64_t>& value) { return value ? Json(*value) : Json(); }

// The contract's threshold: at most 1 % resident is cold, all but 1 % is warm.
std::string_view PageCacheWord(const Result<os::Residency>& residency) {
  if (!residency.ok()) return "unknown";
  const double ratio = residency->Ratio();
  return ratio <= 0.01 ? "cold" : ratio >= 0.99 ? "warm" : "partial";
}

// Private memory and mapped file pages alike; empty when no part is known.
std::optional<int64_t> MemoryBytes(const engine::EngineFacts& facts) {
  std::optional<int64_t> sum;
  for (const auto* layer : {&facts.tokenizer, &facts.weights, &facts.context}) {
    if (layer->bytes) sum = sum.value_or(0) + *layer->bytes;
  }
  return sum;
}

Json LayerJson(const engine::EngineFacts::Layer& layer) {
  return {{"state", engine::LayerStateName(layer.state)},
          {"since_ns", layer.since.ns},
          {"bytes", OptionalInt(layer.bytes)}};
}

Json LayerDetails(const ServerSnapshot& snapshot, const Result<os::Residency>& residency) {
  const engine::EngineFacts& facts = *snapshot.facts;
  Json details;
  details["process"] = Json::parse(ProcessJson(snapshot.process));
  details["tokenizer"] = LayerJson(facts.tokenizer);
  details["weights"] = LayerJson(facts.weights);
  details["weights"]["mapped_bytes"] = OptionalInt(facts.weights_mapped_bytes);
  details["weights"]["private_bytes"] = OptionalInt(facts.weights_private_bytes);
  details["context"] = LayerJson(facts.context);
  details["context"]["tokens"] = OptionalInt(facts.context_tokens);
  details["context"]["kv_bytes"] = OptionalInt(facts.kv_bytes);
  details["context"]["compute_bytes"] = OptionalInt(facts.compute_bytes);
  details["prefix"] = {{"tokens", facts.prefix_tokens}, {"since_ns", facts.prefix_since.ns}};
  if (residency.ok()) {
    details["page_cache"] = {{"resident_bytes", residency->resident_bytes},
                             {"proof", residency->proof}};
  }
  return details;
}

Json ModelJson(const ServerSnapshot& snapshot, const Result<os::Residency>& residency) {
  const engine::EngineFacts& facts = *snapshot.facts;
  const auto ratio = residency.ok() ? std::optional(residency->Ratio()) : std::nullopt;
  const EtaHistory::Estimate eta = FirstTokenEta(snapshot, ratio);
  Json reasons = Json::object();
  if (!residency.ok()) reasons["resident_ratio"] = residency.error().message();
  if (!eta.ns) reasons["eta_first_token_ns"] = eta.reason;

  Json model = {{"id", snapshot.model->id},
                {"file", snapshot.model->path},
                {"bytes", snapshot.model->bytes},
                {"state", PhaseName(snapshot.worker->phase)}};
  model["layers"] = {{"process", "running"},
                     {"tokenizer", engine::LayerStateName(facts.tokenizer.state)},
                     {"weights", engine::LayerStateName(facts.weights.state)},
                     {"context", engine::LayerStateName(facts.context.state)},
                     {"prefix", facts.prefix_tokens > 0 ? "held" : "empty"},
                     {"page_cache", PageCacheWord(residency)}};
  model["resident_ratio"] = ratio ? Json(*ratio) : Json();
  model["memory_bytes"] = OptionalInt(MemoryBytes(facts));
  model["since_ns"] = snapshot.worker->since.ns;
  model["eta_first_token_ns"] = OptionalInt(eta.ns);
  if (!snapshot.worker->failure.empty()) model["failure"] = snapshot.worker->failure;
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

std::string StateJson(const ServerSnapshot& snapshot, const Result<os::Residency>& residency) {
  Json state = {{"schema", "rouse.server_state/1"},
                {"clock", "monotonic"},
                {"now_ns", snapshot.now.ns},
                {"process", Json::parse(ProcessJson(snapshot.process))}};
  state["models"] = Json::array();
  if (snapshot.model != nullptr && snapshot.facts != nullptr) {
    state["models"].push_back(ModelJson(snapshot, residency));
  }
  state["queue"] = {{"waiting", snapshot.waiting},
                    {"limit", snapshot.queue_limit},
                    {"running", snapshot.worker->running_since ? 1 : 0}};
  return Dump(state);
}

Gauges ReadGauges(const ServerSnapshot& snapshot, const Result<os::Residency>& residency) {
  Gauges gauges;
  gauges.model = snapshot.model == nullptr ? "" : snapshot.model->id;
  gauges.loaded = snapshot.worker->phase == Phase::kReady;
  gauges.loading = snapshot.worker->phase == Phase::kLoading;
  gauges.queue_waiting = snapshot.waiting;
  gauges.queue_limit = snapshot.queue_limit;
  gauges.running = snapshot.worker->running_since ? 1 : 0;
  gauges.connections = snapshot.connections;
  if (residency.ok()) gauges.resident_ratio = residency->Ratio();
  if (snapshot.facts != nullptr) {
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
  now.resident_ratio = resident_ratio;
  now.tokenizer_kept =
      snapshot.facts != nullptr && snapshot.facts->tokenizer.state == engine::LayerState::kReady;
  now.waiting = snapshot.waiting;
  // A running request that waits for a load is counted as that load.
  if (worker.running_since && now.loaded) now.running_for_ns = snapshot.now - *worker.running_since;
  return worker.history.FirstToken(now);
}

}  // namespace rouse::server
