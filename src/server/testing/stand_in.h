// A front whose only shard another server leads, for tests of what it forwards.
//
// Thread-safety: one thread at a time.
#pragma once

#include <string>
#include <thread>
#include <utility>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <gtest/gtest.h>

#include "src/server/front/front.h"
#include "src/server/run_on_loop.h"

namespace holdfast::server::testing {

class StandIn {
 public:
  explicit StandIn(const std::string& leader, FrontDoor door = {}, FrontLimits limits = {})
      : front_(io_, limits, {.version = "1", .journal = "test", .place = "nowhere"}) {
    front_.forward_to_leaders();
    front_.guard(std::move(door));
    EXPECT_TRUE(front_.listen("127.0.0.1:0"));
    front_.tell_address(front_.address());
    front_.stand_by(0, leader);
    thread_ = std::thread([this] { io_.run(); });
  }
  ~StandIn() {
    run_on_loop(io_, [this] { front_.close(); });
    io_.stop();
    thread_.join();
  }

  std::string address() const { return front_.address(); }
  void change_leader(const std::string& leader) {
    run_on_loop(io_, [&] { front_.stand_by(0, leader); });
  }
  void guard(FrontDoor door) {
    run_on_loop(io_, [&] { front_.guard(std::move(door)); });
  }

 private:
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  Front front_;
  std::thread thread_;
};

}  // namespace holdfast::server::testing
