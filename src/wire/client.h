// The instrument: sends one request on a socket of its own and stamps every read() right when it
// returned, before it looks at the bytes. A blocking poll loop on the calling thread; no retry, no
// redirect, no other request. What is slow and not part of the answer (name resolution, the TLS
// context, building the body) happens in Prepare, before the clock matters.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "wire/exchange.h"
#include "wire/request.h"

namespace rouse::wire {

// A request that is ready to be written: resolved addresses, TLS context, the bytes. Immutable and
// cheap to copy; may be performed any number of times, from several threads at once.
class PreparedRequest {
 public:
  struct Impl;
  explicit PreparedRequest(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  Api api() const;
  // The endpoint as it may be shown: no query, no credentials. "http://127.0.0.1:8080/v1/..."
  const std::string& display_url() const;
  const std::string& host() const;  // "127.0.0.1", or the socket's path
  // The JSON body that will be sent.
  const std::string& body() const;
  // `text` with every header value of the request masked.
  std::string Redact(std::string text) const;
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

// kUsage for a URL, header, body or limit that can't be sent; kNotFound or kPermission for a CA
// store that can't be read. A host name that can't be resolved is no error here: performing it
// gives connect_error, as a server that is not there would. May block in getaddrinfo.
Result<PreparedRequest> Prepare(const RequestSpec& spec);

// A connection that is kept between exchanges. One thread at a time. Closed when destroyed, when
// an exchange left it unusable, or when the server closed it.
class Connection {
 public:
  Connection();
  ~Connection();
  Connection(Connection&&) noexcept;
  Connection& operator=(Connection&&) noexcept;

  bool open() const;
  void Close();

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

struct PerformOptions {
  // The intended send time; empty means now. Waited for when it lies ahead; when it has passed, the
  // lateness counts.
  std::optional<MonoTime> intended_send;
  // Checked at least every 100 ms; true ends the exchange as `interrupted`.
  const std::atomic<bool>* interrupt = nullptr;
};

// Sends the request and reads the answer to its end. Never fails: whatever went wrong is the
// exchange's outcome. With `kept`, an open connection of the same endpoint is used, and a usable
// one is left in it; one that the server has closed meanwhile is opened anew, which the exchange
// says (fault `reconnect`).
Exchange Perform(const PreparedRequest& request, const PerformOptions& options = {},
                 Connection* kept = nullptr);

}  // namespace rouse::wire
