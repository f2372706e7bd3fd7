// Ports of the loopback interface, and connections.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace holdfast::support {

// A free TCP port of 127.0.0.1, kept from everybody who takes just any port while this exists.
//
// Guarantee: a program that binds it with SO_REUSEADDR (all servers do) gets it, again and again;
// nobody is given it by the system meanwhile, so a server can come back on the port it had.
// Not guaranteed: that nobody asks for this very port by number.
class ReservedPort {
 public:
  ReservedPort();
  ~ReservedPort();
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  std::uint16_t number() const { return number_; }

 private:
  int socket_ = -1;
  std::uint16_t number_ = 0;
};

// Sockets of 127.0.0.1, not blocking. -1: errno says why. A connection may still be in progress.
int listen_on_loopback(std::uint16_t port);
int connect_to_loopback(std::uint16_t port);
int connect_to(const std::string& address, std::uint16_t port);  // IPv4, as numbers.

// Sends a request over a connection of its own; what came back until the other side closed it, or
// the time was up. Empty: there is nobody.
std::string exchange_with(const std::string& address, std::uint16_t port,
                          const std::string& request, std::chrono::milliseconds limit);
std::string exchange_on_loopback(std::uint16_t port, const std::string& request,
                                 std::chrono::milliseconds limit);

}  // namespace holdfast::support
