// Shared by the mistakes on Redis: a connection, and the words that most of them use.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tests/support/redis_connection.h"

#include "lab/exhibits/mistake.h"

namespace holdfast::lab {

// A server as a URL names it: redis://127.0.0.1:PORT. Errors: std::runtime_error.
class RedisClient {
 public:
  explicit RedisClient(const std::string& url, std::chrono::milliseconds limit = {});

  support::Reply operator()(const std::vector<std::string>& words);

  // Sends SET NX PX; returns whether the lock is ours now.
  bool set_nx(const std::string& name, const std::string& value, std::chrono::milliseconds ttl);
  // Deletes the key in one step if it has this value, which is the correct way.
  bool delete_if(const std::string& name, const std::string& value);

 private:
  support::RedisConnection connection_;
};

class OnRedis : public Mistake {
 public:
  explicit OnRedis(const SubjectSetup& setup) : Mistake(setup), redis_(setup.urls.at(0)) {}

  // The correct lock on one server. Most mistakes replace one half of it.
  // [region: set-nx-px]
  bool take(const Ask& ask, Held& held) override {
    return redis_.set_nx(ask.name, held.value, ask.ttl);
  }
  bool give_back(const Held& held) override { return redis_.delete_if(held.name, held.value); }
  // [end]

 protected:
  RedisClient redis_;
};

}  // namespace holdfast::lab
