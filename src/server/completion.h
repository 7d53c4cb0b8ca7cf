// One request for text from tokens to the last byte: runs on the engine thread, with the model
// loaded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/job_queue.h"
#include "server/metrics.h"
#include "server/timeline.h"

namespace rouse::server {

struct CompletionContext {
  engine::Engine* engine = nullptr;
  std::string model_id;
  const ProcessFacts* process = nullptr;
  std::vector<LoadWindow> loads;  // that ran while the request was here
  MonoTime taken;                 // when the engine thread turned to the request, a load included
};

struct CompletionResult {
  RequestOutcome outcome = RequestOutcome::kOk;
  std::string problem;  // of a failed one, for the log
  std::optional<engine::GenerateReport> report;
  // When there was a first token.
  std::optional<MonoTime> first_written;
  std::vector<TimelineSegment> segments;
};

// Answers the job's writer, whatever happens.
CompletionResult RunCompletion(Job& job, const CompletionContext& context);

}  // namespace rouse::server
