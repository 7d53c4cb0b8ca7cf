// Where to send: the URLs that the client understands, taken apart. Pure; resolves no name.
//
//   http://HOST[:PORT][/PATH][?QUERY]      https://...      http://[::1]:8080/v1
//   unix:/PATH/TO/SOCKET[:/HTTP/PATH]      http+unix://%2FPATH%2FTO%2FSOCKET[/HTTP/PATH]
//
// Credentials in a URL are refused (they end up in logs): --header is for them. Fragments are
// refused too.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace rouse::wire {

struct Url {
  bool tls = false;
  std::string host;       // without brackets; "" for a Unix socket
  int port = 0;           // 0 for a Unix socket
  std::string unix_path;  // "" for TCP
  std::string path;       // "" or begins with '/'
  std::string query;      // without '?'

  // For the Host header: "127.0.0.1:8080", "[::1]:8080", "localhost" for a Unix socket. The default
  // port of the scheme is left out.
  std::string Authority() const;
  // Without the query: "http://127.0.0.1:8080/v1".
  std::string Display() const;
};

// kUsage with a message that quotes the URL's scheme and host only, never its query.
Result<Url> ParseUrl(std::string_view text);

}  // namespace rouse::wire
