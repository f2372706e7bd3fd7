#include "src/stores/holdfast/server_tls.h"

#include <sys/socket.h>

#include <algorithm>
#include <climits>
#include <utility>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "src/stores/redis/transport/secure.h"

namespace holdfast::stores::holdfast {
namespace {

using port::SocketIo;
using Next = SocketIo::Next;

constexpr std::string_view kSpeakTls =
    "-ERR this port speaks TLS: begin the URL with holdfasts://, or rediss:// in other clients\r\n";
constexpr std::string_view kSpeakHttps =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    "this port speaks TLS, and the request came without: begin the URL with https://\n";

class Session final : public port::TlsSession {
 public:
  Session(redis::SslSession session, int socket) : session_(std::move(session)) {
    socket_.fd = socket;
    socket_.recv_flags = MSG_DONTWAIT;
    redis::use_socket(session_.get(), socket_);
  }

  SocketIo shake_hands() override {
    ERR_clear_error();
    const SocketIo io = after(SSL_do_handshake(session_.get()));
    if (io.next == Next::kEnded && SSL_is_server(session_.get()) == 1) look_for_plain_text();
    return {io.next};
  }

  SocketIo read(char* into, std::size_t size) override {
    ERR_clear_error();
    return after(SSL_read(session_.get(), into, fit(size)));
  }

  SocketIo write(std::string_view bytes) override {
    ERR_clear_error();
    return after(SSL_write(session_.get(), bytes.data(), fit(bytes.size())));
  }

  bool buffers() const override { return SSL_pending(session_.get()) > 0; }

  // After a failure OpenSSL sends nothing any more.
  void say_goodbye() override {
    ERR_clear_error();
    static_cast<void>(SSL_shutdown(session_.get()));
  }

 private:
  static int fit(std::size_t size) {
    return static_cast<int>(std::min<std::size_t>(size, INT_MAX));
  }

  SocketIo after(int result) {
    if (result > 0) return {Next::kDone, static_cast<std::size_t>(result)};
    switch (SSL_get_error(session_.get(), result)) {
      case SSL_ERROR_WANT_READ: return {Next::kWantRead};
      case SSL_ERROR_WANT_WRITE: return {Next::kWantWrite};
      default: return {Next::kEnded};
    }
  }

  void look_for_plain_text() const {
    const int reason = ERR_GET_REASON(ERR_peek_error());
    if (reason != SSL_R_WRONG_VERSION_NUMBER && reason != SSL_R_HTTP_REQUEST) return;
    // A socket that is closed with bytes to be read takes the answer from its peer.
    char rest[4'096];
    while (::recv(socket_.fd, rest, sizeof rest, MSG_DONTWAIT) > 0) {
    }
    const std::string_view told = reason == SSL_R_HTTP_REQUEST ? kSpeakHttps : kSpeakTls;
    static_cast<void>(::send(socket_.fd, told.data(), told.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  }

  redis::TlsSocket socket_;
  redis::SslSession session_;
};

class OwnTls final : public port::ServerTls {
 public:
  OwnTls(redis::SslContext context, std::shared_ptr<const redis::TlsContext> to_others)
      : context_(std::move(context)), to_others_(std::move(to_others)) {}

  std::unique_ptr<port::TlsSession> session(int socket) const override {
    redis::SslSession made(SSL_new(context_.get()));
    if (made == nullptr) return nullptr;
    SSL_set_accept_state(made.get());
    return std::make_unique<Session>(std::move(made), socket);
  }

  std::unique_ptr<port::TlsSession> session_to(int socket, const std::string& host) const override {
    auto made = to_others_->session(host);
    if (!made) return nullptr;
    return std::make_unique<Session>(*std::move(made), socket);
  }

 private:
  redis::SslContext context_;
  std::shared_ptr<const redis::TlsContext> to_others_;
};

}  // namespace

Result<port::ServerTlsPtr> make_server_tls(const std::string& certificate, const std::string& key,
                                           const std::string& trusted) {
  auto context = redis::make_context(redis::TlsSide::kServer);
  if (!context) return context.error();
  // No session is kept for a client that comes back, and an idle connection has no buffers.
  SSL_CTX_set_session_cache_mode(context->get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context->get(), SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(context->get(), SSL_OP_NO_RENEGOTIATION);
  auto loaded = redis::load_identity(context->get(), certificate, key, {"--tls-cert", "--tls-key"});
  if (!loaded) return loaded.error();
  redis::RedisAddress others;
  others.tls_ca = trusted;
  auto to_others = redis::TlsContext::make(others);
  if (!to_others) return to_others.error();
  return port::ServerTlsPtr(
      std::make_shared<const OwnTls>(*std::move(context), *std::move(to_others)));
}

}  // namespace holdfast::stores::holdfast
