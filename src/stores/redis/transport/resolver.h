// The addresses of one host, looked up beside the threads that must not wait.
//
// Guarantee: getaddrinfo() runs on a helper thread only, one lookup at a time; the last good answer
// is kept and serves when a lookup fails or is late. Numeric hosts and sockets need no lookup. The
// address that answered last comes first.
// Thread-safety: safe. Ownership: a lookup under way keeps what it needs; the resolver may go.
// Time: boot time. Blocking: resolve() until its deadline; the others never.
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

  // `lookup` for tests; empty: the system's.
  explicit Resolver(const RedisAddress& address, Lookup lookup = {});
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // A new answer, or the last good one when none comes by `deadline` or it fails.
  Result<Endpoints> resolve(base::BootInstant deadline);
  // `done` is called once when the lookup ends, on the helper's thread, or inline when no lookup is
  // needed. It may come late: the caller keeps the time.
  void refresh(std::function<void(Result<Endpoints>)> done);
  // The last good answer; empty before the first.
  Endpoints cached() const;
  // A server has answered at this address.
  void prefer(const Endpoint& endpoint);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::stores::redis
