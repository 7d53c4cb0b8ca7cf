// Any bytes as an event stream: no crash, and the same events whole and byte by byte.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "wire/sse.h"

namespace {

class Recorder : public rouse::wire::SseSink {
 public:
  void OnEvent(const rouse::wire::SseEvent& event) override {
    text += "E" + std::string(event.type) + "|" + std::string(event.id) + "|" +
            std::string(event.data) + (event.unterminated ? "!" : ".");
  }
  void OnComment(std::string_view comment) override { text += "C" + std::string(comment); }
  void OnRetry(int64_t retry_ms) override { text += "R" + std::to_string(retry_ms); }
  void OnOtherLine(std::string_view line) override { text += "O" + std::string(line); }
  std::string text;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  constexpr size_t kLimit = 1000;
  Recorder whole;
  rouse::wire::SseParser parser(kLimit);
  const bool fits = parser.Feed(bytes, whole) && parser.Finish(whole);
  Recorder pieces;
  rouse::wire::SseParser again(kLimit);
  bool fits_again = true;
  for (size_t at = 0; at < size; ++at) fits_again = again.Feed(bytes.substr(at, 1), pieces);
  fits_again = fits_again && again.Finish(pieces);
  CHECK(fits == fits_again);
  CHECK(whole.text == pieces.text);
  return 0;
}
