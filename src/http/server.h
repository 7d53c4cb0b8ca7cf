// A small HTTP/1.1 server: one I/O thread that accepts, reads and parses, a Handler that gets whole
// requests, and a ResponseWriter that any thread may answer through. It knows nothing of models.
// TLS, HTTP/2, Unix sockets and routing are not here.
//
// Why the writer sends by itself: Write() hands its bytes to the kernel on the calling thread when
// nothing is waiting before them, so that a token leaves without a hop over the I/O thread and the
// time at which it left is known when Write() returns. Only what the kernel does not take is
// buffered (bounded) and flushed by the I/O thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace rouse::http {

struct Header {
  std::string name;
  std::string value;
};

// When a request came. All on CLOCK_MONOTONIC, stamped when the system call returned.
struct RequestTimes {
  MonoTime accepted;    // accept() of the request's connection
  MonoTime first_byte;  // the read that brought the request's first byte
  MonoTime complete;    // the read that brought the last byte of its body
  bool first_on_connection = true;

  // From when on the server is answerable for the request's time: the accept for the first request
  // of a connection, the first byte for a later one.
  MonoTime Start() const { return first_on_connection ? accepted : first_byte; }
};

struct Request {
  std::string method;  // "GET"
  std::string target;  // as sent: "/state?model=x"
  std::string path;    // "/state"
  std::string query;   // "model=x", or ""
  std::vector<Header> headers;
  std::string body = {};
  std::string remote;  // "127.0.0.1:40312"
  RequestTimes times;

  // The first header of this name (any case).
  std::optional<std::string_view> Find(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::vector<Header> headers = {};  // Content-Length, Connection and Date are added
  std::string content_type = "application/json";
  std::string body = {};
};

// When a response left: when the kernel had taken the last byte of ...
struct ResponseTimes {
  std::optional<MonoTime> first_write;  // ... the first Write() of a stream, or of the whole Send()
  std::optional<MonoTime> last_write;   // ... all that was given so far, when nothing is buffered
};

// One response. Thread-safe; exactly one of Send() or Begin() ... End() is called, once. A writer
// that is destroyed before that answers 500, or cuts the connection when a stream had begun.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;

  // The whole response at once.
  virtual void Send(Response response) = 0;

  // Starts a stream; `head.body` is not used. Nothing is sent before the first Write(), so that
  // headers and first bytes leave together.
  virtual void Begin(Response head) = 0;
  // Sends a part of the stream now. False when the client has gone or reads so slowly that the
  // buffer's bound is passed; the connection is then closed and the work should be dropped.
  virtual bool Write(std::string_view bytes) = 0;
  // Ends the stream properly. What is still buffered is sent.
  virtual void End() = 0;
  // Cuts the connection, so that the client can tell a broken stream from an ended one.
  virtual void Abort() = 0;

  // Whether the client has closed its connection (an end of file counts) or was cut off.
  virtual bool ClientGone() const = 0;
  // `callback` runs once, on the I/O thread, when the client goes before the response is complete;
  // at once, on this thread, when it has gone already. It must not block.
  virtual void OnClientGone(std::function<void()> callback) = 0;

  virtual ResponseTimes Times() const = 0;
};

// Runs on the I/O thread: it must not block. It may answer before it returns or keep the writer.
using Handler = std::function<void(Request request, std::shared_ptr<ResponseWriter> writer)>;

// Hears the first bytes of every request when they were read, before they are parsed: a hint of
// what will be asked. The same rules as for a Handler.
using FirstBytes = std::function<void(std::string_view bytes)>;

struct ServerOptions {
  std::string host = "127.0.0.1";  // an address or a name
  int port = 0;                    // 0: the kernel picks
  int64_t body_limit_bytes = int64_t{8} << 20;
  int64_t header_limit_bytes = int64_t{64} << 10;
  int64_t write_buffer_limit_bytes = int64_t{4} << 20;  // not yet taken by the kernel
  int64_t request_timeout_ns = 30 * kNsPerSecond;       // first byte to last byte of a request
  int64_t idle_timeout_ns = 3600 * kNsPerSecond;        // between requests, and before the first
  int64_t write_stall_timeout_ns = 60 * kNsPerSecond;   // buffered bytes of which none is taken
  int connection_limit = 512;                           // one more is answered 503 and closed

  // Renders the answers that the plumbing gives by itself: 400, 408, 413, 431, 500, 503.
  // Empty: an OpenAI error object.
  std::function<Response(int status, std::string_view message)> render_error = {};
};

// {"error": {"message", "type", "param": null, "code": null}} with this status.
Response ErrorResponse(int status, std::string_view message);

// "Too Many Requests"
std::string_view ReasonPhrase(int status);

class Server {
 public:
  // Binds and listens; connections are taken by the kernel from now on and served after Start().
  // A port in use is kState and names --port.
  static Result<std::unique_ptr<Server>> Listen(ServerOptions options);

  virtual ~Server() = default;  // Stop()

  virtual int port() const = 0;
  virtual std::string host() const = 0;  // the address that was bound: "127.0.0.1", "::1"

  // Starts the I/O thread. Once.
  virtual void Start(Handler handler, FirstBytes first_bytes = {}) = 0;

  // Stops accepting and closes connections that have no request running; the others are closed
  // after their answer. `drained` runs once on the I/O thread when no connection is left.
  virtual void Drain(std::function<void()> drained) = 0;

  // Cuts all connections and joins the I/O thread. Writers stay valid; their clients have gone.
  // Not from the I/O thread.
  virtual void Stop() = 0;

  // Open connections, for metrics.
  virtual int64_t ConnectionCount() const = 0;
};

}  // namespace rouse::http
