// Bytes to a Request: head limits, body limits, chunked bodies. It is Beast's parser behind a
// narrow header, because every file that includes Beast costs half a minute to compile. No sockets.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "http/server.h"

namespace rouse::http {

struct ParseFailure {
  int status = 400;
  std::string message;  // one sentence for the client
};

// For one request; make a new one for the next.
class RequestParser {
 public:
  enum class State { kNeedsMore, kComplete, kFailed };

  RequestParser(int64_t header_limit_bytes, int64_t body_limit_bytes);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // Takes what it can from the front of `bytes` and says how much that was. The rest is to be given
  // again, with more behind it (kNeedsMore), or belongs to the next request (kComplete).
  size_t Feed(std::string_view bytes);

  State state() const;
  const ParseFailure& failure() const;

  // The head is there, the body is not, and the client waits for "100 Continue" to send it.
  bool WantsContinue() const;
  // Valid when complete.
  bool KeepAlive() const;
  bool IsHttp10() const;

  // Moves the request out (without remote and times). Once, when complete.
  Request Take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rouse::http
