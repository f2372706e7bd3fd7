// Waiters are killed or stopped, anywhere in the queue.
#include <memory>
#include <ostream>
#include <vector>

#include <gtest/gtest.h>

#include "tests/faults/dead_waiters.h"
#include "tests/faults/process_harness.h"

namespace holdfast::faults {
namespace {

constexpr milliseconds kLease = 1s;

class DeadWaiterTest : public testing::TestWithParam<Deaths> {};

INSTANTIATE_TEST_SUITE_P(Places, DeadWaiterTest, all_places_of_death(),
                         [](const auto& each) { return each.param.name; });

TEST_P(DeadWaiterTest, TheOthersGetItInOrderWithinTheDeadOnesLease) {
  const TempFolder folder;
  expect_that_dead_waiters_cost_one_lease(folder.url(), GetParam().dead);
}

// A holder; one that waits and will be stopped; and another that waits behind it.
class StoppedWaiterTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(holder_.ask("acquire a 1000").word, "granted");
    stopped_.queue_up("a", kLease);
    other_.queue_up("a", kLease);
  }

  // It goes on while the other one holds, queues again and gets the lock when that is released.
  void expect_its_turn_after(const Line& passed) {
    // It must be in the queue again before the lock is free, or else this shows nothing.
    wait_for_a_waiter(other_, "a");
    EXPECT_EQ(other_.ask("state").get("held"), "yes");
    const Line released = other_.ask("release");
    ASSERT_EQ(released.word, "ok") << released.get("text");
    const Line back = stopped_.answer();
    ASSERT_EQ(back.word, "granted") << back.get("text");
    EXPECT_GE(back.number("at"), released.number("invoked")) << "two at once";
    EXPECT_GT(back.get("token"), passed.get("token"));
    EXPECT_EQ(stopped_.ask("release").word, "ok");
  }

  TempFolder folder_;
  ActorProcess holder_{folder_.url()};
  ActorProcess stopped_{folder_.url()};
  ActorProcess other_{folder_.url()};
};

TEST_F(StoppedWaiterTest, OthersPassItWhenItsTicketHasRunOutAndItQueuesAgain) {
  stop_between_commits(stopped_, folder_);
  let_pass(kLease + 300ms);
  const Line released = holder_.ask("release");
  const Line passed = other_.answer();
  ASSERT_EQ(passed.word, "granted");
  EXPECT_LT(passed.number("at") - released.number("invoked"), ns(500ms)) << "it was in the way";
  stopped_.resume();
  expect_its_turn_after(passed);
}

// The lock is handed to a waiter that cannot run: the grant lasts as long as its ticket would have.
TEST_F(StoppedWaiterTest, AGrantToAStoppedWaiterLastsNoLongerThanItsTicket) {
  const std::int64_t paused = stop_between_commits(stopped_, folder_);
  ASSERT_EQ(holder_.ask("release").word, "ok");
  const Line passed = other_.answer();
  ASSERT_EQ(passed.word, "granted");
  EXPECT_LE(passed.number("at") - paused, ns(kLease + 1s));
  stopped_.resume();
  EXPECT_FALSE(stopped_.has_event("lost")) << "it was never told that it holds";
  expect_its_turn_after(passed);
}

}  // namespace
}  // namespace holdfast::faults
