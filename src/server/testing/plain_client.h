// A server in this process, and a plain socket to it.
//
// Thread-safety: one thread at a time. Blocking: receive(), for a minute at most.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/server.h"
#include "src/server/tuning.h"

namespace holdfast::server::testing {

constexpr std::chrono::seconds kPatience{60};

// A plain socket.
class Socket {
 public:
  // `from`: as if it came from another host, "127.0.0.2".
  explicit Socket(const std::string& address, const char* from = nullptr)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    if (from != nullptr) {
      at.sin_addr.s_addr = ::inet_addr(from);
      static_cast<void>(::bind(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof at));
    }
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int port = std::stoi(address.substr(address.rfind(':') + 1));
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
  }
  ~Socket() { ::close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  bool connected() const { return connected_; }
  int fd() const { return fd_; }
  bool send(std::string_view bytes) const {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // The next bytes; empty: the connection has ended.
  std::string receive() const {
    pollfd entry{fd_, POLLIN, 0};
    if (::poll(&entry, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) <= 0) {
      return "nothing came";
    }
    char bytes[65536];
    const ssize_t got = ::recv(fd_, bytes, sizeof bytes, 0);
    return got > 0 ? std::string(bytes, static_cast<std::size_t>(got)) : std::string();
  }
  std::string ask(std::string_view bytes) const { return send(bytes) ? receive() : ""; }
  bool silent() const {
    pollfd entry{fd_, POLLIN, 0};
    return ::poll(&entry, 1, 0) == 0;
  }

 private:
  int fd_;
  bool connected_ = false;
};

inline std::string request(const std::vector<std::string>& words) {
  std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) {
    bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  return bytes;
}

inline Server start(FrontLimits limits = {}, ServiceOptions service = {}) {
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.journal = "memory:";
  ServerTuning tuning;
  tuning.front = limits;
  tuning.service = std::move(service);
  return *ServerAccess::start(options, tuning);
}

}  // namespace holdfast::server::testing
