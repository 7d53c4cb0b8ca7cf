// libFuzzer entry of the OpenAI API's request bodies: any bytes become a request that keeps its
// promises, or an error that says something.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/strings.h"
#include "server/completion_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rouse::server;  // NOLINT
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const CompletionKind kind : {CompletionKind::kChat, CompletionKind::kText}) {
    const auto request = ParseCompletionRequest(bytes, kind);
    if (!request) {
      CHECK(request.error().status == 400 && !request.error().message.empty());
      CHECK(ErrorJson(request.error()).starts_with("{\"error\":{\"message\":"));
      continue;
    }
    const bool chat = kind == CompletionKind::kChat;
    CHECK(chat == !request->messages_json.empty());
    CHECK(chat || request->prompt.empty() != request->prompt_tokens.empty());
    CHECK(rouse::IsValidUtf8(request->messages_json) && rouse::IsValidUtf8(request->prompt));
    CHECK(request->max_tokens >= -1);
    CHECK(request->sampling.temperature >= 0 && request->sampling.top_k >= 0);
    for (const std::string& stop : request->stop) CHECK(!stop.empty());
    CHECK(!request->include_usage || request->stream);
  }
  (void)ParseModelRequest(bytes);
  return 0;
}
