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
    queue.back()->send("acquire a 1000");
    ASSERT_EQ(queue.back()->event("queued").number("ahead"), static_cast<std::int64_t>(i));
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

TEST(StoppedWaiterTest, OthersPassItWhenItsTicketHasRunOutAndItQueuesAgain) {
  const TempFolder folder;
  ActorProcess holder(folder.url());
  ActorProcess stopped(folder.url());
  ActorProcess other(folder.url());
  ASSERT_EQ(holder.ask("acquire a 1000").word, "granted");
  stopped.send("acquire a 1000");
  stopped.event("queued");
  other.send("acquire a 1000");
  other.event("queued");

  stopped.stop();
  let_pass(kLease + 300ms);
  const Line released = holder.ask("release");
  const Line passed = other.answer();
  ASSERT_EQ(passed.word, "granted");
  EXPECT_LT(passed.number("at") - released.number("invoked"), ns(500ms)) << "it was in the way";
  stopped.resume();
  // It must be in the queue again before the lock is free, or else this shows nothing.
  while (other.ask("look a").number("waiters") == 0) let_pass(10ms);
  EXPECT_EQ(other.ask("state").get("held"), "yes");
  const Line second = other.ask("release");
  const Line back = stopped.answer();
  ASSERT_EQ(back.word, "granted") << back.get("text");
  EXPECT_GE(back.number("at"), second.number("invoked"));
  EXPECT_GT(back.get("token"), passed.get("token"));
  EXPECT_EQ(stopped.ask("release").word, "ok");
}

// The lock is handed to a waiter that cannot run: the grant lasts as long as its ticket would have.
TEST(StoppedWaiterTest, AGrantToAStoppedWaiterLastsNoLongerThanItsTicket) {
  const TempFolder folder;
  ActorProcess holder(folder.url());
  ActorProcess stopped(folder.url());
  ActorProcess other(folder.url());
  ASSERT_EQ(holder.ask("acquire a 1000").word, "granted");
  stopped.send("acquire a 1000");
  stopped.event("queued");
  other.send("acquire a 1000");
  other.event("queued");

  const std::int64_t paused = stopped.stop();
  ASSERT_EQ(holder.ask("release").word, "ok");
  const Line passed = other.answer();
  ASSERT_EQ(passed.word, "granted");
  EXPECT_LE(passed.number("at") - paused, ns(kLease + 1s));
  stopped.resume();
  EXPECT_FALSE(stopped.has_event("lost")) << "it was never told that it holds";
  while (other.ask("look a").number("waiters") == 0) let_pass(10ms);
  EXPECT_EQ(other.ask("state").get("held"), "yes");
  const Line second = other.ask("release");
  ASSERT_EQ(second.word, "ok") << second.get("text");
  const Line back = stopped.answer();
  ASSERT_EQ(back.word, "granted");
  EXPECT_GE(back.number("at"), second.number("invoked")) << "two at once";
  EXPECT_GT(back.get("token"), passed.get("token"));
}

}  // namespace
}  // namespace holdfast::faults
