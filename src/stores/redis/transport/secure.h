// TLS as an address asks for it: the trusted certificates, our own certificate, and the expected
// name; and the parts that a server of TLS shares with a client.
//
// Guarantee: TLS 1.2 or later; the server's certificate is checked against the trusted ones and
// against `tls_name` or the host (names and IP addresses); nothing ever asks on the terminal for a
// key's passphrase.
// Thread-safety: safe once made. Ownership: sessions share the parts of the context that they need.
// Errors: kInvalidArgument or kPermissionDenied, naming the file.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <openssl/types.h>

#include "holdfast/result.h"
#include "src/stores/redis/url.h"

namespace holdfast::stores::redis {

struct SslDeleter {
  void operator()(SSL* session) const noexcept;
  void operator()(SSL_CTX* context) const noexcept;
};
using SslSession = std::unique_ptr<SSL, SslDeleter>;

using SslContext = std::unique_ptr<SSL_CTX, SslDeleter>;

// A socket as a session uses it.
struct TlsSocket {
  std::atomic<int> fd{-1};
  int recv_flags = 0;
};
// Makes the session read and write there, without SIGPIPE (OpenSSL's own way uses write()). The
// socket outlives the session.
void use_socket(SSL* session, TlsSocket& socket);

enum class TlsSide { kClient, kServer };
// A context with the rules that hold for both sides: TLS 1.2 or later, and no questions on the
// terminal.
Result<SslContext> make_context(TlsSide side);

// The settings that named a certificate and its key: for messages.
struct IdentityNames {
  const char* cert;
  const char* key;
};
// An empty `key`: the certificate's file has it, too.
Result<void> load_identity(SSL_CTX* context, const std::string& cert, const std::string& key,
                           IdentityNames names);

class TlsContext {
 public:
  static Result<std::shared_ptr<const TlsContext>> make(const RedisAddress& address);

  // A client's session without a socket. It checks the server's name. `announced`: the name to
  // expect where the URL names neither tls_name nor the server itself; empty: the URL's host.
  Result<SslSession> session(const std::string& announced) const;

 private:
  explicit TlsContext(SslContext context) : context_(std::move(context)) {}
  SslContext context_;
  std::string expected_;
  bool named_ = false;  // By tls_name.
};

// Why the last call on `session` failed, and what to do about it.
Error tls_error(SSL* session, std::string_view where);

}  // namespace holdfast::stores::redis
