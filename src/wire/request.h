// What to ask a server for: the request side of the wire client. Plain data; nothing here sends.
// The defining documents are docs/method.md (marks, timeouts) and wire/apis.cc (one row per API).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rouse::wire {

// The request formats that the client speaks. Each is one row of the table in wire/apis.cc.
enum class Api {
  kOpenAiChat,
  kOpenAiCompletions,
  kOpenAiResponses,
  kAnthropic,
  kOllamaGenerate,
  kOllamaChat,
  kLlamaCompletion,
};
inline constexpr int kApiCount = 7;

// "openai-chat", ... as the command line, plans and results write it.
std::string_view ApiName(Api api);
std::optional<Api> ApiFromName(std::string_view name);
// All names in table order, for help texts and "did you mean".
std::span<const std::string_view> ApiNames();

struct Header {
  std::string name;
  std::string value;
};

struct Message {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// connect runs from the start of connecting, between_tokens from the last token, the others from
// the intended send time. Empty: no limit of its own (the total still holds).
struct Timeouts {
  std::optional<int64_t> connect_ns;
  std::optional<int64_t> first_byte_ns;
  std::optional<int64_t> first_token_ns;
  std::optional<int64_t> between_tokens_ns;
  int64_t total_ns = int64_t{600} * 1'000'000'000;
};

// Crossing one ends the exchange as `malformed`, with the limit's name in the detail.
struct Limits {
  int64_t header_bytes = int64_t{64} << 10;  // a header block, a chunk header, the trailers
  int64_t event_bytes = int64_t{16} << 20;   // one event or line
  int64_t total_bytes = int64_t{1} << 30;    // everything read in one exchange
};

struct RequestSpec {
  // http://HOST[:PORT][/PATH], https://..., unix:/PATH/TO/SOCKET[:/HTTP/PATH] or
  // http+unix://%2FPATH%2FTO%2FSOCKET/HTTP/PATH. A base (which may end in /v1) gets the API's own
  // path appended; a full endpoint is used as it is and selects the API.
  std::string url;
  // Empty: as the URL's path says, else openai-chat. One that contradicts the path is an error.
  std::optional<Api> api;
  std::string model;  // "" leaves the field out
  // Either messages, or a prompt (which becomes one user message where the API wants messages).
  std::string prompt;
  std::vector<Message> messages;
  int64_t max_tokens = 64;  // at least 1
  // Empty leaves the field out.
  std::optional<double> temperature = 0.0;
  // A JSON object merged over the body that the API's row makes (RFC 7386: null removes a field);
  // "" for none. Example: {"cache_prompt": false, "rouse_timeline": true}
  std::string extra_body_json;
  // Sent as given; one with the name of a header of ours replaces it. Their values are secrets:
  // they are masked wherever the exchange holds text of the server's.
  std::vector<Header> headers;
  bool insecure_tls = false;  // accept any certificate
  Timeouts timeouts;
  Limits limits;
  bool keep_raw = false;  // keep the bytes of every read, for --events and wire/replay.h
};

}  // namespace rouse::wire
