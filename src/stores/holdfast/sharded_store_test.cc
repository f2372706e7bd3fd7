#include "src/stores/holdfast/sharded_store.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/port/service/shards.h"
#include "src/port/test_unasked_store.h"

namespace holdfast::stores::holdfast {
namespace {

using namespace std::chrono_literals;
using base::BootClock;
using port::AcquisitionState;
using States = std::vector<Result<AcquisitionState>>;

constexpr std::uint32_t kShards = 3;
constexpr auto kAtMost = 60s;

// The shards' stores were asked this.
struct Seen {
  std::mutex loop;  // The answers of a real store come on the loop, one at a time.
  std::mutex mutex;
  std::condition_variable changed;
  std::uint32_t hangs = kShards;  // That shard does not answer.
  std::vector<std::size_t> asked = std::vector<std::size_t>(kShards);
  std::size_t given_up = 0;
  std::set<std::uint32_t> silent{};  // These answer no question within its time.
  std::vector<std::string> alarms{};
  std::vector<port::EventSink> sinks = std::vector<port::EventSink>(kShards);

  template <typename Condition>
  bool await(Condition condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, kAtMost, condition);
  }
};

// Renews what it is asked to, or waits until it is given up.
class OneShard final : public port::UnaskedStore {
 public:
  OneShard(std::uint32_t shard, Seen& seen) : shard_(shard), seen_(seen) {}

  void renew(std::vector<port::RenewItem> items, base::BootInstant deadline,
             port::Done<States> done) override {
    States states;
    for (const port::RenewItem& each : items) {
      EXPECT_EQ(port::shard_of(each.name, kShards), shard_) << each.name;
      states.emplace_back(AcquisitionState{.seq = each.seq});
    }
    std::unique_lock lock(seen_.mutex);
    ++seen_.asked[shard_];
    seen_.changed.notify_all();
    const std::size_t before = seen_.given_up;
    const bool answers = seen_.hangs != shard_ ||
                         !seen_.changed.wait_for(
                             lock, std::min<BootClock::duration>(deadline - BootClock::now(), 60s),
                             [&] { return seen_.given_up > before; });
    lock.unlock();
    const std::lock_guard one_at_a_time(seen_.loop);
    answers ? done(std::move(states)) : done(Error(Errc::kOutcomeUnknown, "given up"));
  }
  void give_up_renewal() noexcept override {
    const std::lock_guard lock(seen_.mutex);
    ++seen_.given_up;
    seen_.changed.notify_all();
  }
  void list(std::string, std::size_t, base::BootInstant,
            port::Done<std::vector<LockInfo>> done) override {
    if (seen_.silent.contains(shard_)) return done(silence());
    LockInfo lock;
    lock.name = "lock-" + std::to_string(shard_);
    done(std::vector{lock});
  }
  void begin_watch(port::EventSink sink, const port::Done<BegunWatch>& done) {
    seen_.sinks[shard_] = std::move(sink);
    BegunWatch begun{{std::shared_ptr<void>(&seen_, [shard = shard_](void* seen) {
      static_cast<Seen*>(seen)->sinks[shard] = nullptr;
    })}};
    if (seen_.silent.contains(shard_)) begun.unconfirmed = silence();
    done(std::move(begun));
  }
  void close(base::BootInstant) override { give_up_renewal(); }

 private:
  static Error silence() { return {Errc::kUnavailable, "no answer in time"}; }

  const std::uint32_t shard_;
  Seen& seen_;
};

class ShardedStoreTest : public ::testing::Test, port::Listener {
 protected:
  ShardedStoreTest() {
    std::vector<ServiceShard> shards;
    for (std::uint32_t shard = 0; shard < kShards; ++shard) {
      auto one = std::make_unique<OneShard>(shard, seen_);
      const auto watch = [&one = *one](const std::string&, port::EventSink sink, base::BootInstant,
                                       const port::Done<BegunWatch>& done) {
        one.begin_watch(std::move(sink), done);
      };
      shards.push_back({std::move(one), watch});
    }
    store_ = make_sharded_store(std::move(shards), *this);
  }
  ~ShardedStoreTest() override { store_->close(BootClock::now()); }

  static port::RenewItem item_of(std::uint32_t shard, std::uint64_t seq) {
    for (int i = 0;; ++i) {
      std::string name = "name-" + std::to_string(i);
      if (port::shard_of(name, kShards) == shard) return {std::move(name), {1, 1}, seq, {}, {}, {}};
    }
  }
  // The answer comes on a thread of the store, in this test.
  struct Told {
    Seen& seen;
    std::optional<Result<States>> states{};
  };
  std::shared_ptr<Told> renew(std::vector<port::RenewItem> items,
                              std::chrono::milliseconds time = kAtMost) {
    auto told = std::make_shared<Told>(Told{seen_});
    store_->renew(std::move(items), BootClock::now() + time, [told](Result<States> states) {
      const std::lock_guard lock(told->seen.mutex);
      told->states = std::move(states);
      told->seen.changed.notify_all();
    });
    return told;
  }
  bool await_answer(const Told& told) {
    return seen_.await([&] { return told.states.has_value(); });
  }
  void hang(std::uint32_t shard) {
    const std::lock_guard lock(seen_.mutex);
    seen_.hangs = shard;
  }

  // The fake shards answer at once.
  Result<std::vector<LockInfo>> list(std::size_t limit = 10) {
    Result<std::vector<LockInfo>> told = Error(Errc::kUnavailable, "not answered");
    store_->list("", limit, BootClock::now(),
                 [&](Result<std::vector<LockInfo>> found) { told = std::move(found); });
    return told;
  }
  Result<port::WatchHandle> watch() {
    Result<port::WatchHandle> told = Error(Errc::kUnavailable, "not answered");
    store_->watch(
        "", [this](const LockEvent& event) { events_.push_back(event.name); }, BootClock::now(),
        [&](Result<port::WatchHandle> handle) { told = handle; });
    return told;
  }

