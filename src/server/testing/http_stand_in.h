// An HTTP port of a server whose shards others lead, for tests of what it forwards.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <gtest/gtest.h>

#include "src/server/http/http_front.h"
#include "src/server/run_on_loop.h"

namespace holdfast::server::testing {

class HttpStandIn {
 public:
  // The HTTP port of the leader of each shard; empty: nobody leads it. Main addresses are
  // main_of(shard).
  explicit HttpStandIn(const std::vector<std::string>& leaders, FrontDoor door = {},
                       HttpLimits limits = {})
      : front_(io_, limits, {.version = "1", .journal = "test", .place = "nowhere"}, {},
               static_cast<std::uint32_t>(leaders.size())) {
    front_.guard(std::move(door));
    EXPECT_TRUE(front_.listen("127.0.0.1:0"));
    front_.tell_address("127.0.0.1:7420");
    std::map<std::string, std::string> places;
    for (std::uint32_t shard = 0; shard < leaders.size(); ++shard) {
      if (!leaders[shard].empty()) places.emplace(main_of(shard), leaders[shard]);
      front_.stand_by(shard, leaders[shard].empty() ? "" : main_of(shard));
    }
    front_.note_places(std::move(places));
    thread_ = std::thread([this] { io_.run(); });
  }
  ~HttpStandIn() {
    run_on_loop(io_, [this] { front_.close(); });
    io_.stop();
    thread_.join();
  }
  HttpStandIn(const HttpStandIn&) = delete;
  HttpStandIn& operator=(const HttpStandIn&) = delete;

  static std::string main_of(std::uint32_t shard) { return "192.0.2." + std::to_string(shard + 1); }
  std::string address() const { return front_.address(); }
  void run(const std::function<void(HttpFront&)>& task) {
    run_on_loop(io_, [&] { task(front_); });
  }

 private:
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  HttpFront front_;
  std::thread thread_;
};

}  // namespace holdfast::server::testing
