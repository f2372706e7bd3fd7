// What happens to those who wait: killed or stopped, anywhere in the queue.
#include <memory>
#include <ostream>
#include <vector>

#include <gtest/gtest.h>

#include "tests/faults/process_harness.h"

namespace holdfast::faults {
namespace {

constexpr milliseconds kLease = 1s;
constexpr std::size_t kQueue = 5;

struct Deaths {
  const char* name;
  std::vector<std::size_t> dead;
  friend void PrintTo(const Deaths& deaths, std::ostream* out) { *out << deaths.name; }
};

class DeadWaiterTest : public testing::TestWithParam<Deaths> {};

INSTANTIATE_TEST_SUITE_P(Places, DeadWaiterTest,
                         testing::Values(Deaths{"Head", {0}}, Deaths{"Middle", {2}},
                                         Deaths{"End", {4}}, Deaths{"HeadMiddleAndEnd", {0, 2, 4}}),
                         [](const auto& each) { return each.param.name; });

// The detour through dead waiters costs one lease, however many have died: theirs end together.
TEST_P(DeadWaiterTest, TheOthersGetItInOrderWithinTheDeadOnesLease) {
  const TempFolder folder;
  ActorProcess holder(folder.url());
  const Line held = holder.ask("acquire a 1000");
  ASSERT_EQ(held.word, "granted");
  std::vector<std::unique_ptr<ActorProcess>> queue;
  for (std::size_t i = 0; i < kQueue; ++i) {
    queue.push_back(std::make_unique<ActorProcess>(folder.url()));
    const Line queued = queue.back()->queue_up("a", kLease);
    ASSERT_EQ(queued.number("ahead"), static_cast<std::int64_t>(i));
  }
  for (const std::size_t i : GetParam().dead) queue[i].reset();
  const Line released = holder.ask("release");
  ASSERT_EQ(released.word, "ok");

  std::string token = held.get("token");
  std::int64_t freed = released.number("invoked");
  for (const auto& waiter : queue) {
    if (!waiter) continue;
    const Line granted = waiter->answer();
    ASSERT_EQ(granted.word, "granted") << granted.get("text");
    EXPECT_GE(granted.number("at"), freed) << "out of order";
    EXPECT_LE(granted.number("at") - released.number("invoked"), ns(kLease + 1s));
    EXPECT_GT(granted.get("token"), token);
    token = granted.get("token");
    const Line done = waiter->ask("release");
    ASSERT_EQ(done.word, "ok") << done.get("text");
    freed = done.number("invoked");
  }
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
