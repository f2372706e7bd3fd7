// N real Redis servers of a test's own, which know nothing of each other.
//
// Thread-safety: one thread at a time. Errors: as RedisServer.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/redis_server.h"

namespace holdfast::support {

class RedlockCluster {
 public:
  explicit RedlockCluster(std::size_t nodes = 5, const RedisOptions& options = {}) {
    while (nodes_.size() < nodes) nodes_.push_back(std::make_unique<RedisServer>(options));
  }

  std::size_t size() const { return nodes_.size(); }
  RedisServer& node(std::size_t at) { return *nodes_[at]; }

  // "127.0.0.1:1,127.0.0.1:2,..."
  std::string list() const {
    std::string text;
    for (const auto& node : nodes_) {
      text += (text.empty() ? "" : ",") + std::string("127.0.0.1:") + std::to_string(node->port());
    }
    return text;
  }
  std::string url(const std::string& options = {}) const {
    return "redlock://" + list() + (options.empty() ? "" : "/?" + options);
  }
  void flush_all() {
    for (const auto& node : nodes_) node->flushall();
  }

 private:
  std::vector<std::unique_ptr<RedisServer>> nodes_;
};

}  // namespace holdfast::support
