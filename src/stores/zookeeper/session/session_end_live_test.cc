// A session that ends between an answer and what is asked behind it, on a real server.
#include <functional>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "src/stores/zookeeper/test_rig.h"
#include "src/stores/zookeeper/transport/link.h"
#include "tests/support/zookeeper_server.h"

namespace holdfast::stores::zookeeper::testing {
namespace {

class ZookeeperSessionEndLiveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_ZOOKEEPER();
    server_.emplace();
    rig_.emplace(server_->url("/?session=3s"));
  }

  // `asked` is answered, but the client comes to look at that when its session has ended.
  void end_session_before_the_answer(const std::function<void()>& ask) {
    while (rig_->loop.run_one()) {
    }
    ask();
    ASSERT_TRUE(rig_->loop.wait_for_post());
    const std::uint64_t epoch = rig_->epoch;
    const BootInstant until = Rig::soon();
    while (rig_->ended_epoch != epoch && BootClock::now() < until) {
      rig_->io.restart();
      rig_->io.run_one_for(10ms);
    }
    ASSERT_EQ(rig_->ended_epoch, epoch);
  }

  contend::Entered enter() {
    const auto entered = rig_->enter("orders", Rig::new_key());
    rig_->await<contend::Entered>({entered});
    EXPECT_TRUE(entered.get());
    return entered.get().value();
  }
  contend::Change change_of_the_lock() const {
    contend::Change change;
    change.lock = "orders";
    change.epoch = rig_->epoch;
    return change;
  }
  // Asked for in a session that ends before the first answer comes to the client.
  void expect_not_made(const contend::Change& change) {
    Rig::Answer<std::optional<std::uint64_t>> applied;
    ASSERT_NO_FATAL_FAILURE(end_session_before_the_answer(
        [&] { rig_->backend().apply(change, Rig::soon(), applied.done()); }));
    rig_->await<std::optional<std::uint64_t>>({applied});
    ASSERT_FALSE(applied.get());
    EXPECT_EQ(applied.get().error().code(), Errc::kLost);
  }

  std::optional<support::ZookeeperServer> server_;
  std::optional<Rig> rig_;
};

TEST_F(ZookeeperSessionEndLiveTest, AFolderThatIsToBeMadeIsNotMadeForAnEndedSession) {
  Rig::Answer<contend::Entered> entered;
  ASSERT_NO_FATAL_FAILURE(
      end_session_before_the_answer([&] { entered = rig_->enter("orders", Rig::new_key()); }));
  rig_->await<contend::Entered>({entered});
  ASSERT_FALSE(entered.get());
  EXPECT_EQ(entered.get().error().code(), Errc::kLost);
}

TEST_F(ZookeeperSessionEndLiveTest, AListingInFullGoesOnInTheNextSession) {
  const auto key = Rig::new_key();
  const auto entered = rig_->enter("orders", key);
  rig_->await<contend::Entered>({entered});
  ASSERT_TRUE(entered.get());
  Rig::Answer<contend::Listing> listed;
  ASSERT_NO_FATAL_FAILURE(end_session_before_the_answer(
      [&] { rig_->backend().list_in_full("orders", Rig::soon(), listed.done()); }));
  rig_->await<contend::Listing>({listed});
  EXPECT_TRUE(listed.get()) << listed.get().error().message();
}

TEST_F(ZookeeperSessionEndLiveTest, AChangeThatExpectsTheRecordIsNotMadeByAnEndedSession) {
  const auto entered = enter();
  contend::Change change = change_of_the_lock();
  change.record_rev = entered.listing.record_rev;
  change.record.emplace();
  expect_not_made(change);
}

TEST_F(ZookeeperSessionEndLiveTest, AFirstValueIsNotWrittenByAnEndedSession) {
  enter();
  contend::Change change = change_of_the_lock();
  change.value = "something";
  expect_not_made(change);
}