  Seen seen_;
  std::vector<std::string> events_;
  std::unique_ptr<port::Store> store_;

 private:
  void on_push(const port::Push&) override {}
  void on_alarm(const std::string& line) override { seen_.alarms.push_back(line); }
};

TEST_F(ShardedStoreTest, AShardThatHangsHoldsUpNoOtherOne) {
  hang(0);
  const auto hanging = renew({item_of(0, 1)});
  ASSERT_TRUE(seen_.await([&] { return seen_.asked[0] == 1; }));
  for (const std::uint32_t shard : {1U, 2U}) {
    const auto told = renew({item_of(shard, 7)});
    ASSERT_TRUE(await_answer(*told));
    EXPECT_EQ(told->states->value().at(0).value().seq, 7U);
  }
  const std::lock_guard lock(seen_.mutex);
  EXPECT_FALSE(hanging->states.has_value());
  EXPECT_EQ(seen_.given_up, 0U) << "the hanging one has its time";
}

TEST_F(ShardedStoreTest, EachShardIsAGroupOfRenewals) {
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    EXPECT_EQ(store_->renewal_group(item_of(shard, 1).name), shard);
  }
}

TEST_F(ShardedStoreTest, WhatComesTogetherIsAnsweredTogetherInItsOrder) {
  const auto told = renew({item_of(2, 5), item_of(0, 6), item_of(2, 7)});
  ASSERT_TRUE(await_answer(*told));
  const States& states = told->states->value();
  ASSERT_EQ(states.size(), 3U);
  EXPECT_EQ(states[0].value().seq, 5U);
  EXPECT_EQ(states[1].value().seq, 6U);
  EXPECT_EQ(states[2].value().seq, 7U);
  const auto none = renew({});
  ASSERT_TRUE(await_answer(*none));
  EXPECT_TRUE(none->states->value().empty());
}

// One with little time waits for half of it, also if it came before the first one was sent.
TEST_F(ShardedStoreTest, ARenewalThatHangsIsGivenUpForOneOfItsShard) {
  hang(1);
  const auto hanging = renew({item_of(1, 1)});
  const auto next = renew({item_of(1, 2)}, 200ms);
  ASSERT_TRUE(await_answer(*hanging));
  EXPECT_EQ(hanging->states->error().code(), Errc::kOutcomeUnknown);
  EXPECT_TRUE(seen_.await([&] { return seen_.asked[1] == 2; }));
  hang(kShards);
  EXPECT_TRUE(await_answer(*next));
}

TEST_F(ShardedStoreTest, TheEndAnswersWhatWaits) {
  hang(0);
  std::vector<std::shared_ptr<Told>> all;
  for (std::uint64_t seq = 1; seq < 4; ++seq) all.push_back(renew({item_of(0, seq)}));
  ASSERT_TRUE(seen_.await([&] { return seen_.asked[0] == 1; }));
  hang(kShards);
  store_->close(BootClock::now());
  for (const auto& each : all) EXPECT_TRUE(each->states.has_value());
  EXPECT_TRUE(await_answer(*renew({item_of(0, 4)}))) << "afterwards the store itself answers";
}

TEST_F(ShardedStoreTest, AListHasTheLocksOfTheShardsThatAnswerAndNamesTheOthers) {
  seen_.silent = {1};
  const auto found = list();
  ASSERT_TRUE(found) << found.error().message();
  ASSERT_EQ(found->size(), 2U);
  EXPECT_EQ(found->at(0).name, "lock-0");
  EXPECT_EQ(found->at(1).name, "lock-2");
  ASSERT_EQ(seen_.alarms.size(), 1U);
  EXPECT_EQ(seen_.alarms.front(), "shard 1: no answer in time; this list has none of its locks");
  EXPECT_EQ(list(1)->size(), 1U);
}

TEST_F(ShardedStoreTest, AListFailsWhereNoShardAnswers) {
  seen_.silent = {0, 1, 2};
  const auto found = list();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message(), "shard 0: no answer in time");
  EXPECT_TRUE(seen_.alarms.empty());
}

// Its changes come when the shard answers again.
TEST_F(ShardedStoreTest, AWatchGoesOnAtAShardThatDoesNotAnswer) {
  seen_.silent = {2};
  {
    const auto handle = watch();
    ASSERT_TRUE(handle) << handle.error().message();
    ASSERT_EQ(seen_.alarms.size(), 1U);
    EXPECT_TRUE(seen_.alarms.front().starts_with("shard 2: no answer in time;"));
    for (std::uint32_t shard = 0; shard < kShards; ++shard) {
      ASSERT_NE(seen_.sinks[shard], nullptr);
      LockEvent event;
      event.name = std::to_string(shard);
      seen_.sinks[shard](event);
    }
    EXPECT_EQ(events_, (std::vector<std::string>{"0", "1", "2"}));
  }
  for (const port::EventSink& each : seen_.sinks) EXPECT_EQ(each, nullptr) << "it has ended";
}

TEST_F(ShardedStoreTest, AWatchFailsWhereNoShardAnswers) {
  seen_.silent = {0, 1, 2};
  EXPECT_FALSE(watch());
  for (const port::EventSink& each : seen_.sinks) EXPECT_EQ(each, nullptr);
}

}  // namespace
}  // namespace holdfast::stores::holdfast
