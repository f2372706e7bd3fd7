// Where one node of a cluster is, as long as it serves slots.
//
//   State     retire()                         serve()
//   serving   retired; connections close       -
//   retired   -                                serving; a new generation
//
// Thread-safety: safe. Errors: those of Resolver; kUnavailable while it is retired.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "src/stores/redis/transport/primary.h"
#include "src/stores/redis/transport/resolver.h"

namespace holdfast::stores::redis {

class NodePrimary final : public Primary, public std::enable_shared_from_this<NodePrimary> {
 public:
  explicit NodePrimary(const RedisAddress& address)
      : where_(address.display()), resolver_(address) {}

  void retire() { change(/*retired=*/true); }
  void serve() { change(/*retired=*/false); }
  bool retired() const noexcept { return retired_; }

  Location cached() const override { return located(resolver_.cached()); }
  void refresh(std::function<void(Result<Location>)> done) override {
    resolver_.refresh([weak = weak_from_this(), done = std::move(done)](Result<Location> found) {
      const auto self = weak.lock();
      if (self == nullptr || !found) return done(std::move(found));
      if (self->retired_) return done(Error(Errc::kUnavailable, "the node serves no slots"));
      done(self->located(*std::move(found)));
    });
  }
  void prefer(const Endpoint& endpoint) override { resolver_.prefer(endpoint); }

 private:
  void change(bool retired) {
    if (retired_.exchange(retired) != retired) switch_to(generation() + 1);
  }
  Location located(Location found) const {
    if (retired_) return {{}, generation()};
    found.generation = generation();
    return found;
  }
  std::string late() const override { return where_ + ": looking up the host takes too long"; }

  const std::string where_;
  std::atomic<bool> retired_{false};
  Resolver resolver_;
};

}  // namespace holdfast::stores::redis
