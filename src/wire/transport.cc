#include "wire/transport.h"

#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace rouse::wire {
namespace {

constexpr int64_t kInterruptCheckNs = 100 * kNsPerMs;
constexpr int64_t kBacklogRetryNs = kNsPerMs;

timespec ToTimespec(int64_t ns) {
  return {.tv_sec = static_cast<time_t>(ns / kNsPerSecond),
          .tv_nsec = static_cast<long>(ns % kNsPerSecond)};
}

bool Interrupted(const Wait& wait) {
  return wait.interrupt != nullptr && wait.interrupt->load(std::memory_order_relaxed);
}

// Waits until `fd` is ready for `events`. kBytes: it is.
IoKind WaitReady(int fd, short events, const Wait& wait) {
  for (;;) {
    if (Interrupted(wait)) return IoKind::kInterrupted;
    int64_t left_ns = wait.deadline - MonoNow();
    if (left_ns <= 0) return IoKind::kTimeout;
    if (wait.interrupt != nullptr) left_ns = std::min(left_ns, kInterruptCheckNs);
    pollfd polled{.fd = fd, .events = events, .revents = 0};
    const timespec timeout = ToTimespec(left_ns);
    if (ppoll(&polled, 1, &timeout, nullptr) > 0) return IoKind::kBytes;
  }
}

IoResult Failed(IoKind kind, std::string error = "") {
  return {
      .kind = kind, .bytes = 0, .at = MonoNow(), .kernel_delay_ns = {}, .error = std::move(error)};
}

std::string ErrorText(int error_number) { return std::generic_category().message(error_number); }

// The kernel stamps on the wall clock; read together with the steady one, right after the read, it
// gives the age of the last segment. A step of the wall clock between both would show as a
// negative or huge age: such a value is no measurement.
std::optional<int64_t> KernelDelay(msghdr& message, int64_t wall_ns_at_read) {
  for (cmsghdr* control = CMSG_FIRSTHDR(&message); control != nullptr;
       control = CMSG_NXTHDR(&message, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_TIMESTAMPING) continue;
    scm_timestamping stamps{};
    std::memcpy(&stamps, CMSG_DATA(control), sizeof stamps);
    const int64_t kernel_ns = stamps.ts[0].tv_sec * kNsPerSecond + stamps.ts[0].tv_nsec;
    const int64_t delay_ns = wall_ns_at_read - kernel_ns;
    if (kernel_ns == 0 || delay_ns < 0 || delay_ns > 10 * kNsPerSecond) return std::nullopt;
    return delay_ns;
  }
  return std::nullopt;
}

class SocketTransport final : public Transport {
 public:
  explicit SocketTransport(Fd socket) : socket_(std::move(socket)) {}

  IoResult Read(std::span<char> buffer, const Wait& wait) override {
    for (;;) {
      iovec part{.iov_base = buffer.data(), .iov_len = buffer.size()};
      alignas(cmsghdr) std::array<char, 256> control;
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      const ssize_t count = recvmsg(socket_.get(), &message, 0);
      const MonoTime at = MonoNow();
      const int error_number = errno;
      if (count > 0) {
        return {.kind = IoKind::kBytes,
                .bytes = static_cast<size_t>(count),
                .at = at,
                .kernel_delay_ns = KernelDelay(message, WallNowNs()),
                .error = ""};
      }
      if (count == 0) return {IoKind::kClosed, 0, at, {}, ""};
      if (error_number == EINTR) continue;
      if (error_number != EAGAIN) return {IoKind::kReset, 0, at, {}, ErrorText(error_number)};
      const IoKind ready = WaitReady(socket_.get(), POLLIN, wait);
      if (ready != IoKind::kBytes) return Failed(ready);
    }
  }

  IoResult Write(std::string_view bytes, const Wait& wait) override {
    const size_t total = bytes.size();
    MonoTime at = MonoNow();
    while (!bytes.empty()) {
      const ssize_t count = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      at = MonoNow();
      const int error_number = errno;
      if (count >= 0) {
        bytes.remove_prefix(static_cast<size_t>(count));
        continue;
      }
      if (error_number == EINTR) continue;
      if (error_number != EAGAIN) return {IoKind::kReset, 0, at, {}, ErrorText(error_number)};
      const IoKind ready = WaitReady(socket_.get(), POLLOUT, wait);
      if (ready != IoKind::kBytes) return Failed(ready);
    }
    return {.kind = IoKind::kBytes, .bytes = total, .at = at, .kernel_delay_ns = {}, .error = ""};
  }

  bool IsQuiet() override {
    char byte = 0;
    const ssize_t count = recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count < 0 && (errno == EAGAIN || errno == EINTR);
  }

