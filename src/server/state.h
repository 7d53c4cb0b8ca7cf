// What GET /state, /health, /v1/models and /metrics tell, from copies of what was published. Pure,
// except for the time that is given in.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "loader/prefetcher.h"
#include "loader/tail_stream.h"
#include "os/proc_status.h"
#include "server/metrics.h"
#include "server/residency.h"
#include "server/timeline.h"
#include "server/worker.h"

namespace rouse::server {

// Everything at one moment. `model` and `facts` are null while the server starts.
struct ServerSnapshot {
  MonoTime now;
  std::shared_ptr<const ModelInfo> model;
  std::shared_ptr<const WorkerSnapshot> worker;
  std::shared_ptr<const engine::EngineFacts> facts;
  ProcessFacts process;
  int64_t waiting = 0;
  int64_t queue_limit = 0;
  int64_t connections = 0;
  bool draining = false;
  std::optional<loader::PrefetchReport> reader;  // the latest
  int64_t reader_total_bytes = 0;
  std::optional<loader::TailStream::Report> tail;  // of a file that does not fit into memory
  std::optional<os::ProcStatus> memory;            // of this process
};

// 200 {"status": "ok"} only when a request would be answered without loading anything, else 503 and
// {"status": "loading model" | "asleep" | "unloaded" | "load failed" | "starting" | "shutting
// down"}.
http::Response HealthResponse(const ServerSnapshot& snapshot);

std::string ModelsJson(const ServerSnapshot& snapshot, int64_t created_s);

// rouse.server_state/1. `residency` failed or is an estimate: the share is null, and null_reasons
// says why.
std::string StateJson(const ServerSnapshot& snapshot, const Result<ModelResidency>& residency);

Gauges ReadGauges(const ServerSnapshot& snapshot, const Result<ModelResidency>& residency);

EtaHistory::Estimate FirstTokenEta(const ServerSnapshot& snapshot,
                                   std::optional<double> resident_ratio);

}  // namespace rouse::server
