#include "wire/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>

namespace rouse::wire {
namespace {

constexpr size_t kRecordBufferBytes = size_t{64} << 10;
constexpr std::array<unsigned char, 9> kAlpn = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

std::string LibraryError(std::string_view what) {
  std::array<char, 256> text{};
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return std::string(what);
  ERR_error_string_n(code, text.data(), text.size());
  return std::string(what) + ": " + text.data();
}

bool IsIpAddress(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes;
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

struct SslDeleter {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using SslPtr = std::unique_ptr<SSL, SslDeleter>;

// The library reads from and writes to memory; this class moves the bytes, so that each socket read
// can be stamped.
class TlsTransport final : public Transport {
 public:
  TlsTransport(SslPtr ssl, std::unique_ptr<Transport> socket)
      : ssl_(std::move(ssl)), socket_(std::move(socket)), record_(kRecordBufferBytes) {}

  TlsResult Handshake(const Wait& wait) {
    for (;;) {
      const int code = SSL_do_handshake(ssl_.get());
      const int why = SSL_get_error(ssl_.get(), code);
      IoResult sent = Flush(wait);
      if (sent.kind != IoKind::kBytes) return Failed(sent);
      if (code == 1) {
        return {nullptr, IoKind::kBytes, "", SSL_get_version(ssl_.get()), MonoNow()};
      }
      if (why != SSL_ERROR_WANT_READ) return FailedHandshake();
      const IoResult got = Fill(wait);
      if (got.kind != IoKind::kBytes) return Failed(got);
    }
  }

  IoResult Read(std::span<char> buffer, const Wait& wait) override {
    for (;;) {
      size_t count = 0;
      const int code = SSL_read_ex(ssl_.get(), buffer.data(), buffer.size(), &count);
      if (code == 1) {
        return {IoKind::kBytes, count, last_.at, last_.kernel_delay_ns, ""};
      }
      const int why = SSL_get_error(ssl_.get(), code);
      if (why == SSL_ERROR_ZERO_RETURN) return {IoKind::kClosed, 0, last_.at, {}, ""};
      if (why != SSL_ERROR_WANT_READ) {
        return {IoKind::kReset, 0, MonoNow(), {}, LibraryError("TLS")};
      }
      // Answers to key updates, if any.
      IoResult sent = Flush(wait);
      if (sent.kind != IoKind::kBytes) return sent;
      IoResult got = Fill(wait);
      if (got.kind != IoKind::kBytes) return got;
    }
  }

  IoResult Write(std::string_view bytes, const Wait& wait) override {
    size_t count = 0;
    if (SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &count) != 1) {
      return {IoKind::kReset, 0, MonoNow(), {}, LibraryError("TLS")};
    }
    IoResult sent = Flush(wait);
    if (sent.kind == IoKind::kBytes) sent.bytes = count;
    return sent;
  }

  // Session tickets may wait unread on a healthy connection: they are taken in here.
  bool IsQuiet() override {
    while (!socket_->IsQuiet()) {
      if (Fill({.deadline = MonoNow(), .interrupt = nullptr}).kind != IoKind::kBytes) return false;
      char byte = 0;
      size_t count = 0;
      const int code = SSL_peek_ex(ssl_.get(), &byte, 1, &count);
      if (code == 1 || SSL_get_error(ssl_.get(), code) != SSL_ERROR_WANT_READ) return false;
    }
    return true;
  }

  std::optional<int64_t> RoundTripNs() override { return socket_->RoundTripNs(); }

 private:
  // What the library wants sent, to the socket.
  IoResult Flush(const Wait& wait) {
    BIO* const out = SSL_get_wbio(ssl_.get());
    char* data = nullptr;
    const long size = BIO_get_mem_data(out, &data);
    if (size <= 0) {
      return {
          .kind = IoKind::kBytes, .bytes = 0, .at = MonoNow(), .kernel_delay_ns = {}, .error = ""};
    }
    IoResult sent = socket_->Write({data, static_cast<size_t>(size)}, wait);
    static_cast<void>(BIO_reset(out));
    return sent;
  }

  // One socket read, to the library.
  IoResult Fill(const Wait& wait) {
    last_ = socket_->Read(record_, wait);
    if (last_.kind == IoKind::kBytes) {
      BIO_write(SSL_get_rbio(ssl_.get()), record_.data(), static_cast<int>(last_.bytes));
    }
    return last_;
  }

  static TlsResult Failed(const IoResult& result) {
    std::string error = result.error;
    if (result.kind == IoKind::kClosed) error = "the server closed during the TLS handshake";
    return {nullptr, result.kind, std::move(error), "", result.at};
  }

  TlsResult FailedHandshake() {
    const long verified = SSL_get_verify_result(ssl_.get());
    std::string error = LibraryError("TLS handshake");
    if (verified != X509_V_OK) {
      error = std::string("certificate not accepted: ") + X509_verify_cert_error_string(verified) +
              " (--insecure accepts any)";
    }
    return {nullptr, IoKind::kReset, std::move(error), "", MonoNow()};
  }

  SslPtr ssl_;
  std::unique_ptr<Transport> socket_;
  std::vector<char> record_;
  IoResult last_;
};

}  // namespace

struct TlsContext::Impl {
  ~Impl() { SSL_CTX_free(context); }
  SSL_CTX* context = nullptr;
};

TlsContext::TlsContext(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsContext::~TlsContext() = default;

Result<std::shared_ptr<const TlsContext>> MakeTlsContext(bool insecure) {
  auto impl = std::make_unique<TlsContext::Impl>();
  impl->context = SSL_CTX_new(TLS_client_method());
  if (impl->context == nullptr) {
    return Error(ErrorCode::kInternal, LibraryError("cannot set up TLS"));
  }
  SSL_CTX_set_min_proto_version(impl->context, TLS1_2_VERSION);
  SSL_CTX_set_verify(impl->context, insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  if (!insecure && SSL_CTX_set_default_verify_paths(impl->context) != 1) {
    return Error(ErrorCode::kIo, LibraryError("cannot read the certificate store"));
  }
  SSL_CTX_set_alpn_protos(impl->context, kAlpn.data(), kAlpn.size());
  return std::shared_ptr<const TlsContext>(std::make_shared<TlsContext>(std::move(impl)));
}

TlsResult HandshakeTls(const TlsContext& context, std::unique_ptr<Transport> socket,
                       const std::string& host, const Wait& wait) {
  SslPtr ssl(SSL_new(context.impl().context));
  if (ssl == nullptr) return {nullptr, IoKind::kReset, LibraryError("TLS"), "", MonoNow()};
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  // An empty memory means "more later", not the end.
  BIO_set_mem_eof_return(SSL_get_rbio(ssl.get()), -1);
  SSL_set_connect_state(ssl.get());
  if (IsIpAddress(host)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl.get()), host.c_str());
  } else {
    SSL_set_tlsext_host_name(ssl.get(), host.c_str());
    SSL_set1_host(ssl.get(), host.c_str());
  }
  auto transport = std::make_unique<TlsTransport>(std::move(ssl), std::move(socket));
  TlsResult result = transport->Handshake(wait);
  if (result.kind == IoKind::kBytes) result.transport = std::move(transport);
  return result;
}

}  // namespace rouse::wire
