// A client's socket, with TLS or without.
//
// Thread-safety: the loop's thread. Blocking: never. Ownership: closes its socket.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <system_error>

#include <asio/ip/tcp.hpp>

#include "src/port/server_tls.h"

namespace holdfast::server {

class Stream {
 public:
  // `tls`: a session on that socket, whose handshake is over; null for a plain one.
  Stream(asio::ip::tcp::socket socket, std::unique_ptr<port::TlsSession> tls);

  port::SocketIo read(char* into, std::size_t size);
  // May write a part. After kWantRead or kWantWrite, pass the same bytes again.
  port::SocketIo write(std::string_view bytes);
  // read() may have more without the socket becoming readable.
  bool buffers() const { return tls_ != nullptr && tls_->buffers(); }

  using Ready = std::function<void(std::error_code)>;
  void when_readable(Ready ready);  // At once if it buffers.
  void when_writable(Ready ready);

  bool is_open() const { return socket_.is_open(); }
  void close();

 private:
  asio::ip::tcp::socket socket_;
  std::unique_ptr<port::TlsSession> tls_;
};

}  // namespace holdfast::server
