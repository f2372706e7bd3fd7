// The server's side of TLS, as a module makes it: the library itself links no TLS.
//
// Guarantee: TLS 1.2 or later, without renegotiation. No call blocks, raises a signal, or asks on
// the terminal. A session does not close its socket.
// Thread-safety: a ServerTls is safe; a session is used by one thread at a time.
// Ownership: a session shares what it needs of the ServerTls. The socket outlives the session.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace holdfast::port {

struct SocketIo {
  enum class Next { kDone, kWantRead, kWantWrite, kEnded };
  Next next = Next::kDone;
  std::size_t bytes = 0;
};

class TlsSession {
 public:
  virtual ~TlsSession() = default;

  // Until kDone; call it again when the socket is ready for the returned wish.
  virtual SocketIo shake_hands() = 0;
  virtual SocketIo read(char* into, std::size_t size) = 0;
  // May write a part. After kWantRead or kWantWrite, pass the same bytes again.
  virtual SocketIo write(std::string_view bytes) = 0;
  // read() has more without the socket becoming readable.
  virtual bool buffers() const = 0;
  // Tells the peer that nothing more comes, if that can be done at once.
  virtual void say_goodbye() = 0;
};

class ServerTls {
 public:
  virtual ~ServerTls() = default;
  // Null: no memory.
  virtual std::unique_ptr<TlsSession> session(int socket) const = 0;
  // The client's side of a connection to another server of the service. The handshake fails unless
  // that server's certificate is trusted and names `host`. Null: no memory.
  virtual std::unique_ptr<TlsSession> session_to(int socket, const std::string& host) const = 0;
};
using ServerTlsPtr = std::shared_ptr<const ServerTls>;

}  // namespace holdfast::port
