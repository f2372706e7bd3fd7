// Several shards of one server, on its loop and their threads, with journals in memory.
#include "src/server/served_shard.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <gtest/gtest.h>

#include "src/server/run_on_loop.h"

namespace holdfast::server {
namespace {

using namespace std::chrono_literals;

constexpr auto kAtMost = 60s;

// A server's loop, and what its shards tell.
class Owner final : public ShardOwner {
 public:
  explicit Owner(std::uint32_t shards, const std::string& journal = "memory:") : told_(shards) {
    for (std::uint32_t shard = 0; shard < shards; ++shard) {
      shards_.push_back(std::make_unique<ServedShard>(
          io_, *this,
          ServedShardOptions{
              .journal = journal, .shard = {shard, shards}, .address = "here", .shared = true}));
      EXPECT_TRUE(shards_.back()->start(nullptr));
    }
  }
  ~Owner() {
    stop();
    work_.reset();
    loop_.join();
  }
  void stop() {
    for (const auto& each : shards_) each->stop();
  }
  ServedShard& operator[](std::uint32_t shard) { return *shards_[shard]; }

  struct Told {
    Service* service = nullptr;  // The loop's.
    std::string leader{};
    std::size_t begun = 0;
    std::size_t ended = 0;
    std::size_t granted = 0;
    std::size_t changes = 0;
    std::string failure{};
  };
  template <typename Condition>
  bool await(std::uint32_t shard, Condition condition, std::chrono::milliseconds time = kAtMost) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return condition(told_[shard]); });
  }
  bool await_lead(std::uint32_t shard) {
    return await(shard, [](const Told& told) { return told.begun > told.ended; });
  }
  bool await_end(std::uint32_t shard, std::size_t ended) {
    return await(shard, [&](const Told& told) { return told.ended == ended; });
  }
  bool await_change(std::uint32_t shard, std::size_t changes) {
    return await(shard, [&](const Told& told) { return told.changes == changes; });
  }
  // On the loop, as clients' requests come. False: this server does not lead the shard.
  bool acquire(std::uint32_t shard, const std::string& name, std::uint64_t id) {
    bool asked = false;
    run_on_loop(io_, [&] {
      Service* const service = told_[shard].service;
      if (service == nullptr) return;
      machine::Acquire wish{name, {1, id}};
      wish.ttl = wish.waiter_ttl = 60s;
      service->submit({.action = wish}, [](const Result<Answer>&) {});
      asked = true;
    });
    return asked;
  }

 private:
  void tell(std::uint32_t shard, const std::function<void(Told&)>& change) {
    const std::lock_guard lock(mutex_);
    change(told_[shard]);
    changed_.notify_all();
  }
  void serve(std::uint32_t shard, Service& service) override {
    tell(shard, [&](Told& told) {
      EXPECT_EQ(told.service, nullptr) << "one service at a time";
      told.service = &service;
      ++told.begun;
    });
  }
  void stand_by(std::uint32_t shard, const std::string& leader) override {
    tell(shard, [&](Told& told) {
      told.ended += std::exchange(told.service, nullptr) != nullptr ? 1 : 0;
      told.leader = leader;
    });
  }
  void on_push(std::uint32_t, const ClientName&, const port::Push&) override {}
  void on_effect(std::uint32_t shard, const machine::Effect& effect, machine::Instant) override {
    if (effect.kind != machine::EffectKind::kGranted) return;
    tell(shard, [](Told& told) { ++told.granted; });
  }
  void on_term_end(std::uint32_t shard, const Error& reason) override {
    tell(shard, [&](Told& told) { told.failure = reason.message(); });
  }
  void warn(const std::string&) override {}
  void on_change(std::uint32_t shard) override {
    tell(shard, [](Told& told) { ++told.changes; });
  }
  void on_failure(std::uint32_t shard, const Error& reason) override {
    tell(shard, [&](Told& told) { told.failure = reason.message(); });
  }

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::thread loop_{[this] { io_.run(); }};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Told> told_;
  std::vector<std::unique_ptr<ServedShard>> shards_;
};

