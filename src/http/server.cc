// The listening socket, the accept loop and the I/O thread.
#include "http/server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/fd.h"
#include "base/strings.h"
#include "http/connection.h"

namespace rouse::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr int kBacklog = 512;
constexpr auto kAcceptRetry = std::chrono::milliseconds(50);

struct Listening {
  Fd fd;
  bool v6 = false;
  std::string host;
  int port = 0;
};

std::string Place(const ServerOptions& options) {
  return options.host + " port " + std::to_string(options.port);
}

Error ListenError(int error_number, const ServerOptions& options) {
  const std::string where = "cannot listen on " + Place(options) + ": ";
  switch (error_number) {
    case EADDRINUSE:
      return {ErrorCode::kState, where +
                                     "another program listens there; choose another --port "
                                     "(0 picks a free one)"};
    case EADDRNOTAVAIL:
      return {ErrorCode::kState, where + "this machine has no such address; check --host"};
    case EACCES:
      return {ErrorCode::kPermission,
              where + "the kernel refuses; ports below 1024 need a privilege, check --port"};
    default:
      return Error::FromErrno(error_number, "cannot listen on " + Place(options));
  }
}

Result<Listening> ListenOn(const addrinfo& address, const ServerOptions& options) {
  Listening listening;
  listening.fd.Reset(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int fd = listening.fd.get();
  if (fd < 0) return ListenError(errno, options);
  const int on = 1;
  // A port whose old connections are still closing can be used again at once; one that another
  // program listens on cannot.
  if (::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
    return ListenError(errno, options);
  }
  if (::bind(fd, address.ai_addr, address.ai_addrlen) != 0) return ListenError(errno, options);
  if (::listen(fd, kBacklog) != 0) return ListenError(errno, options);

  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    return ListenError(errno, options);
  }
  char host[NI_MAXHOST] = "";
  char port[NI_MAXSERV] = "";
  if (::getnameinfo(reinterpret_cast<sockaddr*>(&bound), length, host, sizeof host, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return ListenError(EINVAL, options);
  }
  listening.v6 = address.ai_family == AF_INET6;
  listening.host = host;
  listening.port = static_cast<int>(ParseInt64(port).value_or(0));
  return listening;
}

Result<Listening> ListenAt(const ServerOptions& options) {
  if (options.port < 0 || options.port > 65535) {
    return Error(ErrorCode::kUsage, "--port must be from 0 to 65535");
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(options.port);
  const int code = ::getaddrinfo(options.host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) {
    return Error(
        ErrorCode::kNotFound,
        "--host " + options.host + " is no address of this machine: " + ::gai_strerror(code));
  }
  // A name may have several addresses ("localhost" has two): the first that works is taken.
  Result<Listening> result = Error(ErrorCode::kNotFound, "--host " + options.host);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    result = ListenOn(*address, options);
    if (result.ok() || result.error().code() == ErrorCode::kState) break;
  }
  ::freeaddrinfo(found);
  return result;
}

class AsioServer : public Server {
 public:
  AsioServer(ServerOptions options, Listening listening)
      : host_(std::move(listening.host)),
        port_(listening.port),
        io_(std::make_shared<asio::io_context>(1)),
        work_(io_->get_executor()),
        acceptor_(*io_),
        retry_(*io_) {
    context_ = std::make_shared<ConnectionContext>();
    context_->io = io_;
    context_->options = std::move(options);
    acceptor_.assign(listening.v6 ? tcp::v6() : tcp::v4(), listening.fd.Release());
    acceptor_.non_blocking(true);
  }

  ~AsioServer() override { Stop(); }

  int port() const override { return port_; }
  std::string host() const override { return host_; }
  int64_t ConnectionCount() const override { return connection_count_.load(); }

  void Start(Handler handler, FirstBytes first_bytes) override {
    CHECK(!thread_.joinable());
    context_->handler = std::move(handler);
    context_->first_bytes = std::move(first_bytes);
    asio::post(*io_, [this] { Accept(); });
    thread_ = std::thread([this] { Run(); });
  }

  void Drain(std::function<void()> drained) override {
    asio::post(*io_, [this, drained = std::move(drained)]() mutable {
      draining_ = true;
      drained_ = std::move(drained);
      boost::system::error_code ignored;
      std::ignore = acceptor_.close(ignored);
      retry_.cancel();
      for (const auto& connection : Connections()) connection->Drain();
      TellIfDrained();
    });
  }

  void Stop() override {
    if (!thread_.joinable()) return;
    asio::post(*io_, [this] {
      stopping_ = true;
      boost::system::error_code ignored;
      std::ignore = acceptor_.close(ignored);
      for (const auto& connection : Connections()) connection->Close();
      // Handlers that are queued still run, so that no connection outlives them by a cycle.
      work_.reset();
      retry_.cancel();
    });
    thread_.join();
  }

 private:
  std::vector<std::shared_ptr<Connection>> Connections() const {
    std::vector<std::shared_ptr<Connection>> all;
    for (const auto& [key, connection] : connections_) all.push_back(connection);
    return all;
  }

  void Run() {
    pthread_setname_np(pthread_self(), "rouse-io");
    bool ended = false;
    while (!ended) {
      try {
        io_->run();
        ended = true;
      } catch (const std::exception&) {
        // Out of memory in one connection's work: that connection ends at its deadline, the others
        // go on.
        ended = false;
      }
    }
  }

  void Accept() {
    if (!acceptor_.is_open()) return;
    acceptor_.async_accept([this](const boost::system::error_code& code, tcp::socket socket) {
      const MonoTime now = MonoNow();
      if (code == asio::error::operation_aborted || stopping_) return;
      if (code) {
        // Out of descriptors or memory: the connection stays in the kernel's queue meanwhile.
        retry_.expires_after(kAcceptRetry);
        retry_.async_wait([this](const boost::system::error_code& cancelled) {
          if (!cancelled) Accept();
        });
        return;
      }
      Add(std::move(socket), now);
      Accept();
    });
  }

  void Add(tcp::socket socket, MonoTime accepted) {
    const bool full = connection_count_.load() >= context_->options.connection_limit;
    auto connection = std::make_shared<Connection>(context_, std::move(socket), accepted,
                                                   [this](Connection* closed) {
                                                     connections_.erase(closed);
                                                     --connection_count_;
                                                     TellIfDrained();
                                                   });
    connections_.emplace(connection.get(), connection);
    ++connection_count_;
    if (full) {
      connection->Refuse();
    } else {
      connection->Start();
      if (draining_) connection->Drain();
    }
  }

  void TellIfDrained() {
    if (draining_ && connections_.empty() && drained_) std::exchange(drained_, nullptr)();
  }

  const std::string host_;
  const int port_;
  std::shared_ptr<asio::io_context> io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  std::shared_ptr<ConnectionContext> context_;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections_;  // I/O thread only
  std::atomic<int64_t> connection_count_{0};
  bool draining_ = false;
  bool stopping_ = false;
  std::function<void()> drained_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Listen(ServerOptions options) {
  ASSIGN_OR_RETURN(Listening listening, ListenAt(options));
  try {
    return std::unique_ptr<Server>(
        std::make_unique<AsioServer>(std::move(options), std::move(listening)));
  } catch (const std::exception& exception) {
    return Error(ErrorCode::kInternal, std::string("cannot listen: ") + exception.what());
  }
}

}  // namespace rouse::http
