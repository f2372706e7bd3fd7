#include "src/stores/zookeeper/transport/listeners.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>

namespace holdfast::stores::zookeeper {
namespace {

// 0 if somebody listens or does not refuse in time; otherwise an errno.
int try_address(const addrinfo& address, base::BootInstant until) {
  const int fd = ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  int error = 0;
  if (::connect(fd, address.ai_addr, address.ai_addrlen) != 0) error = errno;
  if (error == EINPROGRESS) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - base::BootClock::now());
    pollfd ready{fd, POLLOUT, 0};
    error = 0;
    socklen_t size = sizeof error;
    if (::poll(&ready, 1, static_cast<int>(std::max<long>(0, left.count()))) > 0) {
      ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  ::close(fd);
  return error;
}

// Why nobody listens there; empty if somebody does or may.
std::string why_nobody(const port::Endpoint& server, base::BootInstant until) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  const std::string port = std::to_string(server.port);
  if (const int failed = ::getaddrinfo(server.host.c_str(), port.c_str(), &hints, &raw)) {
    return ::gai_strerror(failed);
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> found(raw, &::freeaddrinfo);
  std::string why;
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    const int error = try_address(*each, until);
    if (error == 0 || error == ECONNRESET) return "";
    why = std::strerror(error);
  }
  return why;
}

}  // namespace

Result<void> look_for_listeners(const std::vector<port::Endpoint>& servers,
                                base::BootInstant until) {
  std::string last;
  for (const port::Endpoint& server : servers) {
    const std::string why = why_nobody(server, until);
    if (why.empty()) return {};
    last = "cannot connect to ZooKeeper at " + server.text() + ": " + why;
  }
  return Error(Errc::kUnavailable, last);
}

}  // namespace holdfast::stores::zookeeper
