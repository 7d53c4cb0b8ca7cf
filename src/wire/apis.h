// The APIs: how each is asked, and what its events mean. One table row and one pair of functions an
// API, all in apis.cc; adding one touches that file (and the Api enum). Pure: text in, facts out.
//
// What a token is (docs/method.md): output that the model generated, in any channel. A role, an
// empty or null text, a usage count, progress, a ping or a structural event is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/exchange.h"
#include "wire/request.h"

namespace rouse::wire {

enum class Framing { kSse, kNdjson };

Framing FramingOf(Api api);
std::string_view AcceptOf(Api api);
// Headers that the API asks for beyond HTTP's own (`anthropic-version`).
std::vector<Header> ApiHeaders(Api api);

// The API whose endpoint `path` is, or empty for a base path. "/v1/chat/completions" -> chat.
std::optional<Api> ApiOfPath(std::string_view path);
// The endpoint under a base path, which may end in "/v1" (or "/api" for Ollama), or in "/".
std::string EndpointPath(Api api, std::string_view base_path);

// The request's JSON body. kUsage for text that is not UTF-8, a token limit below 1, or an
// extra body that is no JSON object.
Result<std::string> BuildBody(Api api, const RequestSpec& spec);

// What one event (or NDJSON line) said.
struct EventFacts {
  std::string content;    // visible text
  std::string reasoning;  // text of the reasoning channel
  bool has_content = false;
  bool has_reasoning = false;
  bool has_tool_call = false;
  std::optional<int64_t> tokens;         // carried by this event
  std::optional<int64_t> tokens_so_far;  // generated up to and with this event
  bool ping = false;
  // The whole answer in one event of a kind that streams have only at their end, or never.
  bool whole_answer = false;
  bool finish = false;  // the end of the answer was told
  bool end = false;     // the end of the stream was told
  std::string finish_reason;
  std::optional<std::string> error;  // the server's message
  std::optional<int64_t> prompt_tokens;
  std::optional<int64_t> cached_tokens;
  std::optional<int64_t> completion_tokens;
  std::string usage_json;
  std::string timings_json;
  std::string rouse_json;

  bool IsToken() const { return has_content || has_reasoning || has_tool_call; }
  bool HasUsage() const { return !usage_json.empty(); }
};

// Empty when `data` is no JSON value (or nested deeper than 256 levels). `event_type` is the SSE
// event's name, "" for none. `data` must be valid UTF-8.
std::optional<EventFacts> ReadEvent(Api api, std::string_view event_type, std::string_view data);

// A whole body that is one JSON value: an error, an answer that was not streamed (whole_answer), or
// neither. Empty when it is no JSON value.
std::optional<EventFacts> ReadWholeBody(Api api, std::string_view body);

// The message in an error body: JSON of the shapes that servers use, an HTML title, or the text's
// first line. At most 500 bytes; "" for an empty body.
std::string ErrorMessage(std::string_view body);

}  // namespace rouse::wire
