// The names of the enums in wire/exchange.h, as they are printed and stored.
#include <array>

#include "wire/exchange.h"

namespace rouse::wire {

std::string_view OutcomeName(Outcome outcome) {
  constexpr std::array<std::string_view, 10> kNames = {
      "ok",        "no_token",     "http_error",    "stream_error", "malformed",
      "truncated", "not_streamed", "connect_error", "timeout",      "interrupted"};
  return kNames.at(static_cast<size_t>(outcome));
}

std::string_view ChannelName(Channel channel) {
  constexpr std::array<std::string_view, 3> kNames = {"content", "reasoning", "tool_call"};
  return kNames.at(static_cast<size_t>(channel));
}

std::string_view EventClassName(EventClass event_class) {
  constexpr std::array<std::string_view, 6> kNames = {"token", "structure", "usage",
                                                      "ping",  "done",      "error"};
  return kNames.at(static_cast<size_t>(event_class));
}

std::string_view StreamEndName(StreamEnd end) {
  constexpr std::array<std::string_view, 7> kNames = {"none",    "complete",    "closed", "reset",
                                                      "timeout", "interrupted", "stopped"};
  return kNames.at(static_cast<size_t>(end));
}

}  // namespace rouse::wire