TEST(ServedShardTest, AShardLeadsAndStandsByAsThePlanSays) {
  Owner owner(2);
  owner[1].try_to_lead();
  ASSERT_TRUE(owner.await_change(1, 1));
  EXPECT_TRUE(owner[1].lead().leads);
  EXPECT_FALSE(owner[0].lead().leads);
  EXPECT_TRUE(owner.acquire(1, "a", 1));
  EXPECT_FALSE(owner.acquire(0, "a", 1));
  EXPECT_TRUE(owner.await(1, [](const auto& told) { return told.granted == 1; }));
  owner[1].hand_over();
  ASSERT_TRUE(owner.await_change(1, 2));
  EXPECT_FALSE(owner[1].lead().leads);
  EXPECT_TRUE(owner[1].note_leader("another"));
  EXPECT_FALSE(owner[1].note_leader("another")) << "it is no news";
  EXPECT_TRUE(owner.await(1, [](const auto& told) { return told.leader == "another"; }));
  owner[1].try_to_lead();
  EXPECT_TRUE(owner.await_lead(1));
}

// The plan may be made from a view in which the shard is vacant still.
TEST(ServedShardTest, APlanOfBeforeTakesNoShardBackThatWasHandedOver) {
  Owner owner(2);
  owner[0].try_to_lead();
  ASSERT_TRUE(owner.await_lead(0));
  owner[0].try_to_lead();
  owner[0].hand_over();
  ASSERT_TRUE(owner.await_end(0, 1));
  EXPECT_FALSE(owner.await(
      0, [](const auto& told) { return told.begun == 2; }, 300ms));
  owner[0].try_to_lead();
  EXPECT_TRUE(owner.await(0, [](const auto& told) { return told.begun == 2; }));
}

TEST(ServedShardTest, AShardThatCannotBeServedLeavesTheOthers) {
  Owner broken(2, "nonsense:");
  broken[1].try_to_lead();
  EXPECT_TRUE(broken.await(1, [](const auto& told) { return !told.failure.empty(); }));
  EXPECT_FALSE(broken[1].lead().leads);
  broken[1].try_to_lead();  // Nobody listens any more.
  broken[1].hand_over();
}

// Plans, operators, clients and the end at the same time: for the thread sanitizer.
TEST(ServedShardTest, ShardsMoveWhileClientsAskAndTheServerStops) {
  constexpr std::uint32_t kShards = 4;
  Owner owner(kShards);
  std::vector<std::thread> planners;
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    planners.emplace_back([&owner, shard] {
      for (std::size_t round = 1; round <= 20; ++round) {
        owner[shard].try_to_lead();
        ASSERT_TRUE(owner.await_lead(shard));
        static_cast<void>(owner[shard].journal_id());
        owner[shard].note_leader("nobody");
        round % 2 == 0 ? owner[shard].hand_over() : owner[shard].step_down();
        ASSERT_TRUE(owner.await_end(shard, round));
        owner[shard].note_leader("another");
      }
      owner[shard].try_to_lead();
      ASSERT_TRUE(owner.await_lead(shard));
    });
  }
  std::uint64_t id = 0;
  for (std::size_t asked = 0; asked < 200; ++id) {
    asked += owner.acquire(id % kShards, "name-" + std::to_string(id), id) ? 1 : 0;
  }
  for (std::thread& each : planners) each.join();
  std::thread late([&] {
    for (std::uint32_t shard = 0; shard < kShards; ++shard) owner[shard].hand_over();
  });
  owner.stop();
  late.join();
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    EXPECT_FALSE(owner[shard].lead().leads);
    EXPECT_TRUE(owner.await(shard, [](const auto& told) { return told.begun == told.ended; }));
  }
}

}  // namespace
}  // namespace holdfast::server
