// Real processes on one database that are stopped and killed.
#include "tests/library/player.h"

namespace holdfast::testing {
namespace {

class ProcessTest : public ::testing::Test {
 protected:
  Player player(std::chrono::milliseconds ttl) {
    return Player(url_, "stock", ttl, directory_.path() + "/resource");
  }

  TempDirectory directory_;
  const std::string url_ = "sqlite://" + directory_.path() + "/locks.db";
};

constexpr auto kTtl = 1500ms;

TEST_F(ProcessTest, AKilledHolderCostsItsLeaseAndNoMore) {
  Player holder = player(kTtl);
  Player next = player(kTtl);
  holder.tell("acquire");
  const Token first = holder.held();
  next.tell("acquire");
  ASSERT_EQ(next.line(), "queued 0");
  holder.kill(SIGKILL);
  EXPECT_GT(next.held(kTtl + 1000ms), first);
  EXPECT_EQ(next.ask("held"), "yes");
}

// The dead one's ticket may be granted to nobody for its own lease, and the others go on.
class DeadWaiterTest : public ProcessTest, public ::testing::WithParamInterface<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(HeadMiddleEnd, DeadWaiterTest, ::testing::Values(0U, 1U, 2U));

TEST_P(DeadWaiterTest, TheOthersGoOnWithinTheDeadOnesLease) {
  Player holder = player(kTtl);
  holder.tell("acquire");
  Token last = holder.held();
  std::vector<std::unique_ptr<Player>> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.push_back(
        std::make_unique<Player>(url_, "stock", kTtl, directory_.path() + "/resource"));
    waiters.back()->tell("acquire");
    ASSERT_EQ(waiters.back()->line(), "queued " + std::to_string(i));
  }
  waiters[GetParam()]->kill(SIGKILL);
  ASSERT_EQ(holder.ask("release"), "released");
  for (std::size_t i = 0; i < 3; ++i) {
    if (i == GetParam()) continue;
    const Token token = waiters[i]->held(kTtl + 1000ms);
    EXPECT_GT(token, last) << "waiter " << i;
    last = token;
    EXPECT_EQ(waiters[i]->ask("release"), "released");
  }
}

TEST_F(ProcessTest, HoldersThatAreKilledOneAfterTheOtherCostTheirLeases) {
  Token last;
  for (int round = 0; round < 5; ++round) {
    Player doomed = player(400ms);
    doomed.tell("acquire");
    const Token token = doomed.held(400ms + 1000ms);
    EXPECT_GT(token, last);
    last = token;
    doomed.kill(SIGKILL);
  }
}

TEST_F(ProcessTest, AHolderStoppedForHalfALeaseStillHolds) {
  constexpr auto kLong = 3000ms;
  Player holder = player(kLong);
  Player next = player(kLong);
  holder.tell("acquire");
  holder.held();
  next.tell("acquire");
  ASSERT_EQ(next.line(), "queued 0");
  holder.stop();
  std::this_thread::sleep_for(kLong / 2);
  holder.go_on();
  EXPECT_EQ(holder.ask("held"), "yes");
  EXPECT_EQ(holder.ask("write"), "written");
  EXPECT_EQ(next.line(100ms), "(nothing)");
  EXPECT_EQ(holder.ask("release"), "released");
  next.held();
}

// Stopped for one lease and for three: whoever wakes up holds nothing, and the resource refuses.
class StoppedHolderTest : public ProcessTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Leases, StoppedHolderTest, ::testing::Values(1, 3));

TEST_P(StoppedHolderTest, KnowsItWhenItWakesAndItsLateWriteIsRefused) {
  Player holder = player(kTtl);
  Player next = player(kTtl);
  holder.tell("acquire");
  const Token old = holder.held();
  ASSERT_EQ(holder.ask("write"), "written");
  next.tell("acquire");
  ASSERT_EQ(next.line(), "queued 0");

  const auto stopped_at = std::chrono::steady_clock::now();
  holder.stop();
  holder.tell("held");  // Read the moment it wakes.
  holder.tell("write");
  const Token newer = next.held(kTtl + 1000ms);
  EXPECT_GT(newer, old);
  EXPECT_EQ(next.ask("write"), "written");
  std::this_thread::sleep_until(stopped_at + GetParam() * kTtl);
  holder.go_on();
  EXPECT_EQ(holder.line(), "no");
  EXPECT_EQ(holder.line(), "refused");
  EXPECT_EQ(holder.ask("wait-lost"), "lost kLost");
  EXPECT_EQ(holder.ask("release"), "error kLost");
  EXPECT_EQ(next.ask("held"), "yes");
  EXPECT_EQ(next.ask("write"), "written");
  EXPECT_EQ(next.ask("release"), "released");
}

TEST_F(ProcessTest, AWaiterStoppedPastItsLeaseAsksAnewAndGetsItsTurn) {
  Player holder = player(kTtl);
  Player waiter = player(500ms);
  holder.tell("acquire");
  const Token first = holder.held();
  waiter.tell("acquire");
  ASSERT_EQ(waiter.line(), "queued 0");
  waiter.stop();
  std::this_thread::sleep_for(1000ms);
  waiter.go_on();
  EXPECT_EQ(holder.ask("held"), "yes");
  ASSERT_EQ(holder.ask("release"), "released");
  EXPECT_GT(waiter.held(), first);
}

TEST_F(ProcessTest, ABrokenHolderInAnotherProcessIsTold) {
  Player holder = player(60s);
  holder.tell("acquire");
  const Token token = holder.held();
  const Client root = connect_or_die(url_);
  ASSERT_TRUE(root.break_lock("stock", token, "test"));
  EXPECT_EQ(holder.ask("wait-lost"), "lost kBroken");
  EXPECT_EQ(holder.ask("held"), "no");
  EXPECT_EQ(holder.ask("release"), "error kBroken");
}

}  // namespace
}  // namespace holdfast::testing
