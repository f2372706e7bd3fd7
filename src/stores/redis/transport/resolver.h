// The primary of a store on one host. Looks up the addresses of that host, on a thread of its own
// so that no other thread waits.
//
// Guarantee: getaddrinfo() runs on a helper thread only, one lookup at a time; the last good answer
// is kept, and is used when a lookup fails or is late. Numeric hosts and sockets need no lookup.
// The address that answered last comes first.
// Thread-safety: safe. Ownership: a lookup under way owns its state, so the resolver may be
// destroyed.
// Errors: kUnavailable, with the host and what the system's resolver said.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "holdfast/result.h"
#include "src/stores/redis/transport/primary.h"
#include "src/stores/redis/url.h"

namespace holdfast::stores::redis {

class Resolver final : public Primary {
 public:
  using Lookup = std::function<Result<Endpoints>(const std::string& host, std::uint16_t port)>;

  // Tests set `lookup`; if empty, the system's resolver is used.
  explicit Resolver(const RedisAddress& address, Lookup lookup = {});
  ~Resolver() override;

  Location cached() const override;
  void refresh(std::function<void(Result<Location>)> done) override;
  void prefer(const Endpoint& endpoint) override;

 private:
  std::string late() const override;

  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::stores::redis
