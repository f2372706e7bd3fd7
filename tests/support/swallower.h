// A port of 127.0.0.1 on which connections are neither accepted nor refused: its queue is full.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace holdfast::support {

class Swallower {
 public:
  Swallower() {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const address = reinterpret_cast<sockaddr*>(&where);
    socklen_t length = sizeof where;
    if (::bind(sockets_[0], address, length) != 0 || ::listen(sockets_[0], 0) != 0 ||
        ::getsockname(sockets_[0], address, &length) != 0) {
      throw std::runtime_error("no port to listen on");
    }
    port_ = ntohs(where.sin_port);
    // They fill its queue; most stay under way.
    for (std::size_t i = 1; i < sockets_.size(); ++i) {
      static_cast<void>(::connect(sockets_[i], address, length));
    }
  }
  ~Swallower() {
    for (const int each : sockets_) ::close(each);
  }
  Swallower(const Swallower&) = delete;
  Swallower& operator=(const Swallower&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  static int make() { return ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }
  std::array<int, 5> sockets_{make(), make(), make(), make(), make()};
  std::uint16_t port_ = 0;
};

}  // namespace holdfast::support
