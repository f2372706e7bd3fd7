// A client's socket, with TLS or without.
//
// Thread-safety: the loop's thread. Blocking: never. Ownership: closes its socket.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>

#include "src/port/service/server_tls.h"
#include "src/server/front/ready_set.h"

namespace holdfast::server {

class Stream {
 public:
  // `set` tells when the socket is ready. `tls`: a session on it, whose handshake is over; null for
  // a plain one.
  Stream(std::shared_ptr<ReadySet> set, int fd, std::unique_ptr<port::TlsSession> tls)
      : socket_(std::make_unique<ReadySet::Socket>(std::move(set), fd)), tls_(std::move(tls)) {}

  port::SocketIo read(char* into, std::size_t size);
  // May write a part. After kWantRead or kWantWrite, pass the same bytes again.
  port::SocketIo write(std::string_view bytes);
  // read() may have more without the socket becoming readable.
  bool buffers() const { return tls_ != nullptr && tls_->buffers(); }

  // After close() a callback may still come (ready_set.h): it looks at is_open().
  using Ready = ReadySet::Ready;
  void when_readable(Ready ready);  // In the loop's next turn if it buffers.
  void when_writable(Ready ready) { socket_->when_writable(std::move(ready)); }

  // The peer has closed, and sent nothing for so long before: it does not wait for an answer any
  // more.
  bool was_given_up(std::chrono::milliseconds before) const;

  bool is_open() const { return socket_ != nullptr; }
  void close();

 private:
  std::unique_ptr<ReadySet::Socket> socket_;  // null: closed.
  std::unique_ptr<port::TlsSession> tls_;
};

}  // namespace holdfast::server
