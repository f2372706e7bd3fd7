// A front whose shards other servers lead, for tests of what it forwards.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <gtest/gtest.h>

#include "src/port/service/shards.h"
#include "src/server/front/front.h"
#include "src/server/journal/journal.h"
#include "src/server/run_on_loop.h"
#include "src/server/service.h"

namespace holdfast::server::testing {

// A name of that shard.
inline std::string name_in(std::uint32_t shard, std::uint32_t shards) {
  for (int i = 0;; ++i) {
    std::string name = "name-" + std::to_string(i);
    if (port::shard_of(name, shards) == shard) return name;
  }
}

class StandIn final : public ServiceListener {
 public:
  explicit StandIn(const std::string& leader, FrontDoor door = {}, FrontLimits limits = {})
      : StandIn(std::vector{leader}, std::move(door), limits) {}
  // One leader for each shard.
  explicit StandIn(const std::vector<std::string>& leaders, FrontDoor door = {},
                   FrontLimits limits = {})
      : front_(io_, limits, {.version = "1", .journal = "test", .place = "nowhere"},
               static_cast<std::uint32_t>(leaders.size())) {
    front_.forward_to_leaders();
    front_.guard(std::move(door));
    EXPECT_TRUE(front_.listen("127.0.0.1:0"));
    front_.tell_address(front_.address());
    for (const std::string& each : leaders) front_.stand_by(shards_++, each);
    thread_ = std::thread([this] { io_.run(); });
  }
  ~StandIn() {
    run_on_loop(io_, [this] {
      if (service_) service_->stop();
      front_.close();
    });
    io_.stop();
    thread_.join();
  }

  std::string address() const { return front_.address(); }
  void change_leader(const std::string& leader) {
    run_on_loop(io_, [&] { front_.stand_by(0, leader); });
  }
  // From now on this server leads that shard; without another journal, with one in memory.
  void lead(std::uint32_t shard, std::unique_ptr<Journal> journal = nullptr,
            const ServiceOptions& options = {}) {
    led_ = shard;
    if (journal == nullptr) journal = *make_journal("memory:");
    run_on_loop(io_, [&] {
      service_.emplace(io_, std::move(journal), *this, options);
      EXPECT_TRUE(service_->start());
      front_.serve(led_, *service_);
    });
  }
  // As a server that stops. Ready when nothing is under way any more.
  std::future<void> settle() {
    auto settled = std::make_shared<std::promise<void>>();
    run_on_loop(io_, [&] {
      front_.drain();
      for (std::uint32_t shard = 0; shard < shards_; ++shard) front_.stand_by(shard, "");
      front_.settle([settled] { settled->set_value(); });
    });
    return settled->get_future();
  }
  // The loop does nothing else meanwhile.
  void hold_up(const std::function<void()>& task) { run_on_loop(io_, task); }
  void guard(FrontDoor door) {
    run_on_loop(io_, [&] { front_.guard(std::move(door)); });
  }

 private:
  void on_push(const ClientName& client, const port::Push& push) override {
    front_.on_push(led_, client, push);
  }
  void on_effect(Position, const machine::Effect& effect, machine::Instant at) override {
    front_.on_effect(led_, effect, at);
  }
  void on_stopped(const Error&) override { front_.on_stopped(led_); }

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  Front front_;
  std::uint32_t shards_ = 0;
  std::uint32_t led_ = 0;
  std::optional<Service> service_;
  std::thread thread_;
};

}  // namespace holdfast::server::testing
