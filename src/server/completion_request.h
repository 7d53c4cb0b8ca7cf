// A request for text, as the OpenAI API's chat and completions endpoints take it: parsed, checked
// and free of JSON. Fields that we don't know are ignored; fields that we know and can't honour are
// refused, because silently ignoring them would change the answer.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "server/api_error.h"

namespace rouse::server {

enum class CompletionKind { kChat, kText };

struct CompletionRequest {
  CompletionKind kind = CompletionKind::kChat;
  std::string model;                 // "" = whichever there is
  std::string messages_json;         // chat: an array of {role, content: string, ...}
  std::string template_kwargs_json;  // chat: further variables for the template, or ""
  std::string prompt;                // text, unless prompt_tokens is given
  std::vector<engine::Token> prompt_tokens;
  engine::SamplingParams sampling;
  int64_t max_tokens = -1;  // -1 = until the context is full
  std::vector<std::string> stop;
  bool ignore_end = false;
  bool cache_prompt = true;
  bool stream = false;
  bool include_usage = false;  // stream_options.include_usage
  bool rouse_timeline = false;
};

// Takes the body of POST /v1/chat/completions or /v1/completions. Errors are 400 and name the
// field.
std::expected<CompletionRequest, ApiError> ParseCompletionRequest(std::string_view body,
                                                                  CompletionKind kind);

// Takes the body of POST /models/load and /models/unload.
struct ModelRequest {
  std::string model;
  bool wait = false;
};
std::expected<ModelRequest, ApiError> ParseModelRequest(std::string_view body);

}  // namespace rouse::server
