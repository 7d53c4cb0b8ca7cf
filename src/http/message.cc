#include "http/message.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

namespace rouse::http {
namespace {

struct Phrase {
  int status;
  std::string_view text;
};

constexpr std::array kPhrases = {
    Phrase{200, "OK"},
    Phrase{202, "Accepted"},
    Phrase{204, "No Content"},
    Phrase{206, "Partial Content"},
    Phrase{301, "Moved Permanently"},
    Phrase{302, "Found"},
    Phrase{304, "Not Modified"},
    Phrase{307, "Temporary Redirect"},
    Phrase{400, "Bad Request"},
    Phrase{401, "Unauthorized"},
    Phrase{403, "Forbidden"},
    Phrase{404, "Not Found"},
    Phrase{405, "Method Not Allowed"},
    Phrase{408, "Request Timeout"},
    Phrase{409, "Conflict"},
    Phrase{413, "Content Too Large"},
    Phrase{415, "Unsupported Media Type"},
    Phrase{417, "Expectation Failed"},
    Phrase{422, "Unprocessable Content"},
    Phrase{429, "Too Many Requests"},
    Phrase{431, "Request Header Fields Too Large"},
    Phrase{500, "Internal Server Error"},
    Phrase{501, "Not Implemented"},
    Phrase{502, "Bad Gateway"},
    Phrase{503, "Service Unavailable"},
    Phrase{504, "Gateway Timeout"},
    Phrase{505, "HTTP Version Not Supported"},
};

char LowerLetter(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

// "Sun, 29 Nov 2026 19:02:49 GMT", in English whatever the locale is.
std::string HttpDate(std::time_t now) {
  static constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                kDays[static_cast<size_t>(utc.tm_wday)], utc.tm_mday,
                kMonths[static_cast<size_t>(utc.tm_mon)], utc.tm_year + 1900, utc.tm_hour,
                utc.tm_min, utc.tm_sec);
  return text.data();
}

void AppendHeader(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  out += value;
  out += "\r\n";
}

std::string JsonQuoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') {
      quoted += '\\';
      quoted += letter;
    } else if (static_cast<unsigned char>(letter) < 0x20) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x",
                    static_cast<unsigned>(static_cast<unsigned char>(letter)));
      quoted += escape.data();
    } else {
      quoted += letter;
    }
  }
  return quoted + '"';
}

}  // namespace

std::optional<std::string_view> Request::Find(std::string_view name) const {
  for (const Header& header : headers) {
    if (SameName(header.name, name)) return header.value;
  }
  return std::nullopt;
}

bool SameName(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return LowerLetter(x) == LowerLetter(y); });
}

std::string_view ReasonPhrase(int status) {
  for (const Phrase& phrase : kPhrases) {
    if (phrase.status == status) return phrase.text;
  }
  return "Unknown";
}

Response ErrorResponse(int status, std::string_view message) {
  Response response;
  response.status = status;
  const std::string_view type = status >= 500 ? "server_error" : "invalid_request_error";
  response.body = "{\"error\":{\"message\":" + JsonQuoted(message) + ",\"type\":\"" +
                  std::string(type) + "\",\"param\":null,\"code\":null}}";
  return response;
}

std::string FormatHead(const Response& response, Framing framing, bool keep_alive) {
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + ' ';
  head += ReasonPhrase(response.status);
  head += "\r\n";
  AppendHeader(head, "Date", HttpDate(std::time(nullptr)));
  if (!response.content_type.empty()) AppendHeader(head, "Content-Type", response.content_type);
  for (const Header& header : response.headers) AppendHeader(head, header.name, header.value);
  if (framing == Framing::kLength) {
    AppendHeader(head, "Content-Length", std::to_string(response.body.size()));
  } else if (framing == Framing::kChunked) {
    AppendHeader(head, "Transfer-Encoding", "chunked");
  }
  AppendHeader(head, "Connection", keep_alive ? "keep-alive" : "close");
  head += "\r\n";
  return head;
}

void AppendChunk(std::string& out, std::string_view bytes) {
  if (bytes.empty()) return;
  std::array<char, 24> size{};
  const int length = std::snprintf(size.data(), size.size(), "%zx\r\n", bytes.size());
  out.append(size.data(), static_cast<size_t>(length));
  out += bytes;
  out += "\r\n";
}

}  // namespace rouse::http
