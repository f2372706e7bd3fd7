// Lock servers that share a journal in etcd, as processes of a test's own.
//
// Thread-safety: one thread at a time. Ownership: the processes go with the object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/etcd_server.h"
#include "tests/support/eventually.h"
#include "tests/support/holdfast_server.h"
#include "tests/support/loopback.h"

namespace holdfast::faults {

class ServiceCluster {
 public:
  explicit ServiceCluster(support::EtcdOptions options = {}, std::size_t servers = 2,
                          const std::string& leadership = "2s", std::uint32_t shards = 1)
      : etcd_(std::move(options)) {
    for (std::size_t i = 0; i < servers; ++i) {
      http_ports_.push_back(std::make_unique<support::ReservedPort>());
      servers_.push_back(std::make_unique<support::HoldfastServer>(
          support::HoldfastOptions{.journal = etcd_.url("/locks?leadership=" + leadership),
                                   .arguments = {"--shards", std::to_string(shards), "--http",
                                                 "127.0.0.1:" + std::to_string(http_port(i))}}));
      EXPECT_TRUE(i > 0 || support::eventually([&] { return servers_[0]->leads(); }));
    }
  }

  support::EtcdCluster& etcd() { return etcd_; }
  support::HoldfastServer& operator[](std::size_t index) { return *servers_[index]; }
  std::string address(std::size_t index) const {
    return "127.0.0.1:" + std::to_string(servers_[index]->port());
  }
  std::uint16_t http_port(std::size_t index) const { return http_ports_[index]->number(); }
  std::string url() const {
    std::string all;
    for (const auto& each : servers_) {
      all += (all.empty() ? "holdfast://127.0.0.1:" : ",127.0.0.1:") + std::to_string(each->port());
    }
    return all + "?open_timeout=60s";
  }
  // The one that leads; waits until one does.
  std::size_t leader() {
    std::size_t found = servers_.size();
    EXPECT_TRUE(support::eventually([&] {
      for (std::size_t i = 0; i < servers_.size(); ++i) {
        if (servers_[i]->running() && servers_[i]->leads()) found = i;
      }
      return found < servers_.size();
    }));
    return found;
  }

 private:
  support::EtcdCluster etcd_;
  std::vector<std::unique_ptr<support::ReservedPort>> http_ports_;
  std::vector<std::unique_ptr<support::HoldfastServer>> servers_;
};

}  // namespace holdfast::faults
