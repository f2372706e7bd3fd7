#include "tests/support/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

namespace holdfast::support {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool bind_shared(int socket, std::uint16_t port) {
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in address = loopback(port);
  return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

int fail_with(int socket) {
  const int why = errno;
  ::close(socket);
  errno = why;
  return -1;
}

}  // namespace

ReservedPort::ReservedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (socket_ < 0 || !bind_shared(socket_, 0) ||
      ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no free port");
  }
  number_ = ntohs(address.sin_port);
}

ReservedPort::~ReservedPort() { ::close(socket_); }

int listen_on_loopback(std::uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return -1;
  if (!bind_shared(socket, port) || ::listen(socket, SOMAXCONN) != 0) return fail_with(socket);
  return socket;
}

int connect_to_loopback(std::uint16_t port) { return connect_to("127.0.0.1", port); }

int connect_to(const std::string& to, std::uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return -1;
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address = loopback(port);
  if (::inet_pton(AF_INET, to.c_str(), &address.sin_addr) != 1) {
    errno = EINVAL;
    return fail_with(socket);
  }
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno != EINPROGRESS) {
    return fail_with(socket);
  }
  return socket;
}

std::string exchange_on_loopback(std::uint16_t port, const std::string& request,
                                 std::chrono::milliseconds limit) {
  return exchange_with("127.0.0.1", port, request, limit);
}

std::string exchange_with(const std::string& address, std::uint16_t port,
                          const std::string& request, std::chrono::milliseconds limit) {
  const int socket = connect_to(address, port);
  if (socket < 0) return {};
  std::string answer;
  std::size_t sent = 0;
  const auto until = std::chrono::steady_clock::now() + limit;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    const bool sends = sent < request.size();
    pollfd ready{socket, static_cast<short>(sends ? POLLOUT : POLLIN), 0};
    if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) == 0) break;
    char chunk[16384];
    const ssize_t moved =
        sends ? ::send(socket, request.data() + sent, request.size() - sent, MSG_NOSIGNAL)
              : ::recv(socket, chunk, sizeof chunk, 0);
    if (moved < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (moved <= 0) break;
    if (sends) {
      sent += static_cast<std::size_t>(moved);
    } else {
      answer.append(chunk, static_cast<std::size_t>(moved));
    }
  }
  ::close(socket);
  return answer;
}

}  // namespace holdfast::support
