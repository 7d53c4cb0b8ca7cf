#include "lab/control.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/fd.h"
#include "wire/http_response.h"
#include "wire/url.h"

namespace rouse::lab {
namespace {

constexpr size_t kReplyLimitBytes = 4U << 20U;

constexpr int64_t kLookMs = 100;  // so late may an interrupt be seen

// Waits for `events`; false at the deadline and when interrupted.
bool WaitFor(int fd, short events, Patience patience) {
  for (;;) {
    const int64_t left_ns = patience.deadline - MonoNow();
    if (left_ns <= 0 || patience.Interrupted()) return false;
    pollfd entry{.fd = fd, .events = events, .revents = 0};
    const int64_t left_ms = std::min<int64_t>(left_ns / kNsPerMs + 1, kLookMs);
    const int ready = poll(&entry, 1, static_cast<int>(left_ms));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

Error Late(Patience patience, std::string message) {
  if (patience.Interrupted()) return {ErrorCode::kInterrupted, "interrupted"};
  return {ErrorCode::kTimeout, std::move(message)};
}

Result<Fd> Connect(const wire::Url& url, Patience patience) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(url.port);
  if (getaddrinfo(url.host.c_str(), port.c_str(), &hints, &found) != 0 || found == nullptr) {
    return Error(ErrorCode::kNotFound, "cannot resolve " + url.host);
  }
  Error last(ErrorCode::kState, "nothing listens on " + url.Display());
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    Fd fd(socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.valid()) continue;
    int error = connect(fd.get(), each->ai_addr, each->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      if (!WaitFor(fd.get(), POLLOUT, patience)) {
        last = Late(patience, "no connection to " + url.Display() + " in time");
        continue;
      }
      socklen_t length = sizeof error;
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
    if (error == 0) {
      freeaddrinfo(found);
      return fd;
    }
  }
  freeaddrinfo(found);
  return last;
}

Status SendAll(int fd, std::string_view bytes, Patience patience) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!WaitFor(fd, POLLOUT, patience)) {
        return Late(patience, "the server does not read its control request");
      }
    } else if (errno != EINTR) {
      return Error(ErrorCode::kState, Error::FromErrno(errno, "control request").message());
    }
  }
  return {};
}

class Collector : public wire::HttpSink {
 public:
  void OnHead(const wire::HttpHead& head) override { reply.status = head.status; }
  void OnBody(std::string_view bytes) override { reply.body += bytes; }
  ControlReply reply;
};

Result<ControlReply> ReadReply(int fd, Patience patience) {
  using State = wire::HttpResponseParser::State;
  wire::HttpResponseParser parser(64 << 10);
  Collector collector;
  std::array<char, 16384> buffer{};
  for (;;) {
    if (!WaitFor(fd, POLLIN, patience)) {
      return Late(patience, "the server did not answer its control request in time");
    }
    const ssize_t got = recv(fd, buffer.data(), buffer.size(), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return Error(ErrorCode::kState, "the server broke its control connection");
    const State state = got == 0
                            ? parser.FeedEof(collector)
                            : parser.Feed({buffer.data(), static_cast<size_t>(got)}, collector);
    if (state == State::kComplete) return std::move(collector.reply);
    if (state == State::kFailed) {
      return Error(ErrorCode::kCorrupt, "control answer: " + parser.error());
    }
    if (got == 0) return Error(ErrorCode::kState, "the server cut its control answer");
    if (collector.reply.body.size() > kReplyLimitBytes) {
      return Error(ErrorCode::kCorrupt, "control answer: longer than 4 MiB");
    }
  }
}

}  // namespace

Result<ControlReply> CallControl(const std::string& base_url, std::string_view method,
                                 std::string_view path, std::string_view body, Patience patience,
                                 const ControlHeaders& headers) {
  ASSIGN_OR_RETURN(const wire::Url url, wire::ParseUrl(base_url));
  if (url.tls || !url.unix_path.empty()) {
    return Error(ErrorCode::kUnsupported, "control calls need a plain http:// address");
  }
  ASSIGN_OR_RETURN(const Fd fd, Connect(url, patience));
  std::string request = std::string(method) + " " + std::string(path) +
                        " HTTP/1.1\r\nHost: " + url.Authority() +
                        "\r\nUser-Agent: rouse/" ROUSE_VERSION "\r\nConnection: close\r\n";
  for (const auto& [name, value] : headers) request += name + ": " + value + "\r\n";
  if (!body.empty()) {
    request +=
        "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  } else if (method == "POST") {
    request += "Content-Length: 0\r\n";
  }
  request += "\r\n";
  request += body;
  RETURN_IF_ERROR(SendAll(fd.get(), request, patience));
  return ReadReply(fd.get(), patience);
}

bool AcceptsConnections(const std::string& base_url, Patience patience) {
  const Result<wire::Url> url = wire::ParseUrl(base_url);
  return url.ok() && url->unix_path.empty() && Connect(*url, patience).ok();
}

}  // namespace rouse::lab
