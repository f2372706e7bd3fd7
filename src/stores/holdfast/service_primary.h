// Where the lock service is, and which term of it the client has seen last (safety rule 44).
//
// The server that answered last is tried first. A server that stands by refuses the client, which
// then tries the next one.
//
// Every connection says at its start which journal and term it serves, and serves no other until it
// ends. The generation of a connection is that term, so all connections of an earlier term close
// when the first of a later one is made, and what they still answer is dropped, "gone" included.
//
// Thread-safety: safe. Errors: kUnavailable: an earlier term. kCorruptState: another journal: the
// locks there are not those that this client holds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/local_mutex.h"
#include "src/stores/redis/transport/primary.h"
#include "src/stores/redis/transport/resolver.h"

namespace holdfast::stores::holdfast {

class ServicePrimary final : public redis::Primary {
 public:
  // `first`: the server to try before the others, as long as none has answered; it may be none of
  // the address.
  explicit ServicePrimary(const redis::RedisAddress& address, const port::Endpoint& first = {});

  bool asks_term() const noexcept override { return true; }
  Result<std::uint64_t> judge_term(std::string_view attached) override;
  void enter(std::uint64_t generation) override;

  redis::Location cached() const override;
  void refresh(std::function<void(Result<redis::Location>)> done) override;
  void prefer(const redis::Endpoint& endpoint) override;

 private:
  std::string late() const override;
  struct Lookups;

  const std::string hosts_;
  const std::uint32_t shard_;
  struct Server {
    std::string host;
    std::unique_ptr<redis::Resolver> resolver;
  };
  std::vector<Server> servers_;  // One for each server.
  mutable base::LocalMutex mutex_;
  redis::Endpoint leader_ HOLDFAST_GUARDED_BY(mutex_);  // It has answered last.
  std::string journal_ HOLDFAST_GUARDED_BY(mutex_);     // Empty until a server was met.
};

}  // namespace holdfast::stores::holdfast
