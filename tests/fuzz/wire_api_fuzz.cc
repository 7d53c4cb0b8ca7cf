// Any bytes as the body of one API's stream, behind a good head: no crash, and the same conclusions
// whole and in pieces. Built once for each API, which ROUSE_FUZZ_API names.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "wire/redact.h"
#include "wire/replay.h"

namespace {

using rouse::wire::Exchange;
using rouse::wire::Recording;

Exchange Replay(std::string_view body, size_t piece, rouse::wire::Api api) {
  Recording recording;
  recording.api = api;
  recording.reads.push_back({1000, "HTTP/1.1 200 OK\r\n\r\n"});
  for (size_t at = 0; at < body.size(); at += piece) {
    recording.reads.push_back({1000, std::string(body.substr(at, piece))});
  }
  recording.end = rouse::wire::StreamEnd::kClosed;
  recording.end_ns = 1000;
  rouse::wire::Limits limits;
  limits.event_bytes = 20'000;
  limits.total_bytes = 200'000;
  return rouse::wire::Replay(recording, limits);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto api = rouse::wire::ApiFromName(ROUSE_FUZZ_API);
  CHECK(api.has_value());
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  Exchange whole = Replay(body, size + 1, *api);
  const Exchange pieces = Replay(body, 3, *api);
  CHECK(whole.outcome == pieces.outcome);
  CHECK(whole.outcome_detail == pieces.outcome_detail);
  CHECK(whole.stream.token_events == pieces.stream.token_events);
  CHECK(whole.stream.events == pieces.stream.events);
  CHECK(whole.stream.pings == pieces.stream.pings);
  CHECK(whole.content_text == pieces.content_text);
  CHECK(whole.first_token_channel == pieces.first_token_channel);
  CHECK(whole.usage.prompt_tokens == pieces.usage.prompt_tokens);
  // A first token and an outcome without one exclude each other.
  CHECK(whole.marks.first_token.has_value() == (whole.stream.token_events > 0));
  if (whole.outcome == rouse::wire::Outcome::kOk) CHECK(whole.marks.first_token.has_value());
  rouse::wire::Redactor(std::vector<rouse::wire::Header>{{"Authorization", "Bearer data"}})
      .Apply(whole);
  return 0;
}
