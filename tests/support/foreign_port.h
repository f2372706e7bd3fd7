// A port of the loopback interface where no store serves, but something else.
//
// Thread-safety: one thread at a time. Ownership: its thread ends with it.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/loopback.h"

namespace holdfast::support {

class ForeignPort {
 public:
  struct Manners {
    std::string greeting;  // Sent to every client at once.
    std::string answer;    // Sent after the client's first bytes; then the connection is closed.
  };

  explicit ForeignPort(Manners manners)
      : manners_(std::move(manners)),
        stop_(::eventfd(0, EFD_CLOEXEC)),
        listener_(listen_on_loopback(port_.number())) {
    if (stop_ < 0 || listener_ < 0) throw std::runtime_error("the foreign port cannot be opened");
    thread_ = std::thread([this] { serve(); });
  }
  ~ForeignPort() {
    const std::uint64_t one = 1;
    if (::write(stop_, &one, sizeof one) < 0) std::abort();
    thread_.join();
    for (const int each : {stop_, listener_}) ::close(each);
  }
  ForeignPort(const ForeignPort&) = delete;
  ForeignPort& operator=(const ForeignPort&) = delete;

  std::uint16_t port() const { return port_.number(); }

 private:
  void serve() {
    std::vector<pollfd> all = {{stop_, POLLIN, 0}, {listener_, POLLIN, 0}};
    while (::poll(all.data(), all.size(), -1) < 0 || all[0].revents == 0) {
      for (std::size_t i = 2; i < all.size();) {
        if (all[i].revents != 0 && ends(all[i].fd)) {
          ::close(all[i].fd);
          all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
        } else {
          ++i;
        }
      }
      if (all[1].revents == 0) continue;
      const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) continue;
      say(client, manners_.greeting);
      all.push_back({client, POLLIN, 0});
    }
    for (std::size_t i = 2; i < all.size(); ++i) ::close(all[i].fd);
  }
  // Reads what the client says. Whether that was all.
  bool ends(int client) const {
    std::array<char, 4096> heard{};
    if (::recv(client, heard.data(), heard.size(), MSG_DONTWAIT) <= 0) return true;
    say(client, manners_.answer);
    return !manners_.answer.empty();
  }
  static void say(int client, const std::string& text) {
    // A client that has gone hears nothing.
    static_cast<void>(::send(client, text.data(), text.size(), MSG_NOSIGNAL));
  }

  const Manners manners_;
  const ReservedPort port_;
  const int stop_;
  const int listener_;
  std::thread thread_;
};

}  // namespace holdfast::support