TEST(ZookeeperBaseLiveTest, AFolderOfAllLocksThatIsMissingIsMade) {
  HOLDFAST_NEEDS_ZOOKEEPER();
  support::ZookeeperServer server;
  Rig rig(server.url("/?session=30s"));
  bool connected = false;
  const auto link = Link::open({server.servers(), "", 30s}, rig.loop, [&](LinkEvent event) {
    connected = connected || event == LinkEvent::kConnected;
  });
  ASSERT_TRUE(rig.run_until([&] { return connected; }));
  std::optional<Reply> removed;
  link->remove("/hf1/locks", Link::Done::always([&](const Reply& reply) { removed = reply; }));
  ASSERT_TRUE(rig.run_until([&] { return removed.has_value(); }));
  ASSERT_EQ(removed->rc, 0);
  const auto entered = rig.enter("orders", Rig::new_key());
  rig.await<contend::Entered>({entered});
  EXPECT_TRUE(entered.get()) << entered.get().error().message();
  link->close();
}

// Answers that come when the backend is gone find nothing to touch: the address sanitizer would see
// it.
class ZookeeperClosedLiveTest : public ZookeeperSessionEndLiveTest {
 protected:
  // The server answers the first request of `ask` and nothing behind it.
  template <typename T>
  void expect_closed_behind_the_first_answer(const std::function<void(port::Done<T>)>& ask) {
    while (rig_->loop.run_one()) {
    }
    const Rig::Answer<T> answer;
    ask(answer.done());
    ASSERT_TRUE(rig_->loop.wait_for_post());
    server_->pause();
    rig_->loop.run_one();
    rig_->close([&] { return answer.given(); });
    rig_.reset();
    server_->resume();
    ASSERT_TRUE(answer.given());
    ASSERT_FALSE(answer.get());
    EXPECT_EQ(answer.get().error().code(), Errc::kClosed);
  }
};

TEST_F(ZookeeperClosedLiveTest, AFolderThatIsBeingMade) {
  expect_closed_behind_the_first_answer<contend::Entered>([&](auto done) {
    rig_->backend().enter(rig_->epoch, "orders", Rig::new_key(), {}, Rig::soon(), std::move(done));
  });
}

TEST_F(ZookeeperClosedLiveTest, AFolderThatIsBeingRead) {
  enter();
  expect_closed_behind_the_first_answer<contend::Listing>([&](auto done) {
    rig_->backend().list_in_full("orders", Rig::soon(), std::move(done));
    // The first answer is sync()'s.
    ASSERT_TRUE(rig_->loop.wait_for_post());
    rig_->loop.run_one();
  });
}

// A server that has come back gives each session its whole time again.
TEST(ZookeeperSessionAwayLiveTest, ASessionThatEndedWhileTheServerWasAwayIsClosedAfterwards) {
  HOLDFAST_NEEDS_ZOOKEEPER();
  constexpr auto kLength = 12s;
  support::ZookeeperServer server;
  Rig rig(server.url("/?session=12s"));
  const auto entered = rig.enter("orders", Rig::new_key());
  rig.await<contend::Entered>({entered});
  ASSERT_TRUE(entered.get());
  server.kill9();
  ASSERT_TRUE(rig.run_until([&] { return rig.ended_epoch == rig.epoch; }));
  server.start();
  server.await_serving();
  const BootInstant back = BootClock::now();
  const auto queue = [&] {
    return rig.wait<contend::Listing>([&](auto done) {
      rig.backend().list("orders", /*latest=*/true, nullptr, Rig::soon(), std::move(done));
    });
  };
  auto listed = queue();
  while (listed && !listed->queue.empty() && BootClock::now() < back + 3 * kLength / 4) {
    listed = queue();
  }
  ASSERT_TRUE(listed) << listed.error().message();
  EXPECT_TRUE(listed->queue.empty());
}

}  // namespace
}  // namespace holdfast::stores::zookeeper::testing
