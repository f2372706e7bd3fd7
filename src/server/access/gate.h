// The work that strangers may ask for: a TLS handshake, a password's hash
// (docs/design/0067-users-and-tls.md). Both take milliseconds of a processor, so they are done on a
// thread of their own, and not on the loop that keeps everybody's leases.
//
// Guarantee: one hash at a time; at most so many wait, fewer of one address. A wrong password is
// answered late, the later the more of them came from its address. A password that was right once
// costs no hash again until the next use().
// Not guaranteed: that handshakes are fast while many strangers begin one.
//
// Thread-safety: the loop only. Answers come on the loop, never from within the call.
// Ownership: the loop outlives it. Errors: the constructor throws std::system_error where there is
// no thread or descriptor to be had.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "src/port/service/server_tls.h"
#include "src/server/access/users.h"

namespace asio {
class io_context;
}

namespace holdfast::server {

struct GateLimits {
  std::size_t waiting = 64;  // Passwords.
  std::size_t waiting_of_address = 16;
  std::chrono::milliseconds first_delay{100};
  // A client that waits for 3 s, as ours do by default, has to hear that its password is wrong.
  std::chrono::milliseconds longest_delay{2'000};
  std::chrono::milliseconds handshake{5'000};
};

class Gate {
 public:
  enum class Verdict : std::uint8_t { kRight, kWrong, kBusy };
  // The user is null unless it is kRight.
  using Judged = std::function<void(Verdict, const UserPtr&)>;
  // The socket is the callee's then; -1: no handshake came about, and the socket is closed.
  using Shaken = std::function<void(int socket, std::unique_ptr<port::TlsSession>)>;

  Gate(asio::io_context& loop, GateLimits limits);
  // Closes the sockets of unfinished handshakes. Questions without an answer are dropped.
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // From now on these are the users. Their passwords are hashed anew.
  void use(UsersPtr users);
  void judge(const std::string& user, const std::string& password, const std::string& address,
             Judged judged);
  void shake_hands(int socket, std::unique_ptr<port::TlsSession> session, Shaken shaken);

 private:
  struct Impl;
  const std::shared_ptr<Impl> impl_;
};

}  // namespace holdfast::server
