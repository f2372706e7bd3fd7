#include "src/stores/redis/transport/wire.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include <openssl/err.h>
#include <openssl/ssl.h>

namespace holdfast::stores::redis {

namespace {

// Deadlines of requests notice a dead peer. Keepalives notice it on an idle connection.
constexpr int kIdleSeconds = 10;
constexpr int kProbeSeconds = 5;
constexpr int kProbes = 3;
constexpr unsigned kUnackedMs = 15'000;
constexpr suseconds_t kReadSlice = 250'000;

template <typename T>
void set_option(int fd, int level, int name, T value) {
  ::setsockopt(fd, level, name, &value, sizeof value);
}

void set_tcp_options(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUnackedMs);
}

}  // namespace

bool Wire::open(const Remote& remote, const Endpoint& endpoint) {
  close();
  where_ = remote.address.display() + " (" + endpoint.display() + ")";
  connected_ = false;
  socket_.recv_flags = MSG_DONTWAIT;
  const int family = endpoint.address.ss_family;
  socket_.fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor() < 0) {
    failed_errno("make a socket");
    return false;
  }
  if (family != AF_UNIX) set_tcp_options(descriptor());
  const auto* address = reinterpret_cast<const sockaddr*>(&endpoint.address);
  if (::connect(descriptor(), address, endpoint.length) != 0 && errno != EINPROGRESS) {
    failed_errno("connect");
    close();
    return false;
  }
  return set_up_tls(remote, endpoint);
}

bool Wire::set_up_tls(const Remote& remote, const Endpoint& endpoint) {
  if (remote.tls == nullptr) return true;
  auto session = remote.tls->session(endpoint.name);
  if (!session) {
    failure_ = session.error();
    close();
    return false;
  }
  tls_ = *std::move(session);
  use_socket(tls_.get(), socket_);
  return true;
}

Wire::Outcome Wire::dial() {
  if (!connected_) {
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      errno = error;
      return failed_errno("connect");
    }
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (::getpeername(descriptor(), reinterpret_cast<sockaddr*>(&peer), &length) != 0) {
      return {Io::kWantWrite, 0};
    }
    connected_ = true;
  }
  if (tls_ == nullptr) return {};
  ERR_clear_error();
  return of_tls(SSL_do_handshake(tls_.get()), "agree on TLS");
}

Wire::Outcome Wire::read(char* into, std::size_t size, Wait wait) {
  socket_.recv_flags = wait == Wait::kAWhile ? 0 : MSG_DONTWAIT;
  if (tls_ != nullptr) {
    ERR_clear_error();
    return of_tls(
        SSL_read(tls_.get(), into, static_cast<int>(std::min<std::size_t>(size, INT_MAX))), "read");
  }
  while (true) {
    const ssize_t got = ::recv(descriptor(), into, size, socket_.recv_flags);
    if (got > 0) return {Io::kDone, static_cast<std::size_t>(got)};
    if (got == 0) return failed(Errc::kUnavailable, "the server closed the connection");
    if (errno == EAGAIN) return {Io::kWantRead, 0};
    if (errno != EINTR) return failed_errno("read");
  }
}

Wire::Outcome Wire::write(std::string_view bytes) {
  if (tls_ != nullptr) {
    ERR_clear_error();
    const auto size = static_cast<int>(std::min<std::size_t>(bytes.size(), INT_MAX));
    const Outcome outcome = of_tls(SSL_write(tls_.get(), bytes.data(), size), "write");
    if (outcome.io == Io::kFailed) look_for_alert();
    return outcome;
  }
  while (true) {
    const ssize_t sent =
        ::send(descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return {Io::kDone, static_cast<std::size_t>(sent)};
    if (errno == EAGAIN) return {Io::kWantWrite, 0};
    if (errno != EINTR) return failed_errno("write");
  }
}

void Wire::let_reads_wait() {
  const int flags = ::fcntl(descriptor(), F_GETFL);
  ::fcntl(descriptor(), F_SETFL, flags & ~O_NONBLOCK);
  set_option(descriptor(), SOL_SOCKET, SO_RCVTIMEO, timeval{0, kReadSlice});
}

bool Wire::stale() const noexcept {
  if (descriptor() < 0) return true;
  char byte = 0;
  const ssize_t got = ::recv(descriptor(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0) return errno != EAGAIN && errno != EINTR;
  // With TLS the bytes may belong to the TLS session.
  return got == 0 || tls_ == nullptr;
}

// A peer that rejects our certificate sends an alert before it closes, but a write may fail first.
void Wire::look_for_alert() {
  char byte = 0;
  socket_.recv_flags = MSG_DONTWAIT;
  ERR_clear_error();
  const int result = SSL_read(tls_.get(), &byte, 1);
  if (result <= 0 && SSL_get_error(tls_.get(), result) == SSL_ERROR_SSL) {
    failure_ = tls_error(tls_.get(), where_);
  }
}

Wire::Outcome Wire::failed(Errc code, std::string what) {
  failure_ = {code, where_ + ": " + std::move(what)};
  return {Io::kFailed, 0};
}

Wire::Outcome Wire::failed_errno(const char* doing) {
  std::string what = std::string("cannot ") + doing + ": " + std::strerror(errno);
  if (errno == ECONNREFUSED || errno == ENOENT) what += " (is the server running there?)";
  const bool forbidden = errno == EACCES || errno == EPERM;
  return failed(forbidden ? Errc::kPermissionDenied : Errc::kUnavailable, std::move(what));
}

Wire::Outcome Wire::of_tls(int result, const char* doing) {
  if (result > 0) return {Io::kDone, static_cast<std::size_t>(result)};
  switch (SSL_get_error(tls_.get(), result)) {
    case SSL_ERROR_WANT_READ: return {Io::kWantRead, 0};
    case SSL_ERROR_WANT_WRITE: return {Io::kWantWrite, 0};
    case SSL_ERROR_ZERO_RETURN: return failed(Errc::kUnavailable, "the server ended TLS");
    case SSL_ERROR_SYSCALL:
      if (errno != 0 && result < 0) return failed_errno(doing);
      return failed(Errc::kUnavailable, "the server closed the connection");
    default: break;
  }
  failure_ = tls_error(tls_.get(), where_);
  return {Io::kFailed, 0};
}

void Wire::close() noexcept {
  tls_.reset();
  const int fd = socket_.fd.exchange(-1);
  if (fd >= 0) ::close(fd);
}

void Wire::shut_down() noexcept {
  if (descriptor() >= 0) ::shutdown(descriptor(), SHUT_RDWR);
}

void Wire::abandon() noexcept {
  const int fd = socket_.fd.exchange(-1);
  if (fd >= 0) ::close(fd);
}

}  // namespace holdfast::stores::redis
