#include "http/connection.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <tuple>
#include <utility>

#include "http/message.h"

namespace rouse::http {
namespace {

using boost::asio::ip::tcp;

constexpr size_t kReadBytes = size_t{64} * 1024;
// What a client may send ahead while its request is being answered; then it has to wait.
constexpr size_t kReadAheadBytes = size_t{64} * 1024;
constexpr int64_t kLingerNs = 2 * kNsPerSecond;
constexpr int64_t kDrainLingerNs = 200 * kNsPerMs;

std::string DescribeRemote(const tcp::socket& socket) {
  boost::system::error_code code;
  const tcp::endpoint remote = socket.remote_endpoint(code);
  if (code) return "";
  const std::string address = remote.address().to_string();
  const std::string port = std::to_string(remote.port());
  return remote.address().is_v6() ? "[" + address + "]:" + port : address + ":" + port;
}

Response RenderError(const ServerOptions& options, int status, std::string_view message) {
  return options.render_error ? options.render_error(status, message)
                              : ErrorResponse(status, message);
}

}  // namespace

Connection::Connection(std::shared_ptr<const ConnectionContext> context, tcp::socket socket,
                       MonoTime accepted, std::function<void(Connection*)> on_closed)
    : context_(std::move(context)),
      socket_(std::move(socket)),
      deadline_(*context_->io),
      stall_(*context_->io),
      on_closed_(std::move(on_closed)),
      remote_(DescribeRemote(socket_)),
      accepted_(accepted) {
  boost::system::error_code ignored;
  std::ignore = socket_.set_option(tcp::no_delay(true), ignored);
  std::ignore = socket_.non_blocking(true, ignored);
}

void Connection::MakeOutbox() {
  // The hooks come from any thread, and possibly after this object's end.
  const auto post = [io = context_->io, weak = weak_from_this()](auto method, auto... arguments) {
    boost::asio::post(*io, [weak, method, arguments...] {
      if (const auto self = weak.lock()) (self.get()->*method)(arguments...);
    });
  };
  Outbox::Hooks hooks;
  hooks.needs_flush = [post] { post(&Connection::WaitWritable); };
  hooks.broken = [post] { post(&Connection::Close); };
  hooks.response_done = [post](bool reusable) { post(&Connection::OnResponseDone, reusable); };
  outbox_ = std::make_shared<Outbox>(socket_.native_handle(),
                                     context_->options.write_buffer_limit_bytes, std::move(hooks));
}

void Connection::Start() {
  MakeOutbox();
  parser_ = std::make_unique<RequestParser>(context_->options.header_limit_bytes,
                                            context_->options.body_limit_bytes);
  SetDeadline(context_->options.idle_timeout_ns);
  // The request is often there already.
  OnReadable();
}

void Connection::Refuse() {
  MakeOutbox();
  Fail({503, "this server's limit of connections is reached"});
}

void Connection::Drain() {
  draining_ = true;
  if (outbox_) outbox_->StopReusing();
  if (mode_ != Mode::kReading) return;
  // What the client had sent before the drain began is still answered.
  OnReadable();
  if (mode_ == Mode::kReading && !request_begun_) Close();
}

void Connection::Close() {
  if (mode_ == Mode::kClosed) return;
  mode_ = Mode::kClosed;
  const auto self = shared_from_this();
  deadline_.cancel();
  stall_.cancel();
  outbox_->Close();
  boost::system::error_code ignored;
  std::ignore = socket_.close(ignored);
  on_closed_(this);
}

void Connection::WaitReadable() {
  if (waiting_readable_ || mode_ == Mode::kClosed) return;
  if (mode_ == Mode::kBusy && input_.size() >= kReadAheadBytes) return;
  waiting_readable_ = true;
  socket_.async_wait(tcp::socket::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& code) {
                       self->waiting_readable_ = false;
                       if (!code) self->OnReadable();
                     });
}

void Connection::OnReadable() {
  if (mode_ == Mode::kClosed) return;
  if (ReadSome() && mode_ == Mode::kReading) ParseInput();
  WaitReadable();
}

