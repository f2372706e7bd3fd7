#include "src/stores/redis/transport/secure.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

namespace holdfast::stores::redis {
namespace {

struct SocketBio {
  static const TlsSocket& socket_of(BIO* bio) {
    return *static_cast<const TlsSocket*>(BIO_get_data(bio));
  }

  static int write(BIO* bio, const char* bytes, int size) {
    BIO_clear_retry_flags(bio);
    const ssize_t sent = ::send(socket_of(bio).fd, bytes, static_cast<std::size_t>(size),
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
    return static_cast<int>(sent);
  }

  static int read(BIO* bio, char* into, int size) {
    const TlsSocket& socket = socket_of(bio);
    BIO_clear_retry_flags(bio);
    const ssize_t got = ::recv(socket.fd, into, static_cast<std::size_t>(size), socket.recv_flags);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
    return static_cast<int>(got);
  }

  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static const BIO_METHOD* method() {
    static const BIO_METHOD* const made = [] {
      BIO_METHOD* fresh = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "holdfast");
      BIO_meth_set_write(fresh, write);
      BIO_meth_set_read(fresh, read);
      BIO_meth_set_ctrl(fresh, control);
      return fresh;
    }();
    return made;
  }
};

std::string last_reason() {
  const unsigned long code = ERR_peek_last_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "no reason given" : reason;
}

// OpenSSL must not ask on the terminal.
int no_passphrase(char*, int, int, void*) { return 0; }

bool is_address(const std::string& text) {
  unsigned char bytes[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, text.c_str(), bytes) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

Error file_error(const char* option, const std::string& path, const std::string& why) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) {
    const bool forbidden = errno == EACCES || errno == EPERM;
    return {forbidden ? Errc::kPermissionDenied : Errc::kInvalidArgument,
            std::string(option) + " '" + path + "': " + std::strerror(errno)};
  }
  return {Errc::kInvalidArgument, std::string(option) + " '" + path + "': " + why};
}

Result<void> load_trust(SSL_CTX* context, const RedisAddress& address) {
  if (address.tls_ca.empty()) {
    if (SSL_CTX_set_default_verify_paths(context) == 1) return {};
    return Error{Errc::kInvalidArgument, "TLS: cannot load the system's trusted certificates: " +
                                             last_reason() + "; name them with tls_ca"};
  }
  struct stat found {};
  const bool folder = ::stat(address.tls_ca.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
  const char* const path = address.tls_ca.c_str();
  if (SSL_CTX_load_verify_locations(context, folder ? nullptr : path, folder ? path : nullptr) ==
      1) {
    return {};
  }
  return file_error("tls_ca", address.tls_ca,
                    "holds no certificate in PEM (" + last_reason() + ")");
}

// Alerts by which the server rejects our certificate.
bool is_about_us(int reason) {
  switch (reason) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED: return true;
    default: return false;
  }
}

}  // namespace

void SslDeleter::operator()(SSL* session) const noexcept { SSL_free(session); }
void SslDeleter::operator()(SSL_CTX* context) const noexcept { SSL_CTX_free(context); }

void use_socket(SSL* session, TlsSocket& socket) {
  BIO* const bio = BIO_new(SocketBio::method());
  BIO_set_data(bio, &socket);
  BIO_set_init(bio, 1);
  SSL_set_bio(session, bio, bio);
}

Result<SslContext> make_context(TlsSide side) {
  ERR_clear_error();
  SslContext context(
      SSL_CTX_new(side == TlsSide::kServer ? TLS_server_method() : TLS_client_method()));
  if (context == nullptr) {
    return Error{Errc::kUnavailable, "TLS: OpenSSL cannot start: " + last_reason()};
  }
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_default_passwd_cb(context.get(), no_passphrase);
  return context;
}

Result<void> load_identity(SSL_CTX* context, const std::string& cert, const std::string& key,
                           IdentityNames names) {
  // To open a pipe would wait for its writer.
  for (const auto& [option, path] : {std::pair{names.cert, cert}, {names.key, key}}) {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0 || S_ISREG(found.st_mode)) continue;
    return file_error(option, path, S_ISDIR(found.st_mode) ? "is a folder" : "is not a plain file");
  }
  if (SSL_CTX_use_certificate_chain_file(context, cert.c_str()) != 1) {
    return file_error(names.cert, cert, "holds no certificate in PEM (" + last_reason() + ")");
  }
  const std::string& key_file = key.empty() ? cert : key;
  if (SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    if (key.empty()) {
      return file_error(names.cert, cert,
                        std::string("holds no key, too: name it with ") + names.key);
    }
    return file_error(names.key, key_file,
                      "holds no key without a passphrase in PEM, or not the certificate's (" +
                          last_reason() + ")");
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    return file_error(names.key, key_file, std::string("is not the key of ") + names.cert);
  }
  return {};
}

Result<std::shared_ptr<const TlsContext>> TlsContext::make(const RedisAddress& address) {
  auto context = make_context(TlsSide::kClient);
  if (!context) return context.error();
  std::shared_ptr<TlsContext> made(new TlsContext(*std::move(context)));
  SSL_CTX* const own = made->context_.get();
  made->named_ = !address.tls_name.empty();
  made->expected_ = address.tls_name.empty() ? address.host : address.tls_name;
  SSL_CTX_set_verify(own, SSL_VERIFY_PEER, nullptr);
  if (auto loaded = load_trust(own, address); !loaded) return loaded.error();
  if (!address.tls_cert.empty()) {
    auto loaded = load_identity(own, address.tls_cert, address.tls_key, {"tls_cert", "tls_key"});
    if (!loaded) return loaded.error();
  }
  return std::shared_ptr<const TlsContext>(std::move(made));
}

Result<SslSession> TlsContext::session(const std::string& announced) const {
  const std::string& expected = named_ || announced.empty() ? expected_ : announced;
  ERR_clear_error();
  SslSession session(SSL_new(context_.get()));
  bool good = session != nullptr;
  if (good && is_address(expected)) {
    good = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session.get()), expected.c_str()) == 1;
  } else if (good) {
    good = SSL_set1_host(session.get(), expected.c_str()) == 1 &&
           SSL_set_tlsext_host_name(session.get(), expected.c_str()) == 1;
  }
  if (!good) return Error{Errc::kUnavailable, "TLS: cannot begin a session: " + last_reason()};
  SSL_set_connect_state(session.get());
  return session;
}

Error tls_error(SSL* session, std::string_view where) {
  const std::string head = std::string(where) + ": TLS: ";
  const long verdict = SSL_get_verify_result(session);
  if (verdict != X509_V_OK) {
    std::string advice = "name the authority that signed it with tls_ca";
    if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH) {
      advice = "name the server as its certificate does, or with tls_name";
    }
    return {Errc::kPermissionDenied, head + "the server's certificate does not pass: " +
                                         X509_verify_cert_error_string(verdict) + "; " + advice};
  }
  const unsigned long code = ERR_peek_last_error();
  if (is_about_us(ERR_GET_REASON(code))) {
    return {Errc::kPermissionDenied,
            head + "the server does not accept this client's certificate (" + last_reason() +
                "): name a certificate that it trusts with tls_cert and tls_key"};
  }
  if (ERR_GET_REASON(code) == SSL_R_WRONG_VERSION_NUMBER) {
    return {Errc::kUnavailable, head + "the server does not speak TLS on this port"};
  }
  return {Errc::kUnavailable, head + last_reason()};
}

}  // namespace holdfast::stores::redis