  std::optional<int64_t> RoundTripNs() override {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (getsockopt(socket_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
    if (size < offsetof(tcp_info, tcpi_min_rtt) + sizeof info.tcpi_min_rtt) return std::nullopt;
    // All ones: the kernel has no sample yet.
    if (info.tcpi_min_rtt == ~0U) return std::nullopt;
    return int64_t{info.tcpi_min_rtt} * kNsPerUs;
  }

 private:
  Fd socket_;
};

void RequestReceiveStamps(int fd) {
  const int flags = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
  // Where it fails there are no kernel stamps; the read stamps are the measurement either way.
  static_cast<void>(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags));
}

std::string AddressText(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, address, sizeof in);
    inet_ntop(AF_INET, &in.sin_addr, text.data(), text.size());
    return std::string(text.data()) + ":" + std::to_string(ntohs(in.sin_port));
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, address, sizeof in);
    inet_ntop(AF_INET6, &in.sin6_addr, text.data(), text.size());
    return "[" + std::string(text.data()) + "]:" + std::to_string(ntohs(in.sin6_port));
  }
  return "";
}

Address UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
  const auto* const bytes = reinterpret_cast<const char*>(&address);
  return {.family = "unix", .text = path, .sockaddr_bytes = {bytes, bytes + sizeof address}};
}

std::string LocalText(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  if (getsockname(fd, address, &size) != 0) return "";
  return AddressText(address);
}

// Connects; returns 0 or an errno. A Unix socket whose backlog is full says EAGAIN and cannot be
// polled for: no connection was made, so asking again is no second connection.
int Connect(int fd, const Address& address, const Wait& wait, IoKind& kind) {
  const auto* const to = reinterpret_cast<const sockaddr*>(address.sockaddr_bytes.data());
  const auto size = static_cast<socklen_t>(address.sockaddr_bytes.size());
  for (;;) {
    if (connect(fd, to, size) == 0) return 0;
    if (errno == EINTR || errno == EINPROGRESS) break;
    if (errno != EAGAIN) return errno;
    if (Interrupted(wait) || MonoNow() >= wait.deadline) {
      kind = Interrupted(wait) ? IoKind::kInterrupted : IoKind::kTimeout;
      return ETIMEDOUT;
    }
    RealClock().SleepFor(kBacklogRetryNs);
  }
  const IoKind ready = WaitReady(fd, POLLOUT, wait);
  if (ready != IoKind::kBytes) {
    kind = ready;
    return ETIMEDOUT;
  }
  int error_number = 0;
  socklen_t length = sizeof error_number;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error_number, &length) != 0) return errno;
  return error_number;
}

}  // namespace

Result<Resolved> Resolve(const Url& url) {
  Resolved resolved;
  if (!url.unix_path.empty()) {
    resolved.addresses.push_back(UnixAddress(url.unix_path));
    return resolved;
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int code = getaddrinfo(url.host.c_str(), std::to_string(url.port).c_str(), &hints, &list);
  if (code != 0) {
    return Error(ErrorCode::kNotFound, "cannot resolve " + url.host + ": " + gai_strerror(code));
  }
  bool has_ipv4 = false;
  bool has_ipv6 = false;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    const bool ipv4 = entry->ai_family == AF_INET;
    (ipv4 ? has_ipv4 : has_ipv6) = true;
    const auto* const bytes = reinterpret_cast<const char*>(entry->ai_addr);
    Address address{.family = ipv4 ? "ipv4" : "ipv6",
                    .text = AddressText(entry->ai_addr),
                    .sockaddr_bytes = {bytes, bytes + entry->ai_addrlen}};
    const bool known = std::ranges::find(resolved.addresses, address.text, &Address::text) !=
                       resolved.addresses.end();
    if (!known) resolved.addresses.push_back(std::move(address));
  }
  freeaddrinfo(list);
  if (resolved.addresses.empty()) {
    return Error(ErrorCode::kNotFound, url.host + " has no IPv4 or IPv6 address");
  }
  resolved.two_families = has_ipv4 && has_ipv6;
  if (url.host == "localhost") {
    std::vector<Address> ipv4_first;
    for (const std::string_view family : {"ipv4", "ipv6"}) {
      for (const Address& address : resolved.addresses) {
        if (address.family == family) ipv4_first.push_back(address);
      }
    }
    resolved.addresses = std::move(ipv4_first);
  }
  return resolved;
}

SocketResult ConnectSocket(const Address& address, const Wait& wait) {
  SocketResult result;
  result.started = MonoNow();
  const auto* const to = reinterpret_cast<const sockaddr*>(address.sockaddr_bytes.data());
  Fd socket(::socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) {
    result.error_number = errno;
    result.error = "cannot make a socket: " + ErrorText(result.error_number);
    result.at = MonoNow();
    return result;
  }
  if (to->sa_family != AF_UNIX) {
    const int on = 1;
    static_cast<void>(setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
    RequestReceiveStamps(socket.get());
  }
  result.error_number = Connect(socket.get(), address, wait, result.kind);
  result.at = MonoNow();
  if (result.error_number != 0) {
    result.error = "cannot connect to " + address.text + ": " + ErrorText(result.error_number);
    return result;
  }
  result.kind = IoKind::kBytes;
  result.local = LocalText(socket.get());
  result.transport = MakeSocketTransport(std::move(socket));
  return result;
}

void KeepReceiveStampsOn() {
  static const Fd holder = [] {
    Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket.valid()) RequestReceiveStamps(socket.get());
    return socket;
  }();
}

std::unique_ptr<Transport> MakeSocketTransport(Fd socket) {
  return std::make_unique<SocketTransport>(std::move(socket));
}

}  // namespace rouse::wire
