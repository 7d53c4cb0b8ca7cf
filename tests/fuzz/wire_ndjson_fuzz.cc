// Any bytes as lines of JSON: no crash, and the same lines whole and byte by byte.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "wire/ndjson.h"

namespace {

class Recorder : public rouse::wire::LineSink {
 public:
  void OnLine(std::string_view line, bool unterminated) override {
    text += std::string(line) + (unterminated ? "!" : "\n");
  }
  std::string text;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  constexpr size_t kLimit = 1000;
  Recorder whole;
  rouse::wire::NdjsonParser parser(kLimit);
  const bool fits = parser.Feed(bytes, whole) && parser.Finish(whole);
  Recorder pieces;
  rouse::wire::NdjsonParser again(kLimit);
  bool fits_again = true;
  for (size_t at = 0; at < size; ++at) fits_again = again.Feed(bytes.substr(at, 1), pieces);
  fits_again = fits_again && again.Finish(pieces);
  CHECK(fits == fits_again);
  CHECK(whole.text == pieces.text);
  return 0;
}
