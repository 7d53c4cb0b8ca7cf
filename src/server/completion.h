// One request for text from tokens to the last byte: runs on the engine thread, with the model
// loaded.
#pragma once

#include <functional>
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

// Answers the job's writer, whatever happens. `account` gets the result once, right before the end
// of the answer is sent, so that a client that has its answer finds it counted.
void RunCompletion(Job& job, const CompletionContext& context,
                   const std::function<void(const CompletionResult&)>& account);

}  // namespace rouse::server
