// TLS over a socket, by OpenSSL: a Transport whose reads carry the stamp of the socket read that
// brought their last byte, not of the decryption. Certificates are verified against the system's
// store (SSL_CERT_FILE and SSL_CERT_DIR are honoured) and the host's name or address.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "wire/transport.h"

namespace rouse::wire {

// The certificates and settings: slow to load (tens of ms), shared by many connections.
class TlsContext {
 public:
  struct Impl;
  explicit TlsContext(std::unique_ptr<Impl> impl);
  ~TlsContext();

  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// kPermission or kIo when the CA store can't be read (not when it is empty).
Result<std::shared_ptr<const TlsContext>> MakeTlsContext(bool insecure);

struct TlsResult {
  std::unique_ptr<Transport> transport;  // null: see kind and error
  IoKind kind = IoKind::kReset;
  std::string error;
  std::string version;  // "TLSv1.3"
  MonoTime at;          // handshake done, or gave up
};

// The handshake over `socket`. `host` is verified (a name also goes into SNI).
TlsResult HandshakeTls(const TlsContext& context, std::unique_ptr<Transport> socket,
                       const std::string& host, const Wait& wait);

}  // namespace rouse::wire
