// Bytes to and from a server, each read and write stamped right when the system call returned. A
// seam: sockets and TLS are the real ones, tests use a scripted one. One thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"
#include "wire/url.h"

namespace rouse::wire {

// How long to wait, and what ends the waiting early.
struct Wait {
  MonoTime deadline;
  const std::atomic<bool>* interrupt = nullptr;
};

enum class IoKind { kBytes, kClosed, kReset, kTimeout, kInterrupted };

struct IoResult {
  IoKind kind = IoKind::kClosed;
  size_t bytes = 0;
  MonoTime at;  // when the system call returned, or when waiting ended
  // From the kernel's receive stamp of the last segment to `at`.
  std::optional<int64_t> kernel_delay_ns;
  std::string error;  // for kReset: what the system or the TLS library said
};

class Transport {
 public:
  virtual ~Transport() = default;
  // At least one byte, or why there is none.
  virtual IoResult Read(std::span<char> buffer, const Wait& wait) = 0;
  // All of `bytes` (kBytes), or why not.
  virtual IoResult Write(std::string_view bytes, const Wait& wait) = 0;
  // Whether a kept connection is of use still: false once the peer closed it or sent something
  // that nobody asked for. Does not wait.
  virtual bool IsQuiet() = 0;
  // The kernel's smallest round-trip time; empty where there is none.
  virtual std::optional<int64_t> RoundTripNs() { return std::nullopt; }
};

// Where a host's name leads.
struct Address {
  std::string family;  // "ipv4", "ipv6", "unix"
  std::string text;    // "127.0.0.1:8080"
  std::vector<char> sockaddr_bytes;
};

struct Resolved {
  std::vector<Address> addresses;  // in the order in which they are to be tried
  bool two_families = false;
};

// All addresses of the URL's host; a literal address or a socket's path needs no look-up. For
// `localhost` with both families IPv4 goes first: nearly all local servers listen there. May block
// in the resolver. kNotFound with the resolver's words.
Result<Resolved> Resolve(const Url& url);

struct SocketResult {
  std::unique_ptr<Transport> transport;  // null: see kind
  IoKind kind = IoKind::kReset;
  int error_number = 0;  // of the failed connect
  std::string error;
  MonoTime started;
  MonoTime at;  // connected, or gave up
  std::string local;
};

// A connected socket: TCP_NODELAY, kernel receive stamps where they can be had.
SocketResult ConnectSocket(const Address& address, const Wait& wait);

// Keeps the kernel's receive stamps switched on from now on: the first user of a machine would
// otherwise miss some.
void KeepReceiveStampsOn();

// An already connected socket, for tests.
std::unique_ptr<Transport> MakeSocketTransport(Fd socket);

}  // namespace rouse::wire
