#include "src/server/front/stream.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include <asio/post.hpp>

namespace holdfast::server {

using asio::ip::tcp;
using port::SocketIo;

Stream::Stream(tcp::socket socket, std::unique_ptr<port::TlsSession> tls)
    : socket_(std::move(socket)), tls_(std::move(tls)) {}

SocketIo Stream::read(char* into, std::size_t size) {
  if (tls_ != nullptr) return tls_->read(into, size);
  const ssize_t got = ::recv(socket_.native_handle(), into, size, MSG_DONTWAIT);
  if (got > 0) return {SocketIo::Next::kDone, static_cast<std::size_t>(got)};
  const bool later = got < 0 && (errno == EAGAIN || errno == EINTR);
  return {later ? SocketIo::Next::kWantRead : SocketIo::Next::kEnded};
}

SocketIo Stream::write(std::string_view bytes) {
  if (tls_ != nullptr) return tls_->write(bytes);
  for (;;) {
    const ssize_t sent =
        ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return {SocketIo::Next::kDone, static_cast<std::size_t>(sent)};
    if (errno == EAGAIN) return {SocketIo::Next::kWantWrite};
    if (errno != EINTR) return {SocketIo::Next::kEnded};
  }
}

void Stream::when_readable(Ready ready) {
  if (buffers()) {
    return asio::post(socket_.get_executor(),
                      [ready = std::move(ready)] { ready(std::error_code()); });
  }
  socket_.async_wait(tcp::socket::wait_read, std::move(ready));
}

void Stream::when_writable(Ready ready) {
  socket_.async_wait(tcp::socket::wait_write, std::move(ready));
}

void Stream::close() {
  if (tls_ != nullptr) tls_->say_goodbye();
  tls_.reset();
  std::error_code ignored;
  socket_.close(ignored);
}

}  // namespace holdfast::server
