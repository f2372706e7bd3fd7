// The listing that is asked for when the news of a watch comes, on a real server.
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/stores/zookeeper/test_rig.h"
#include "tests/support/zookeeper_server.h"

namespace holdfast::stores::zookeeper::testing {
namespace {

using contend::Entered;
using contend::Listing;
using contend::QueueEntry;

class ZookeeperWakingLiveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_ZOOKEEPER();
    server_.emplace();
    rig_.emplace(server_->url("/?session=30s"));
  }

  QueueEntry enter(const std::string& lock) {
    const auto key = Rig::new_key();
    const auto entered = rig_->enter(lock, key);
    rig_->await<Entered>({entered});
    QueueEntry mine;
    if (!entered.get()) throw std::runtime_error(entered.get().error().message());
    for (const QueueEntry& place : entered.get()->listing.queue) {
      if (place.key == key) mine = place;
    }
    return mine;
  }
  // Whoever waits for that one lists `listed` when it has gone.
  contend::WakerPtr watch(const QueueEntry& place, const std::string& listed) {
    auto waker = std::make_shared<contend::Waker>();
    waker->wake = [this, listed] {
      rig_->backend().list(listed, /*latest=*/false, nullptr, Rig::soon(), answer_.done());
    };
    const auto read = rig_->wait<std::optional<contend::Read>>([&](auto done) {
      rig_->backend().read("orders", place, waker, Rig::soon(), std::move(done));
    });
    EXPECT_TRUE(read && *read);
    return waker;
  }
  const Result<Listing>& listing() {
    rig_->await<Listing>({answer_});
    return answer_.get();
  }

  std::optional<support::ZookeeperServer> server_;
  std::optional<Rig> rig_;
  Rig::Answer<Listing> answer_;
};

TEST_F(ZookeeperWakingLiveTest, WhoIsWokenSeesThatItsPredecessorHasGone) {
  const QueueEntry holder = enter("orders"), waiter = enter("orders");
  const auto waker = watch(holder, "orders");
  const auto removed = rig_->remove("orders", holder);
  ASSERT_TRUE(listing()) << listing().error().message();
  ASSERT_EQ(listing()->queue.size(), 1U);
  EXPECT_EQ(listing()->queue[0].key, waiter.key);
  rig_->await<bool>({removed});
}

TEST_F(ZookeeperWakingLiveTest, AnotherFolderIsListedByARequestOfItsOwn) {
  const QueueEntry holder = enter("orders"), elsewhere = enter("invoices");
  const auto waker = watch(holder, "invoices");
  const auto removed = rig_->remove("orders", holder);
  ASSERT_TRUE(listing()) << listing().error().message();
  ASSERT_EQ(listing()->queue.size(), 1U);
  EXPECT_EQ(listing()->queue[0].key, elsewhere.key);
}

// It is of the instant of the news, and good for who is woken by that only.
TEST_F(ZookeeperWakingLiveTest, WhoListsLaterAsksAnew) {
  const QueueEntry holder = enter("orders");
  auto waker = std::make_shared<contend::Waker>();
  bool woken = false;
  waker->wake = [&woken] { woken = true; };
  const auto read = rig_->wait<std::optional<contend::Read>>([&](auto done) {
    rig_->backend().read("orders", holder, waker, Rig::soon(), std::move(done));
  });
  ASSERT_TRUE(read && *read);
  const auto removed = rig_->remove("orders", holder);
  ASSERT_TRUE(rig_->run_until([&] { return woken; }));
  const QueueEntry next = enter("orders");
  rig_->backend().list("orders", /*latest=*/false, nullptr, Rig::soon(), answer_.done());
  ASSERT_TRUE(listing()) << listing().error().message();
  ASSERT_EQ(listing()->queue.size(), 1U);
  EXPECT_EQ(listing()->queue[0].key, next.key);
}

// The first request finds no folder and makes one. Requests that are sent meanwhile would find it.
TEST_F(ZookeeperWakingLiveTest, CallersOfANewLockEnterInTheirOrder) {
  std::vector<Rig::Answer<Entered>> answers;
  for (int i = 0; i < 200; ++i) {
    answers.push_back(rig_->enter("new", Rig::new_key()));
    if (rig_->loop.wait_for_post(1ms)) rig_->loop.run_one();
  }
  rig_->await<Entered>(answers);
  std::uint64_t last = 0;
  for (const auto& answer : answers) {
    ASSERT_TRUE(answer.get()) << answer.get().error().message();
    EXPECT_GT(answer.get()->created, last);
    last = answer.get()->created;
  }
}

}  // namespace
}  // namespace holdfast::stores::zookeeper::testing
