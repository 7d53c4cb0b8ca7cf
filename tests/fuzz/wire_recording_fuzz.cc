// Any bytes as an events file: no crash, and what is written from a replay can be read again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "wire/replay.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto recording = rouse::wire::ParseRecording(bytes);
  if (!recording.ok()) return 0;
  const auto exchange = rouse::wire::Replay(*recording);
  CHECK(rouse::wire::ParseRecording(rouse::wire::EventsJsonl(exchange)).ok());
  return 0;
}
