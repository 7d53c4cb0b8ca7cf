// Small calls to a server's own control endpoints (state, load, unload): one request on a socket of
// its own, the whole answer, a deadline. Never timed and never between the idle time and a request;
// requests that are measured go through wire/client.h.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace rouse::lab {

struct ControlReply {
  int status = 0;
  std::string body;
};

// How long a call may take: to a deadline, or until the flag becomes true (the user asked to stop).
struct Patience {
  // NOLINTNEXTLINE(google-explicit-constructor): most calls have a deadline and nothing else
  Patience(MonoTime until, const std::atomic<bool>* flag = nullptr)
      : deadline(until), interrupt(flag) {}
  bool Interrupted() const { return interrupt != nullptr && interrupt->load(); }

  MonoTime deadline;
  const std::atomic<bool>* interrupt;
};

// METHOD base_url + path, with a JSON body unless `body` is empty. Plain http:// over TCP only.
// Errors: kTimeout at the deadline, kInterrupted, kState when nothing listens or the connection
// breaks, kCorrupt for an answer that is not HTTP or longer than 4 MiB. Any status is a reply.
using ControlHeaders = std::vector<std::pair<std::string, std::string>>;
Result<ControlReply> CallControl(const std::string& base_url, std::string_view method,
                                 std::string_view path, std::string_view body, Patience patience,
                                 const ControlHeaders& headers = {});

// Whether something accepts connections there now (one connect, closed at once).
bool AcceptsConnections(const std::string& base_url, Patience patience);

}  // namespace rouse::lab
