// TLS as an address asks for it: whom to trust, what to show, which name to expect.
//
// Guarantee: TLS 1.2 or later; the server's certificate is checked against the trusted ones and
// against `tls_name` or the host (names and IP addresses); nothing ever asks on the terminal for a
// key's passphrase.
// Thread-safety: safe once made. Ownership: sessions share what they need of the context.
// Errors: kInvalidArgument or kPermissionDenied, naming the file.
#pragma once

#include <memory>

#include <openssl/types.h>

#include "holdfast/result.h"
#include "src/stores/redis/url.h"

namespace holdfast::stores::redis {

struct SslDeleter {
  void operator()(SSL* session) const noexcept;
  void operator()(SSL_CTX* context) const noexcept;
};
using SslSession = std::unique_ptr<SSL, SslDeleter>;

class TlsContext {
 public:
  static Result<std::shared_ptr<const TlsContext>> make(const RedisAddress& address);

  // A client's session, not yet over anything; it expects the right name of the server.
  Result<SslSession> session() const;

 private:
  explicit TlsContext(SSL_CTX* context) : context_(context) {}
  std::unique_ptr<SSL_CTX, SslDeleter> context_;
  std::string expected_;
};

// Why the last call on `session` failed: which check, and what to do.
Error tls_error(SSL* session, std::string_view where);

}  // namespace holdfast::stores::redis
