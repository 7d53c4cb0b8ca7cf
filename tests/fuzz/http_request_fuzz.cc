// libFuzzer entry of the HTTP server's request parser: any bytes, whole and in two parts, must give
// the same request, stay within the limits, and never be taken twice.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "http/request_parser.h"

namespace rouse::http {
namespace {

constexpr int64_t kHeaderLimit = 512;
constexpr int64_t kBodyLimit = 64;

struct Outcome {
  RequestParser::State state = RequestParser::State::kNeedsMore;
  size_t used_bytes = 0;
  Request request;
};

Outcome Parse(std::string_view bytes, size_t split) {
  RequestParser parser(kHeaderLimit, kBodyLimit);
  Outcome outcome;
  std::string input;
  for (const std::string_view part : {bytes.substr(0, split), bytes.substr(split)}) {
    input += part;
    if (parser.state() != RequestParser::State::kNeedsMore) break;
    const size_t used = parser.Feed(input);
    CHECK(used <= input.size());
    outcome.used_bytes += used;
    input.erase(0, used);
  }
  outcome.state = parser.state();
  if (outcome.state == RequestParser::State::kFailed) {
    CHECK(parser.failure().status >= 400 && !parser.failure().message.empty());
  }
  if (outcome.state != RequestParser::State::kComplete) return outcome;
  outcome.request = parser.Take();
  CHECK(static_cast<int64_t>(outcome.request.body.size()) <= kBodyLimit);
  CHECK(outcome.request.path.starts_with('/') || outcome.request.path == "*");
  return outcome;
}

}  // namespace
}  // namespace rouse::http

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rouse::http;  // NOLINT
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Outcome whole = Parse(bytes, size);
  for (const size_t split : {size_t{0}, size / 3, size / 2, size - size / 8}) {
    const Outcome parts = Parse(bytes, split);
    if (whole.state != RequestParser::State::kComplete) {
      CHECK(parts.state != RequestParser::State::kComplete);
      continue;
    }
    CHECK(parts.state == RequestParser::State::kComplete);
    CHECK(parts.used_bytes == whole.used_bytes);
    CHECK(parts.request.method == whole.request.method);
    CHECK(parts.request.target == whole.request.target);
    CHECK(parts.request.headers.size() == whole.request.headers.size());
    CHECK(parts.request.body == whole.request.body);
  }
  return 0;
}
