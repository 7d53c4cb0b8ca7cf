// A server that does exactly what a script says: bytes, pauses, resets, on the clock that the
// client uses, with a stamp of its own for every send. For tests and benchmarks of the wire client;
// it knows no HTTP beyond finding the end of a request.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/time.h"

namespace rouse::testing {

struct Step {
  enum class Kind { kReadRequest, kSend, kPause, kReset, kHold };
  Kind kind = Kind::kSend;
  std::string bytes;
  int64_t pause_ns = 0;
};

// Reads one request: its head, and as many bytes as its Content-Length says.
Step ReadRequest();
Step Send(std::string bytes);
Step PauseFor(int64_t ns);
// Ends the connection with RST at once, unsent bytes and all.
Step Reset();
// Keeps the connection open, silently, until the client closes it or the server is destroyed.
Step Hold();

// At its end the connection is closed in the normal way.
using Script = std::vector<Step>;

struct ServerOptions {
  enum class Family { kIpv4, kIpv6, kUnix };
  Family family = Family::kIpv4;
  bool tls = false;  // with a certificate of its own for localhost, 127.0.0.1 and ::1
};

struct SendStamp {
  MonoTime before;  // right before send() was called
  MonoTime after;   // right after it returned
};

// What one connection saw. Complete once the connection has ended.
struct ConnectionLog {
  std::vector<std::string> requests;
  std::vector<SendStamp> sends;  // one per Send step
};

class ScriptedServer {
 public:
  // The n-th connection plays the n-th script, further ones the last. Listens when it returns.
  explicit ScriptedServer(std::vector<Script> scripts, ServerOptions options = {});
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  // "http://127.0.0.1:PORT", "https://...", "unix:/tmp/..."
  const std::string& url() const { return url_; }
  int port() const { return port_; }
  // A PEM file with the certificate, for SSL_CERT_FILE; "" without TLS.
  const std::string& certificate_file() const { return certificate_file_; }

  size_t connection_count() const;
  // Waits until connection `index` has ended (10 s at most) and returns its log.
  ConnectionLog Log(size_t index) const;

 private:
  struct Connection;
  struct Tls;

  void Listen(const ServerOptions& options);
  void AcceptLoop();
  void Play(Connection& connection, const Script& script);

  std::vector<Script> scripts_;
  std::string url_;
  int port_ = 0;
  std::string socket_path_;
  std::string certificate_file_;
  std::unique_ptr<Tls> tls_;
  Fd listener_;
  Fd stop_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::thread acceptor_;
};

// ---- Bytes that tests keep writing --------------------------------------------------------------

// "HTTP/1.1 200 OK" with these header lines ("Name: value\r\n" each).
std::string Head(std::string_view fields, std::string_view status = "200 OK");
// One chunk of a chunked body.
std::string Chunk(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
inline constexpr std::string_view kEventStream =
    "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n";

}  // namespace rouse::testing
