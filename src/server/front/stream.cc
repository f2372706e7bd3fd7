#include "src/server/front/stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace holdfast::server {

using port::SocketIo;

SocketIo Stream::read(char* into, std::size_t size) {
  if (tls_ != nullptr) return tls_->read(into, size);
  const ssize_t got = ::recv(socket_->fd(), into, size, MSG_DONTWAIT);
  if (got > 0) return {SocketIo::Next::kDone, static_cast<std::size_t>(got)};
  const bool later = got < 0 && (errno == EAGAIN || errno == EINTR);
  return {later ? SocketIo::Next::kWantRead : SocketIo::Next::kEnded};
}

SocketIo Stream::write(std::string_view bytes) {
  if (tls_ != nullptr) return tls_->write(bytes);
  for (;;) {
    const ssize_t sent =
        ::send(socket_->fd(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return {SocketIo::Next::kDone, static_cast<std::size_t>(sent)};
    if (errno == EAGAIN) return {SocketIo::Next::kWantWrite};
    if (errno != EINTR) return {SocketIo::Next::kEnded};
  }
}

void Stream::when_readable(Ready ready) {
  buffers() ? socket_->when_asked(std::move(ready)) : socket_->when_readable(std::move(ready));
}

bool Stream::was_given_up(std::chrono::milliseconds before) const {
  pollfd look{socket_->fd(), POLLRDHUP, 0};
  if (::poll(&look, 1, 0) != 1) return false;
  tcp_info known{};
  socklen_t size = sizeof known;
  return ::getsockopt(look.fd, IPPROTO_TCP, TCP_INFO, &known, &size) == 0 &&
         std::chrono::milliseconds(known.tcpi_last_data_recv) >= before;
}

void Stream::close() {
  if (tls_ != nullptr) tls_->say_goodbye();
  tls_.reset();
  socket_.reset();
}

}  // namespace holdfast::server
