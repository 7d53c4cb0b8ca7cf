#include "support/scripted_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/check.h"
#include "base/strings.h"

namespace rouse::testing {

Step ReadRequest() { return {.kind = Step::Kind::kReadRequest, .bytes = "", .pause_ns = 0}; }
Step Send(std::string bytes) {
  return {.kind = Step::Kind::kSend, .bytes = std::move(bytes), .pause_ns = 0};
}
Step PauseFor(int64_t ns) { return {.kind = Step::Kind::kPause, .bytes = "", .pause_ns = ns}; }
Step Reset() { return {.kind = Step::Kind::kReset, .bytes = "", .pause_ns = 0}; }
Step Hold() { return {.kind = Step::Kind::kHold, .bytes = "", .pause_ns = 0}; }

std::string Head(std::string_view fields, std::string_view status) {
  return "HTTP/1.1 " + std::string(status) + "\r\n" + std::string(fields) + "\r\n";
}

std::string Chunk(std::string_view bytes) {
  std::array<char, 16> size{};
  const auto [end, error] = std::to_chars(size.data(), size.data() + size.size(), bytes.size(), 16);
  CHECK(error == std::errc());
  return std::string(size.data(), end) + "\r\n" + std::string(bytes) + "\r\n";
}

// ---- TLS ----------------------------------------------------------------------------------------

struct ScriptedServer::Tls {
  ~Tls() { SSL_CTX_free(context); }
  SSL_CTX* context = nullptr;
};

namespace {

X509* MakeCertificate(EVP_PKEY* key) {
  X509* const certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* const name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("rouse test"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_EXTENSION* const names = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name,
                                                    "DNS:localhost,IP:127.0.0.1,IP:::1");
  X509_add_ext(certificate, names, -1);
  X509_EXTENSION_free(names);
  CHECK(X509_sign(certificate, key, EVP_sha256()) > 0);
  return certificate;
}

// A context with a fresh key; the certificate goes into `file`.
SSL_CTX* MakeServerContext(const std::string& file) {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  CHECK(key != nullptr);
  X509* const certificate = MakeCertificate(key);
  SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
  CHECK(SSL_CTX_use_certificate(context, certificate) == 1);
  CHECK(SSL_CTX_use_PrivateKey(context, key) == 1);
  std::FILE* const out = std::fopen(file.c_str(), "w");
  CHECK(out != nullptr);
  PEM_write_X509(out, certificate);
  std::fclose(out);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return context;
}

std::string TemporaryName(std::string_view suffix) {
  static std::atomic<int> counter{0};
  return "/tmp/rouse-scripted-" + std::to_string(getpid()) + "-" + std::to_string(counter++) +
         std::string(suffix);
}

}  // namespace

// ---- One connection -----------------------------------------------------------------------------

struct ScriptedServer::Connection {
  ~Connection() {
    if (thread.joinable()) thread.join();
    SSL_free(ssl);
  }

  ssize_t Receive(char* data, size_t size) {
    if (ssl != nullptr) return SSL_read(ssl, data, static_cast<int>(size));
    return recv(socket.get(), data, size, 0);
  }

  bool SendAll(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ssl != nullptr
                                ? SSL_write(ssl, bytes.data(), static_cast<int>(bytes.size()))
                                : send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return true;
  }

  // Whether the wait passed without the server being stopped.
  bool Wait(int64_t ns) {
    const MonoTime deadline = MonoNow() + ns;
    for (;;) {
      const int64_t left_ns = deadline - MonoNow();
      if (left_ns <= 0) return true;
      pollfd polled{.fd = stop_fd, .events = POLLIN, .revents = 0};
      const timespec timeout{.tv_sec = static_cast<time_t>(left_ns / kNsPerSecond),
                             .tv_nsec = static_cast<long>(left_ns % kNsPerSecond)};
      if (ppoll(&polled, 1, &timeout, nullptr) > 0) return false;
    }
  }

  // Until the client closes (bytes are thrown away) or the server is stopped.
  void HoldOpen() {
    for (;;) {
      std::array<pollfd, 2> polled{{{.fd = stop_fd, .events = POLLIN, .revents = 0},
                                    {.fd = socket.get(), .events = POLLIN, .revents = 0}}};
      if (poll(polled.data(), polled.size(), -1) < 0) return;
      if (polled[0].revents != 0) return;
      std::array<char, 4096> buffer;
      if (recv(socket.get(), buffer.data(), buffer.size(), 0) <= 0) return;
    }
  }

  bool ReadOneRequest() {
    size_t wanted = std::string::npos;
    while (buffered.size() < wanted) {
      if (wanted == std::string::npos) {
        const size_t head = buffered.find("\r\n\r\n");
        if (head != std::string::npos) {
          wanted = head + 4 + ContentLength(buffered.substr(0, head));
          continue;
        }
      }
      std::array<char, 65536> buffer;
      const ssize_t count = Receive(buffer.data(), buffer.size());
      if (count <= 0) return false;
      buffered.append(buffer.data(), static_cast<size_t>(count));
    }
    log.requests.push_back(buffered.substr(0, wanted));
    buffered.erase(0, wanted);
    return true;
  }

  static size_t ContentLength(std::string_view head) {
    for (const std::string_view line : SplitAt(head, '\n')) {
      const size_t colon = line.find(':');
      if (LowerAscii(line.substr(0, colon)) != "content-length") continue;
      return static_cast<size_t>(ParseInt64(TrimBlanks(line.substr(colon + 1))).value_or(0));
    }
    return 0;
  }

