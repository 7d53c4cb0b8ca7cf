#include "wire/url.h"

#include <sys/un.h>

#include <algorithm>
#include <optional>

#include "base/strings.h"

namespace rouse::wire {
namespace {

constexpr int kHttpPort = 80;
constexpr int kHttpsPort = 443;

Error Usage(std::string message) { return {ErrorCode::kUsage, std::move(message)}; }

std::optional<int> HexDigit(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
  return std::nullopt;
}

std::optional<std::string> PercentDecode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const std::optional<int> high = HexDigit(text[i + 1]);
    const std::optional<int> low = HexDigit(text[i + 2]);
    if (!high || !low || (*high == 0 && *low == 0)) return std::nullopt;
    decoded += static_cast<char>(*high * 16 + *low);
    i += 2;
  }
  return decoded;
}

// Whether `text` may stand in a request line: no blanks, no control characters.
bool IsRequestTarget(std::string_view text) {
  return std::ranges::all_of(text, [](char letter) {
    const auto byte = static_cast<unsigned char>(letter);
    return byte > 0x20 && byte != 0x7F;
  });
}

Status SetTarget(std::string_view rest, Url& url) {
  const size_t question = rest.find('?');
  url.path = rest.substr(0, question);
  if (question != std::string_view::npos) url.query = rest.substr(question + 1);
  if (!url.path.empty() && url.path[0] != '/') {
    return Usage("the URL's path \"" + url.path + "\" does not begin with \"/\"");
  }
  if (!IsRequestTarget(rest)) {
    return Usage("the URL's path has a blank or a control character (write %20 for a blank)");
  }
  return {};
}

Status SetSocketPath(std::string path, Url& url) {
  if (path.empty() || path[0] != '/') {
    return Usage("a Unix socket needs an absolute path: unix:/run/server.sock");
  }
  if (path.size() >= sizeof(sockaddr_un{}.sun_path)) {
    return Usage("the socket path \"" + path + "\" is longer than the kernel's limit of 107 bytes");
  }
  url.unix_path = std::move(path);
  return {};
}

Result<Url> ParseUnix(std::string_view rest) {
  Url url;
  const size_t colon = rest.find(":/");
  RETURN_IF_ERROR(SetSocketPath(std::string(rest.substr(0, colon)), url));
  if (colon != std::string_view::npos) RETURN_IF_ERROR(SetTarget(rest.substr(colon + 1), url));
  return url;
}

Result<Url> ParseHttpUnix(std::string_view rest) {
  Url url;
  const size_t slash = rest.find_first_of("/?");
  std::optional<std::string> path = PercentDecode(rest.substr(0, slash));
  if (!path) return Usage("http+unix needs a percent-encoded socket path: http+unix://%2Frun%2Fs");
  RETURN_IF_ERROR(SetSocketPath(*std::move(path), url));
  if (slash != std::string_view::npos) RETURN_IF_ERROR(SetTarget(rest.substr(slash), url));
  return url;
}

Status SetPort(std::string_view text, Url& url) {
  if (text.empty()) return {};  // "http://host:/" means the default port (RFC 3986, 3.2.3)
  const std::optional<int64_t> port = ParseInt64(text);
  if (!port || *port < 1 || *port > 65535 || text[0] == '+') {
    return Usage("\"" + std::string(text) + "\" is no port (1 to 65535)");
  }
  url.port = static_cast<int>(*port);
  return {};
}

Status SetAuthority(std::string_view authority, Url& url) {
  if (authority.find('@') != std::string_view::npos) {
    return Usage("credentials in a URL end up in logs; give them as --header 'Authorization: ...'");
  }
  if (authority.starts_with('[')) {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos) return Usage("\"[\" without \"]\" in the URL's host");
    url.host = authority.substr(1, close - 1);
    const std::string_view rest = authority.substr(close + 1);
    if (!rest.empty() && rest[0] != ':') return Usage("unexpected text after \"]\" in the URL");
    if (!rest.empty()) RETURN_IF_ERROR(SetPort(rest.substr(1), url));
  } else {
    const size_t colon = authority.find(':');
    url.host = authority.substr(0, colon);
    if (colon != std::string_view::npos) {
      if (authority.find(':', colon + 1) != std::string_view::npos) {
        return Usage("an IPv6 address needs brackets in a URL: http://[::1]:8080");
      }
      RETURN_IF_ERROR(SetPort(authority.substr(colon + 1), url));
    }
  }
  if (url.host.empty()) return Usage("the URL has no host: http://127.0.0.1:8080");
  if (!IsRequestTarget(url.host)) return Usage("the URL's host has a blank in it");
  return {};
}

}  // namespace

std::string Url::Authority() const {
  if (!unix_path.empty()) return "localhost";
  std::string text = host.find(':') == std::string::npos ? host : "[" + host + "]";
  if (port != (tls ? kHttpsPort : kHttpPort)) text += ":" + std::to_string(port);
  return text;
}

std::string Url::Display() const {
  if (!unix_path.empty()) return "unix:" + unix_path + (path.empty() ? "" : ":" + path);
  return (tls ? "https://" : "http://") + Authority() + path;
}

Result<Url> ParseUrl(std::string_view text) {
  if (text.find('#') != std::string_view::npos) {
    return Usage("a URL to send to has no fragment (\"#...\")");
  }
  if (text.find('\0') != std::string_view::npos) return Usage("a URL has no NUL character");
  const std::string lower = LowerAscii(text.substr(0, 12));
  if (lower.starts_with("http+unix://")) return ParseHttpUnix(text.substr(12));
  if (lower.starts_with("unix:")) {
    const std::string_view rest = text.substr(5);
    return ParseUnix(rest.starts_with("//") ? rest.substr(2) : rest);
  }
  Url url;
  std::string_view rest;
  if (lower.starts_with("http://")) {
    rest = text.substr(7);
  } else if (lower.starts_with("https://")) {
    url.tls = true;
    rest = text.substr(8);
  } else {
    return Usage(
        "a URL begins with http://, https://, unix: or http+unix:// (for instance "
        "http://127.0.0.1:8080)");
  }
  url.port = url.tls ? kHttpsPort : kHttpPort;
  const size_t end = rest.find_first_of("/?");
  RETURN_IF_ERROR(SetAuthority(rest.substr(0, end), url));
  if (end != std::string_view::npos) RETURN_IF_ERROR(SetTarget(rest.substr(end), url));
  return url;
}

}  // namespace rouse::wire
