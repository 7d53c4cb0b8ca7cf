// What an answer looks like: the JSON of the OpenAI API's completions, whole and as stream events.
// It knows shapes, not sockets. `timings` has llama-server's fields, "rouse" is ours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/engine.h"
#include "server/completion_request.h"

namespace rouse::server {

// What all events of one answer share.
struct AnswerIdentity {
  CompletionKind kind = CompletionKind::kChat;
  std::string id;  // "chatcmpl-..." or "cmpl-..."
  std::string model;
  int64_t created_s = 0;
};

// A random id of the kind's form.
AnswerIdentity MakeIdentity(CompletionKind kind, std::string model);

// The end of an answer: everything beside its text.
struct AnswerEnd {
  engine::GenerateReport report;
  std::string timeline_json;  // "" = the client did not ask
};

// "stop" or "length"; the cancelled have no reader.
std::string_view FinishReason(engine::StopReason reason);

class AnswerFormat {
 public:
  AnswerFormat(AnswerIdentity identity, bool include_usage);

  // The whole answer of a request that did not ask for a stream.
  std::string Whole(std::string_view text, const AnswerEnd& end) const;

  // Stream events, each "data: ...\n\n". What stands before the first text ("" for plain text).
  std::string Opening() const;
  std::string Text(std::string_view text) const;
  // The finish reason, the usage if it was asked for, and [DONE].
  std::string Closing(const AnswerEnd& end) const;

 private:
  std::string Event(std::string_view choice_json) const;
  std::string Choice(std::string_view payload_json, std::string_view finish_json) const;

  AnswerIdentity identity_;
  bool include_usage_;
  std::string before_;  // an event up to its choice, and behind it: rendered once
  std::string behind_;
};

}  // namespace rouse::server
