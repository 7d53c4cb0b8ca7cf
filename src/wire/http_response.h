// An HTTP/1.1 response, taken apart as its bytes arrive: heads (1xx ones skipped), and the body
// without its framing (chunked with extensions and trailers, Content-Length, or until the close).
// Parsing is Boost.Beast's; this file gives it whole heads and hands body bytes on in the call that
// brought them. No I/O, no clock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "wire/request.h"

namespace rouse::wire {

struct HttpHead {
  int status = 0;
  std::vector<Header> fields;  // in order, names as sent

  // The first field of that name (ASCII case ignored), or "".
  std::string_view Field(std::string_view name) const;
};

class HttpSink {
 public:
  virtual ~HttpSink() = default;
  // The final head, once. 1xx heads are not delivered.
  virtual void OnHead(const HttpHead& head) = 0;
  virtual void OnBody(std::string_view bytes) = 0;
};

class HttpResponseParser {
 public:
  enum class State { kHead, kBody, kComplete, kFailed };

  explicit HttpResponseParser(int64_t header_limit_bytes);
  ~HttpResponseParser();
  HttpResponseParser(const HttpResponseParser&) = delete;
  HttpResponseParser& operator=(const HttpResponseParser&) = delete;

  State Feed(std::string_view bytes, HttpSink& sink);
  // The peer closed. kComplete when the body was one that lasts until the close; kHead or kBody
  // when the message was cut.
  State FeedEof(HttpSink& sink);

  State state() const;
  // In kFailed: "header_limit: ...", "not HTTP: ...", "bad chunk".
  const std::string& error() const;
  // Whether the connection may carry another request after kComplete.
  bool keep_alive() const;
  // Bytes came after the end of the message.
  bool has_extra_bytes() const;
  // The body has no framing of its own: only the close ends it.
  bool until_close() const;
  // kComplete was reached by FeedEof: nothing but the close says that the body is whole.
  bool ended_by_close() const;
  int64_t informational_heads() const;
  // Some head line ended in LF alone (RFC 9112 2.2 lets a recipient accept it).
  bool saw_bare_line_feed() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rouse::wire
