// How responses look on the wire: status line, headers, chunks. No sockets, no state.
// Defined by RFC 9110 and RFC 9112.
#pragma once

#include <string>
#include <string_view>

#include "http/server.h"

namespace rouse::http {

enum class Framing {
  kLength,   // Content-Length
  kChunked,  // Transfer-Encoding: chunked
  kClose,    // until the connection closes: what HTTP/1.0 clients can read of a stream
};

// Status line, headers and the blank line. For kLength the length is that of `response.body`.
std::string FormatHead(const Response& response, Framing framing, bool keep_alive);

// Appends one chunk (nothing for empty `bytes`: an empty chunk would end the body).
void AppendChunk(std::string& out, std::string_view bytes);

inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// Whether two header names are the same one: ASCII, any case.
bool SameName(std::string_view a, std::string_view b);

}  // namespace rouse::http