bool Connection::ReadSome() {
  // One buffer for all connections: this is the only thread that reads.
  static thread_local std::array<char, kReadBytes> buffer;
  ssize_t length = 0;
  do {
    length = ::recv(socket_.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  } while (length < 0 && errno == EINTR);
  const MonoTime now = MonoNow();
  if (length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (length <= 0) {
    Close();
    return false;
  }
  if (mode_ == Mode::kLingering) return false;
  if (!request_begun_) {
    request_begun_ = true;
    first_byte_ = now;
    if (mode_ == Mode::kReading) SetDeadline(context_->options.request_timeout_ns);
    if (context_->first_bytes) {
      context_->first_bytes(std::string_view(buffer.data(), static_cast<size_t>(length)));
    }
  }
  last_read_ = now;
  input_.append(buffer.data(), static_cast<size_t>(length));
  return true;
}

void Connection::ParseInput() {
  const size_t used = parser_->Feed(input_);
  input_.erase(0, used);
  switch (parser_->state()) {
    case RequestParser::State::kComplete:
      return Dispatch();
    case RequestParser::State::kFailed:
      return Fail(parser_->failure());
    case RequestParser::State::kNeedsMore:
      if (parser_->WantsContinue() && !continue_sent_) {
        continue_sent_ = true;
        outbox_->SendInterim(kContinue);
      }
      return;
  }
}

void Connection::Dispatch() {
  Request request = parser_->Take();
  request.remote = remote_;
  request.times = {accepted_, first_byte_, last_read_, first_request_};
  first_request_ = false;
  // Of several requests in one read, the later ones came with it.
  request_begun_ = !input_.empty();
  first_byte_ = last_read_;
  deadline_.cancel();
  mode_ = Mode::kBusy;
  const Outbox::Traits traits = {.keep_alive = parser_->KeepAlive() && !draining_,
                                 .http10 = parser_->IsHttp10(),
                                 .omit_body = request.method == "HEAD"};
  auto writer = outbox_->NewResponse(
      traits, RenderError(context_->options, 500, "the request was dropped by the server"));
  context_->handler(std::move(request), std::move(writer));
}

void Connection::Fail(const ParseFailure& failure) {
  mode_ = Mode::kBusy;
  const auto writer = outbox_->NewResponse({.keep_alive = false}, {});
  writer->Send(RenderError(context_->options, failure.status, failure.message));
}

void Connection::OnResponseDone(bool reusable) {
  if (mode_ == Mode::kClosed) return;
  if (!reusable || draining_) return Linger();
  mode_ = Mode::kReading;
  continue_sent_ = false;
  parser_ = std::make_unique<RequestParser>(context_->options.header_limit_bytes,
                                            context_->options.body_limit_bytes);
  if (request_begun_) {
    SetDeadline(context_->options.request_timeout_ns);
    ParseInput();
  } else {
    SetDeadline(context_->options.idle_timeout_ns);
  }
  WaitReadable();
}

void Connection::Linger() {
  // Closing with unread input would make the kernel send a reset, which can destroy the answer on
  // its way. So: say that no more comes, and read until the client closes or time is up.
  mode_ = Mode::kLingering;
  input_.clear();
  boost::system::error_code ignored;
  std::ignore = socket_.shutdown(tcp::socket::shutdown_send, ignored);
  SetDeadline(draining_ ? kDrainLingerNs : kLingerNs);
  WaitReadable();
}

void Connection::WaitWritable() {
  if (waiting_writable_ || mode_ == Mode::kClosed) return;
  waiting_writable_ = true;
  stall_.expires_after(std::chrono::nanoseconds(context_->options.write_stall_timeout_ns));
  stall_.async_wait([weak = weak_from_this()](const boost::system::error_code& code) {
    const auto self = weak.lock();
    if (!code && self) self->Close();
  });
  socket_.async_wait(tcp::socket::wait_write,
                     [self = shared_from_this()](const boost::system::error_code& code) {
                       self->waiting_writable_ = false;
                       if (!code) self->OnWritable();
                     });
}

void Connection::OnWritable() {
  if (mode_ == Mode::kClosed) return;
  stall_.cancel();
  switch (outbox_->Flush()) {
    case Outbox::Flushed::kBroken:
      return Close();
    case Outbox::Flushed::kSome:
    case Outbox::Flushed::kNone:
      return WaitWritable();
    case Outbox::Flushed::kAll:
      return;
  }
}

void Connection::SetDeadline(int64_t after_ns) {
  deadline_.expires_after(std::chrono::nanoseconds(after_ns));
  deadline_.async_wait([weak = weak_from_this()](const boost::system::error_code& code) {
    const auto self = weak.lock();
    if (!code && self) self->OnDeadline();
  });
}

void Connection::OnDeadline() {
  if (deadline_.expiry() > std::chrono::steady_clock::now()) return;  // was set anew meanwhile
  if (mode_ == Mode::kReading && request_begun_) {
    return Fail({408, "the request took too long to arrive"});
  }
  if (mode_ != Mode::kBusy) Close();
}

}  // namespace rouse::http
