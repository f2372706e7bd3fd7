// Looks up the addresses of one host, on a thread of its own so that no other thread waits.
//
// Guarantee: getaddrinfo() runs on a helper thread only, one lookup at a time; the last good answer
// is kept, and is used when a lookup fails or is late. Numeric hosts and sockets need no lookup.
// The address that answered last comes first.
// Thread-safety: safe. Ownership: a lookup under way owns its state, so the resolver may be
// destroyed.
// Time: boot time. Blocking: resolve(), until its deadline; no other function.
// Errors: kUnavailable, with the host and what the system's resolver said.
#pragma once

#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/stores/redis/url.h"

namespace holdfast::stores::redis {

struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;

  std::string display() const;  // "127.0.0.1:6379", "[::1]:6379", "/run/redis.sock".
};
using Endpoints = std::vector<Endpoint>;

class Resolver {
 public:
  using Lookup = std::function<Result<Endpoints>(const std::string& host, std::uint16_t port)>;

  // Tests set `lookup`; if empty, the system's resolver is used.
  explicit Resolver(const RedisAddress& address, Lookup lookup = {});
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // A new answer; the last good one if the lookup fails or is late.
  Result<Endpoints> resolve(base::BootInstant deadline);
  // Calls `done` once, when the lookup ends, on the helper's thread; or inline if no lookup is
  // needed. This can take long: the caller keeps its own time.
  void refresh(std::function<void(Result<Endpoints>)> done);
  // The last good answer; empty before there is one.
  Endpoints cached() const;
  // Notes that a server has answered at this address.
  void prefer(const Endpoint& endpoint);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::stores::redis
