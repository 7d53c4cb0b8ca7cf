// For tests only: a plain client socket that says and hears bytes, and a one-shot event between
// threads. Every wait has a limit.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "base/time.h"

namespace rouse::http::test {

constexpr int64_t kPatienceNs = 30 * kNsPerSecond;

// A plain client socket.
class Client {
 public:
  explicit Client(int port, int receive_buffer_bytes = 0) {
    fd_.Reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (receive_buffer_bytes > 0) {
      ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes,
                   sizeof receive_buffer_bytes);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }

  bool connected() const { return connected_; }

  void Say(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }

  // Reads until `enough` is part of what was read; the text read since the last call.
  std::string HearUntil(std::string_view enough) {
    while (heard_.find(enough) == std::string::npos && Read()) {
    }
    const size_t at = heard_.find(enough);
    if (at == std::string::npos) return std::exchange(heard_, {});
    std::string text = heard_.substr(0, at + enough.size());
    heard_.erase(0, text.size());
    return text;
  }

  std::string HearAll() {
    while (Read()) {
    }
    return std::exchange(heard_, {});
  }

  void HalfClose() { ::shutdown(fd_.get(), SHUT_WR); }
  void HangUp() { fd_.Reset(); }

 private:
  bool Read() {
    pollfd wait{fd_.get(), POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(kPatienceNs / kNsPerMs)) != 1) return false;
    char buffer[4096];
    const ssize_t length = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (length <= 0) return false;
    heard_.append(buffer, static_cast<size_t>(length));
    return true;
  }

  Fd fd_;
  bool connected_ = false;
  std::string heard_;
};

// A one-shot event.
class Signal {
 public:
  void Set() {
    const std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  bool Wait(int64_t patience_ns = kPatienceNs) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(patience_ns), [&] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

}  // namespace rouse::http::test