  // Both may be called from another thread than the one that plays the script.
  void Close() {
    const std::lock_guard lock(close_mutex);
    socket.Reset();
  }
  void Shutdown() {
    const std::lock_guard lock(close_mutex);
    if (socket.valid()) shutdown(socket.get(), SHUT_RDWR);
  }

  std::mutex close_mutex;
  Fd socket;
  int stop_fd = -1;
  SSL* ssl = nullptr;
  std::string buffered;
  ConnectionLog log;
  std::atomic<bool> done{false};
  std::thread thread;
};

void ScriptedServer::Play(Connection& connection, const Script& script) {
  if (connection.ssl != nullptr && SSL_accept(connection.ssl) != 1) return connection.Close();
  bool alive = true;
  for (const Step& step : script) {
    switch (step.kind) {
      case Step::Kind::kReadRequest:
        alive = connection.ReadOneRequest();
        break;
      case Step::Kind::kSend: {
        SendStamp stamp;
        stamp.before = MonoNow();
        alive = connection.SendAll(step.bytes);
        stamp.after = MonoNow();
        connection.log.sends.push_back(stamp);
        break;
      }
      case Step::Kind::kPause:
        alive = connection.Wait(step.pause_ns);
        break;
      case Step::Kind::kReset: {
        const linger hard{.l_onoff = 1, .l_linger = 0};
        setsockopt(connection.socket.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        alive = false;
        break;
      }
      case Step::Kind::kHold:
        connection.HoldOpen();
        break;
    }
    if (!alive) break;
  }
  if (connection.ssl != nullptr && alive) SSL_shutdown(connection.ssl);
  connection.Close();
}

// ---- The server ---------------------------------------------------------------------------------

ScriptedServer::ScriptedServer(std::vector<Script> scripts, ServerOptions options)
    : scripts_(std::move(scripts)), stop_(eventfd(0, EFD_CLOEXEC)) {
  CHECK(!scripts_.empty());
  std::signal(SIGPIPE, SIG_IGN);  // a client that closed early is no reason to die
  if (options.tls) {
    certificate_file_ = TemporaryName(".pem");
    tls_ = std::make_unique<Tls>();
    tls_->context = MakeServerContext(certificate_file_);
  }
  Listen(options);
  acceptor_ = std::thread([this] { AcceptLoop(); });
}

ScriptedServer::~ScriptedServer() {
  const uint64_t one = 1;
  CHECK(write(stop_.get(), &one, sizeof one) == sizeof one);
  acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    // Wakes threads that wait in recv or send.
    for (const auto& connection : connections_) connection->Shutdown();
  }
  connections_.clear();
  if (!socket_path_.empty()) unlink(socket_path_.c_str());
  if (!certificate_file_.empty()) unlink(certificate_file_.c_str());
}

void ScriptedServer::Listen(const ServerOptions& options) {
  using Family = ServerOptions::Family;
  const std::string scheme = options.tls ? "https://" : "http://";
  sockaddr_storage storage{};
  socklen_t size = 0;
  int domain = AF_INET;
  if (options.family == Family::kUnix) {
    domain = AF_UNIX;
    socket_path_ = TemporaryName(".sock");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, socket_path_.data(), socket_path_.size());
    size = sizeof address;
    std::memcpy(&storage, &address, size);
  } else if (options.family == Family::kIpv6) {
    domain = AF_INET6;
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_loopback;
    size = sizeof address;
    std::memcpy(&storage, &address, size);
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    size = sizeof address;
    std::memcpy(&storage, &address, size);
  }
  listener_ = Fd(socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0));
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  CHECK(bind(listener_.get(), address, size) == 0);
  CHECK(listen(listener_.get(), 128) == 0);
  if (options.family == Family::kUnix) {
    url_ = "unix:" + socket_path_;
    return;
  }
  CHECK(getsockname(listener_.get(), address, &size) == 0);
  port_ = ntohs(domain == AF_INET ? reinterpret_cast<sockaddr_in*>(&storage)->sin_port
                                  : reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port);
  url_ = scheme + (domain == AF_INET ? "127.0.0.1:" : "[::1]:") + std::to_string(port_);
}

void ScriptedServer::AcceptLoop() {
  for (size_t index = 0;; ++index) {
    std::array<pollfd, 2> polled{{{.fd = stop_.get(), .events = POLLIN, .revents = 0},
                                  {.fd = listener_.get(), .events = POLLIN, .revents = 0}}};
    if (poll(polled.data(), polled.size(), -1) < 0 || polled[0].revents != 0) return;
    Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.valid()) continue;
    const int on = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    auto connection = std::make_unique<Connection>();
    connection->socket = std::move(socket);
    connection->stop_fd = stop_.get();
    if (tls_ != nullptr) {
      connection->ssl = SSL_new(tls_->context);
      SSL_set_fd(connection->ssl, connection->socket.get());
    }
    const Script& script = scripts_[std::min(index, scripts_.size() - 1)];
    Connection& ref = *connection;
    const std::lock_guard lock(mutex_);
    connections_.push_back(std::move(connection));
    ref.thread = std::thread([this, &ref, &script] {
      Play(ref, script);
      ref.done = true;
    });
  }
}

size_t ScriptedServer::connection_count() const {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

ConnectionLog ScriptedServer::Log(size_t index) const {
  const MonoTime deadline = MonoNow() + 10 * kNsPerSecond;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (index < connections_.size() && connections_[index]->done) return connections_[index]->log;
    }
    CHECK(MonoNow() < deadline);
    RealClock().SleepFor(kNsPerMs);
  }
}

}  // namespace rouse::testing
