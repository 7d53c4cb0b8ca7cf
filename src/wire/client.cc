#include "wire/client.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/strings.h"
#include "base/units.h"
#include "wire/apis.h"
#include "wire/exchange_builder.h"
#include "wire/redact.h"
#include "wire/tls.h"
#include "wire/transport.h"
#include "wire/url.h"

namespace rouse::wire {

// How long to read on once the answer's end was told: for its usage after the finish reason, for
// the end of the HTTP message after [DONE]. No mark of a token depends on it.
constexpr int64_t kAfterFinishNs = 10 * kNsPerSecond;
constexpr int64_t kAfterEndNs = kNsPerSecond;
constexpr size_t kReadBufferBytes = size_t{64} << 10;

struct PreparedRequest::Impl {
  Url url;
  Api api = Api::kOpenAiChat;
  std::string display_url;
  std::string body;
  std::string bytes;  // head and body, as written
  Resolved resolved;
  std::string resolve_error;
  std::shared_ptr<const TlsContext> tls;
  Timeouts timeouts;
  Limits limits;
  bool keep_raw = false;
  Redactor redactor{{}};

  // What a kept connection must have been opened for.
  std::string EndpointKey() const {
    return (url.tls ? "tls:" : "tcp:") + url.Authority() + "|" + url.unix_path;
  }
};

struct Connection::Impl {
  std::unique_ptr<Transport> transport;
  std::string key;
  ConnectionFacts facts;
};

namespace {

// ---- Prepare ------------------------------------------------------------------------------------

Error Usage(std::string message) { return {ErrorCode::kUsage, std::move(message)}; }

bool IsHeaderName(std::string_view name) {
  static constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

Status CheckHeaders(const std::vector<Header>& headers) {
  for (const Header& header : headers) {
    if (!IsHeaderName(header.name)) {
      return Usage("a header needs the form 'Name: value'; this name is none: \"" + header.name +
                   "\"");
    }
    const bool clean = std::ranges::none_of(
        header.value, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
    if (!clean) return Usage("the value of header " + header.name + " has a line break in it");
    const std::string lower = LowerAscii(header.name);
    if (lower == "content-length" || lower == "transfer-encoding" || lower == "connection") {
      return Usage("the header " + header.name + " is the client's own and can't be given");
    }
  }
  return {};
}

// A full endpoint's path selects its API; anything else is a base.
Status SelectApi(const RequestSpec& spec, PreparedRequest::Impl& impl) {
  const std::optional<Api> of_path = ApiOfPath(impl.url.path);
  if (of_path && spec.api && *of_path != *spec.api) {
    return Usage("the URL's path is the endpoint of " + std::string(ApiName(*of_path)) +
                 ", not of " + std::string(ApiName(*spec.api)) + ": leave out one of the two");
  }
  if (of_path) {
    impl.api = *of_path;
  } else {
    impl.api = spec.api.value_or(Api::kOpenAiChat);
    impl.url.path = EndpointPath(impl.api, impl.url.path);
  }
  return {};
}

std::string RequestBytes(const PreparedRequest::Impl& impl, const std::vector<Header>& given) {
  std::vector<Header> headers = {{"Host", impl.url.Authority()},
                                 {"User-Agent", "rouse/" ROUSE_VERSION},
                                 {"Accept", std::string(AcceptOf(impl.api))},
                                 {"Accept-Encoding", "identity"},
                                 {"Content-Type", "application/json"}};
  for (Header& header : ApiHeaders(impl.api)) headers.push_back(std::move(header));
  for (const Header& header : given) {
    std::erase_if(headers, [&header](const Header& own) {
      return LowerAscii(own.name) == LowerAscii(header.name);
    });
  }
  headers.insert(headers.end(), given.begin(), given.end());
  headers.push_back({"Content-Length", std::to_string(impl.body.size())});
  std::string bytes = "POST " + impl.url.path;
  if (!impl.url.query.empty()) bytes += "?" + impl.url.query;
  bytes += " HTTP/1.1\r\n";
  for (const Header& header : headers) bytes += header.name + ": " + header.value + "\r\n";
  return bytes + "\r\n" + impl.body;
}

Status CheckLimits(const RequestSpec& spec) {
  const Limits& limits = spec.limits;
  if (limits.header_bytes < 1 || limits.event_bytes < 1 || limits.total_bytes < 1) {
    return Usage("a limit must be at least one byte");
  }
  if (limits.header_bytes > INT32_MAX) return Usage("the header limit is above 2 GiB");
  if (spec.timeouts.total_ns < 1) return Usage("the timeout must be above zero");
  return {};
}

// ---- Perform ------------------------------------------------------------------------------------

std::string TimeoutText(std::string_view stage, int64_t ns) {
  return std::string(stage) + " timeout after " + FormatDuration(ns);
}

// When to stop waiting, and what for.
struct Deadline {
  MonoTime at;
  std::string_view stage;
  int64_t length_ns = 0;
  bool drained = false;  // the answer was told to be over: stopping is no timeout
};

Deadline NextDeadline(const Timeouts& timeouts, const Exchange& exchange,
                      const ExchangeBuilder& builder) {
  const Marks& marks = exchange.marks;
  Deadline next{marks.send_start + timeouts.total_ns, "total", timeouts.total_ns, false};
  const auto consider = [&next](MonoTime from, std::optional<int64_t> length_ns,
                                std::string_view stage, bool drained = false) {
    if (!length_ns || from + *length_ns >= next.at) return;
    next = {from + *length_ns, stage, *length_ns, drained};
  };
  if (!marks.first_byte) consider(marks.send_start, timeouts.first_byte_ns, "first byte");
  if (!marks.first_token) {
    consider(marks.send_start, timeouts.first_token_ns, "first token");
  } else {
    consider(*marks.last_token, timeouts.between_tokens_ns, "between tokens");
  }
  if (builder.end_told_at()) {
    consider(*builder.end_told_at(), kAfterEndNs, "end of message", true);
  } else if (builder.finish_told_at()) {
    consider(*builder.finish_told_at(), kAfterFinishNs, "end of stream", true);
  }
  return next;
}

class Performer {
 public:
  Performer(const PreparedRequest::Impl& request, const PerformOptions& options)
      : request_(request), interrupt_(options.interrupt) {
    exchange_.api = request.api;
    exchange_.request_bytes = static_cast<int64_t>(request.bytes.size());
    exchange_.connection.two_families = request.resolved.two_families;
    exchange_.marks.send_start = options.intended_send.value_or(MonoNow());
  }

  Exchange Run(Connection* kept) {
    const bool stood = kept != nullptr && UseKept(kept->impl());
    if (stood || Connect()) Talk();
    if (kept != nullptr) Keep(kept->impl());
    request_.redactor.Apply(exchange_);
    return std::move(exchange_);
  }

 private:
  // Takes the kept connection when it is of use still.
  bool UseKept(Connection::Impl& kept) {
    std::unique_ptr<Transport> transport = std::move(kept.transport);
    if (transport == nullptr || kept.key != request_.EndpointKey()) return false;
    if (!transport->IsQuiet()) {
      exchange_.stream.faults.emplace_back("reconnect");
      return false;
    }
    transport_ = std::move(transport);
    exchange_.connection = kept.facts;
    exchange_.connection.reused = true;
    return true;
  }

  void Keep(Connection::Impl& kept) {
    if (!reusable_ || transport_ == nullptr) return;
    kept.transport = std::move(transport_);
    kept.key = request_.EndpointKey();
    kept.facts = exchange_.connection;
  }

  // The end of waiting for a connection, and whether it is the connect limit or the total one.
  Deadline ConnectDeadline(MonoTime started) const {
    const Timeouts& timeouts = request_.timeouts;
    Deadline deadline{exchange_.marks.send_start + timeouts.total_ns, "total", timeouts.total_ns};
    if (timeouts.connect_ns && started + *timeouts.connect_ns < deadline.at) {
      deadline = {started + *timeouts.connect_ns, "connect", *timeouts.connect_ns};
    }
    return deadline;
  }

  bool Connect() {
    const MonoTime started = MonoNow();
    exchange_.marks.connect_start = started;
    if (request_.resolved.addresses.empty()) {
      return FailConnect(IoKind::kReset, request_.resolve_error, {}, started);
    }
    const Deadline deadline = ConnectDeadline(started);
    const Wait wait{deadline.at, interrupt_};
    SocketResult socket;
    bool first = true;
    for (const Address& address : request_.resolved.addresses) {
      socket = ConnectSocket(address, wait);
      exchange_.connection.family = address.family;
      exchange_.connection.remote = address.text;
      if (socket.kind == IoKind::kBytes) {
        if (!first) exchange_.stream.faults.emplace_back("connect_fallback");
        break;
      }
      exchange_.connection.connect_errno = socket.error_number;
      if (socket.kind != IoKind::kReset) break;
      first = false;
    }
    if (socket.kind != IoKind::kBytes) {
      return FailConnect(socket.kind, socket.error, deadline, socket.at);
    }
    exchange_.connection.connect_errno.reset();
    exchange_.connection.local = socket.local;
    exchange_.marks.tcp_connected = socket.at;
    if (!request_.url.tls) return Connected(std::move(socket.transport), socket.at);
    TlsResult tls =
        HandshakeTls(*request_.tls, std::move(socket.transport), request_.url.host, wait);
    if (tls.kind != IoKind::kBytes) return FailConnect(tls.kind, tls.error, deadline, tls.at);
    exchange_.connection.tls = tls.version;
    return Connected(std::move(tls.transport), tls.at);
  }

  bool Connected(std::unique_ptr<Transport> transport, MonoTime at) {
    transport_ = std::move(transport);
    exchange_.marks.connected = at;
    exchange_.connection.reused = false;
    return true;
  }

  bool FailConnect(IoKind kind, const std::string& error, const Deadline& deadline, MonoTime at) {
    exchange_.marks.end = at;
    exchange_.connection.family.clear();
    exchange_.connection.remote.clear();
    if (kind == IoKind::kTimeout) {
      exchange_.outcome = Outcome::kTimeout;
      exchange_.outcome_detail = TimeoutText(deadline.stage, deadline.length_ns);
      exchange_.stream_end = StreamEnd::kTimeout;
    } else if (kind == IoKind::kInterrupted) {
      exchange_.outcome = Outcome::kInterrupted;
      exchange_.outcome_detail = "interrupted while connecting";
      exchange_.stream_end = StreamEnd::kInterrupted;
    } else {
      exchange_.outcome = Outcome::kConnectError;
      exchange_.outcome_detail = error;
    }
    return false;
  }

  // Writes the request and reads the answer.
  void Talk() {
    ExchangeBuilder builder(request_.api, request_.limits, request_.keep_raw, exchange_);
    const Deadline deadline = NextDeadline(request_.timeouts, exchange_, builder);
    const IoResult sent = transport_->Write(request_.bytes, {deadline.at, interrupt_});
    if (sent.kind == IoKind::kTimeout || sent.kind == IoKind::kInterrupted) {
      return End(builder, sent, deadline);
    }
    if (sent.kind == IoKind::kBytes) {
      exchange_.marks.request_sent = sent.at;
    } else {
      // A server that refuses a long request may have answered before it closed.
      exchange_.stream.faults.emplace_back("request_cut");
    }
    std::vector<char> buffer(kReadBufferBytes);
    for (;;) {
      const Deadline next = NextDeadline(request_.timeouts, exchange_, builder);
      const IoResult got = transport_->Read(buffer, {next.at, interrupt_});
      if (got.kind != IoKind::kBytes) return End(builder, got, next);
      if (!builder.OnRead({buffer.data(), got.bytes}, got.at, got.kernel_delay_ns)) {
        exchange_.connection.round_trip_ns = transport_->RoundTripNs();
        builder.Finish(StreamEnd::kComplete, got.at, "");
        reusable_ = builder.reusable();
        return;
      }
    }
  }

  // Reading (or writing) ended without the end of the message.
  void End(ExchangeBuilder& builder, const IoResult& result, const Deadline& deadline) {
    exchange_.connection.round_trip_ns = transport_->RoundTripNs();
    switch (result.kind) {
      case IoKind::kTimeout:
        return builder.Finish(deadline.drained ? StreamEnd::kStopped : StreamEnd::kTimeout,
                              result.at, TimeoutText(deadline.stage, deadline.length_ns));
      case IoKind::kInterrupted:
        return builder.Finish(StreamEnd::kInterrupted, result.at, "interrupted");
      case IoKind::kClosed:
        return builder.Finish(StreamEnd::kClosed, result.at, "");
      default:
        return builder.Finish(StreamEnd::kReset, result.at, result.error);
    }
  }

  const PreparedRequest::Impl& request_;
  const std::atomic<bool>* interrupt_;
  Exchange exchange_;
  std::unique_ptr<Transport> transport_;
  bool reusable_ = false;
};

}  // namespace

Api PreparedRequest::api() const { return impl_->api; }
const std::string& PreparedRequest::display_url() const { return impl_->display_url; }
const std::string& PreparedRequest::host() const {
  return impl_->url.unix_path.empty() ? impl_->url.host : impl_->url.unix_path;
}
const std::string& PreparedRequest::body() const { return impl_->body; }
std::string PreparedRequest::Redact(std::string text) const {
  return impl_->redactor.Apply(std::move(text));
}

Result<PreparedRequest> Prepare(const RequestSpec& spec) {
  RETURN_IF_ERROR(CheckHeaders(spec.headers));
  RETURN_IF_ERROR(CheckLimits(spec));
  auto impl = std::make_shared<PreparedRequest::Impl>();
  ASSIGN_OR_RETURN(impl->url, ParseUrl(spec.url));
  RETURN_IF_ERROR(SelectApi(spec, *impl));
  impl->display_url = impl->url.Display();
  ASSIGN_OR_RETURN(impl->body, BuildBody(impl->api, spec));
  impl->bytes = RequestBytes(*impl, spec.headers);
  if (impl->url.tls) {
    ASSIGN_OR_RETURN(impl->tls, MakeTlsContext(spec.insecure_tls));
  }
  Result<Resolved> resolved = Resolve(impl->url);
  if (resolved.ok()) {
    impl->resolved = *std::move(resolved);
  } else {
    impl->resolve_error = resolved.error().message();
  }
  impl->timeouts = spec.timeouts;
  impl->limits = spec.limits;
  impl->keep_raw = spec.keep_raw;
  impl->redactor = Redactor(spec.headers);
  KeepReceiveStampsOn();
  return PreparedRequest(std::move(impl));
}

Connection::Connection() : impl_(std::make_unique<Impl>()) {}
Connection::~Connection() = default;
Connection::Connection(Connection&&) noexcept = default;
Connection& Connection::operator=(Connection&&) noexcept = default;

bool Connection::open() const { return impl_->transport != nullptr; }
void Connection::Close() { impl_->transport.reset(); }

Exchange Perform(const PreparedRequest& request, const PerformOptions& options, Connection* kept) {
  if (options.intended_send) RealClock().SleepUntil(*options.intended_send);
  return Performer(request.impl(), options).Run(kept);
}

}  // namespace rouse::wire
