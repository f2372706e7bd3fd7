// A server that does as the test says, for tests of those that connect to it.
//
// Thread-safety: one thread at a time. Blocking: accept() and receive_until(), for a minute at
// most.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "tests/support/loopback.h"

namespace holdfast::server::testing {

class PlayedServer {
 public:
  PlayedServer() : socket_(support::listen_on_loopback(port_.number())) {}
  ~PlayedServer() {
    hang_up();
    ::close(socket_);
  }
  PlayedServer(const PlayedServer&) = delete;
  PlayedServer& operator=(const PlayedServer&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_.number()); }
  void accept() {
    hang_up();
    pollfd entry{socket_, POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 60'000), 1);
    connection_ = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
  }
  // Waits for a word, and returns all that came; an empty word: waits for the connection's end.
  std::string receive_until(const std::string& word) {
    std::string all;
    std::array<char, 65'536> bytes{};
    while (word.empty() || all.find(word) == std::string::npos) {
      pollfd entry{connection_, POLLIN, 0};
      if (::poll(&entry, 1, 60'000) != 1) {
        ADD_FAILURE() << "nothing came after " << all;
        break;
      }
      const ssize_t got = ::recv(connection_, bytes.data(), bytes.size(), 0);
      if (got <= 0) break;
      all.append(bytes.data(), static_cast<std::size_t>(got));
    }
    EXPECT_NE(all.find(word), std::string::npos) << all;
    return all;
  }
  void say(std::string_view bytes) const {
    EXPECT_EQ(::send(connection_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void hang_up() {
    if (connection_ >= 0) ::close(std::exchange(connection_, -1));
  }

 private:
  support::ReservedPort port_;
  int socket_;
  int connection_ = -1;
};

}  // namespace holdfast::server::testing
