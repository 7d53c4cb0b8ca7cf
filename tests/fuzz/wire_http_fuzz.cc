// Any bytes as an HTTP response: no crash, and the same body whole and byte by byte.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "wire/http_response.h"

namespace {

using rouse::wire::HttpResponseParser;

class Recorder : public rouse::wire::HttpSink {
 public:
  void OnHead(const rouse::wire::HttpHead& head) override {
    text += "H" + std::to_string(head.status);
    for (const auto& field : head.fields) text += field.name + "=" + field.value + ";";
  }
  void OnBody(std::string_view bytes) override { text += bytes; }
  std::string text;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  constexpr int64_t kLimit = 2000;
  Recorder whole;
  HttpResponseParser parser(kLimit);
  parser.Feed(bytes, whole);
  parser.FeedEof(whole);
  Recorder pieces;
  HttpResponseParser again(kLimit);
  for (size_t at = 0; at < size; ++at) again.Feed(bytes.substr(at, 1), pieces);
  again.FeedEof(pieces);
  CHECK(parser.state() == again.state());
  // A message that fails may have handed over more of its body in larger pieces.
  if (parser.state() != HttpResponseParser::State::kFailed) CHECK(whole.text == pieces.text);
  return 0;
}
