// One request for text, on the engine thread: its prompt, which needs the tokenizer only and so can
// be prepared while the weights are being loaded, and its answer, with the model loaded.
#pragma once

#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/api_error.h"
#include "server/job_queue.h"
#include "server/metrics.h"
#include "server/timeline.h"

namespace rouse::server {

struct PreparedPrompt {
  std::vector<engine::Token> tokens;
  MonoTime start;
  MonoTime end;
};

// Renders and tokenizes; waits for a load's tokenizer. What is wrong with the request is 4xx, all
// else 5xx.
std::expected<PreparedPrompt, ApiError> PreparePrompt(const CompletionRequest& request,
                                                      engine::Engine& engine);

struct CompletionContext {
  engine::Engine* engine = nullptr;
  std::string model_id;
  const ProcessFacts* process = nullptr;
  PreparedPrompt prompt;
  std::vector<LoadWindow> loads;  // that ran while the request was here
  // When nothing but computing was left to be done, where the request waited for a load; else when
  // the engine thread turned to it.
  MonoTime taken;
  // Why what the engine computes with is not the model (any more). May be empty.
  std::function<std::optional<Error>()> broken;
  // What else ran meanwhile, for the timeline. May be empty.
  std::function<std::optional<engine::Step>()> reader_lane;
};

struct CompletionResult {
  RequestOutcome outcome = RequestOutcome::kOk;
  std::string problem;  // of a failed one, for the log
  std::optional<engine::GenerateReport> report;
  // When there was a first token.
  std::optional<MonoTime> first_written;
  std::vector<TimelineSegment> segments;
};

// Answers the job's writer, whatever happens, without touching the engine again after a failure of
// `broken`. `account` gets the result once, right before the end
// of the answer is sent, so that a client that has its answer finds it counted.
void RunCompletion(Job& job, const CompletionContext& context,
                   const std::function<void(const CompletionResult&)>& account);

// The same for a request that can't be computed.
void RefuseCompletion(Job& job, const ApiError& error,
                      const std::function<void(const CompletionResult&)>& account);

}  // namespace rouse::server
