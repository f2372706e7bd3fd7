// Clocks that jump: the wall clock of running processes, and the boot time of a namespace.
#include <fstream>

#include <gtest/gtest.h>

#include "tests/faults/process_harness.h"

namespace holdfast::faults {
namespace {

constexpr milliseconds kLease = 1s;

std::string new_clock_file(const TempFolder& folder) {
  const std::string path = folder.file("clock");
  std::ofstream(path, std::ios::binary).write("\0\0\0\0\0\0\0\0", 8);
  return path;
}

std::string jump_by(std::chrono::hours hours) { return "jump " + std::to_string(ns(hours)); }

TEST(WallClockTest, AJumpForwardIsADoubtUntilTheStoreHasConfirmed) {
  const TempFolder folder;
  ActorProcess holder(folder.url(), {.clock_file = new_clock_file(folder)});
  ASSERT_EQ(holder.ask("acquire a 6000").word, "granted");
  // The next renewal by itself is two seconds away.
  ASSERT_EQ(holder.ask("renew").word, "ok");
  const Line jumped = holder.ask(jump_by(1h));
  ASSERT_EQ(jumped.number("seconds"), 3600) << "the clock did not jump";
  EXPECT_EQ(jumped.get("state"), "kInDoubt");
  // Asking was what made it renew.
  const std::int64_t patience = host_boot_ns() + ns(1500ms);
  Line state = holder.ask("state");
  while (state.get("state") != "kHeld" && host_boot_ns() < patience) {
    let_pass(5ms);
    state = holder.ask("state");
  }
  EXPECT_EQ(state.get("state"), "kHeld");
  EXPECT_EQ(state.get("held"), "yes");
  EXPECT_FALSE(holder.has_event("lost"));
  EXPECT_EQ(holder.ask("release").word, "ok");
}

TEST(WallClockTest, AJumpBackIsNoDoubt) {
  const TempFolder folder;
  ActorProcess holder(folder.url(), {.clock_file = new_clock_file(folder)});
  ASSERT_EQ(holder.ask("acquire a 6000").word, "granted");
  const Line jumped = holder.ask(jump_by(-1h));
  ASSERT_EQ(jumped.number("seconds"), -3600) << "the clock did not jump";
  EXPECT_EQ(jumped.get("state"), "kHeld");
  EXPECT_EQ(holder.ask("state").get("held"), "yes");
  EXPECT_EQ(holder.ask("release").word, "ok");
}

class WallClockJumpTest : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Hours, WallClockJumpTest, testing::Values(1, -1),
                         [](const auto& each) { return each.param > 0 ? "Forward" : "Back"; });

TEST_P(WallClockJumpTest, NeitherEndsALeaseNorGivesTheLockToASecond) {
  const TempFolder folder;
  const ActorOptions shifted{.clock_file = new_clock_file(folder)};
  ActorProcess holder(folder.url(), shifted);
  ActorProcess waiter(folder.url(), shifted);  // Its clock jumps too.
  ActorProcess witness(folder.url());          // Its clock does not.
  const Line held = holder.ask("acquire a 1000");
  ASSERT_EQ(held.word, "granted");
  waiter.queue_up("a", 1s);
  const Line jumped = holder.ask(jump_by(std::chrono::hours(GetParam())));
  ASSERT_EQ(jumped.number("seconds"), GetParam() * 3600) << "the clock did not jump";

  let_pass(2 * kLease + kLease / 2);
  EXPECT_EQ(witness.ask("look a").get("token"), held.get("token"));
  EXPECT_EQ(witness.ask("acquire a 1000 0").get("code"), "kTimedOut");
  EXPECT_EQ(holder.ask("state").get("held"), "yes");
  EXPECT_FALSE(holder.has_event("lost"));
  const Line released = holder.ask("release");
  ASSERT_EQ(released.word, "ok") << released.get("text");
  const Line next = waiter.answer();
  ASSERT_EQ(next.word, "granted");
  EXPECT_GE(next.number("at"), released.number("invoked"));
  EXPECT_GT(next.get("token"), held.get("token"));
}

TEST_P(WallClockJumpTest, LeavesAWaitAndADeadHoldersLeaseAsLongAsTheyWere) {
  const TempFolder folder;
  const ActorOptions shifted{.clock_file = new_clock_file(folder)};
  ActorProcess holder(folder.url(), shifted);
  ActorProcess waiter(folder.url(), shifted);
  ActorProcess impatient(folder.url(), shifted);
  const Line held = holder.ask("acquire a 2000");
  ASSERT_EQ(held.word, "granted");
  waiter.queue_up("a", 2s);
  impatient.send("acquire a 2000 700");
  impatient.event("queued");
  ASSERT_EQ(holder.ask("renew").word, "ok");
  const Line last = holder.ask("state");
  const Line jumped = holder.ask(jump_by(std::chrono::hours(GetParam())));
  ASSERT_EQ(jumped.number("seconds"), GetParam() * 3600) << "the clock did not jump";
  const std::int64_t killed = holder.kill();

  const Line gave_up = impatient.answer();
  EXPECT_EQ(gave_up.get("code"), "kTimedOut");
  EXPECT_GE(gave_up.number("at") - gave_up.number("invoked"), ns(700ms));
  EXPECT_LE(gave_up.number("at") - gave_up.number("invoked"), ns(1500ms));
  const Line next = waiter.answer();
  ASSERT_EQ(next.word, "granted");
  EXPECT_GE(next.number("at"), last.number("deadline"));
  EXPECT_LE(next.number("at") - killed, ns(2s + 1s));
  EXPECT_GT(next.get("token"), held.get("token"));
}

class TimeNamespaceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_root()) GTEST_SKIP() << "SKIPPED: a time namespace needs root";
    if (!time_namespaces_work()) GTEST_SKIP() << "SKIPPED: this kernel has no time namespaces";
  }
  const ActorOptions elsewhere_{.clock_file = "", .boottime_offset_s = 1000};
};

TEST_F(TimeNamespaceTest, TheLockIsOneInsideAndOutside) {
  const TempFolder folder;
  ActorProcess outside(folder.url());
  ActorProcess inside(folder.url(), elsewhere_);
  ActorProcess* holder = &outside;
  ActorProcess* waiter = &inside;
  Line held = holder->ask("acquire a 1000");
  ASSERT_EQ(held.word, "granted");
  for (int round = 0; round < 6; ++round) {
    EXPECT_LE(held.number("deadline"), held.number("at") + ns(kLease));
    EXPECT_EQ(waiter->ask("acquire a 1000 0").get("code"), "kTimedOut");
    waiter->queue_up("a", 1s);
    const Line released = holder->ask("release");
    ASSERT_EQ(released.word, "ok") << released.get("text");
    const Line next = waiter->answer();
    ASSERT_EQ(next.word, "granted");
    EXPECT_GE(next.number("at"), released.number("invoked"));
    EXPECT_GT(next.get("token"), held.get("token"));
    held = next;
    std::swap(holder, waiter);
  }
}

TEST_F(TimeNamespaceTest, ALeaseOfEitherSideIsAsLongAsItShouldBe) {
  const TempFolder folder;
  for (const bool dies_inside : {true, false}) {
    SCOPED_TRACE(dies_inside ? "dies inside" : "dies outside");
    ActorProcess dying(folder.url(), dies_inside ? elsewhere_ : ActorOptions{});
    ActorProcess other(folder.url(), dies_inside ? ActorOptions{} : elsewhere_);
    ASSERT_EQ(dying.ask("acquire a 1000").word, "granted");
    other.queue_up("a", 1s);
    // Longer than the lease: it is renewed.
    let_pass(kLease + kLease / 2);
    ASSERT_EQ(dying.ask("renew").word, "ok");
    const Line last = dying.ask("state");
    ASSERT_EQ(last.get("held"), "yes");
    const std::int64_t killed = dying.kill();
    const Line next = other.answer();
    ASSERT_EQ(next.word, "granted");
    EXPECT_GE(next.number("at"), last.number("deadline"));
    EXPECT_LE(next.number("at") - killed, ns(kLease + 1s));
    EXPECT_GT(next.get("token"), last.get("token"));
    EXPECT_EQ(other.ask("release").word, "ok");
  }
}

TEST_F(TimeNamespaceTest, AnInsiderLeftAloneKeepsTheLeasesOfTheDead) {
  const TempFolder folder;
  auto outside = std::make_unique<ActorProcess>(folder.url());
  const Line held = outside->ask("acquire a 2000");
  ASSERT_EQ(held.word, "granted");
  outside.reset();
  ActorProcess inside(folder.url(), elsewhere_);
  EXPECT_EQ(inside.ask("acquire a 1000 0").get("code"), "kTimedOut");
  const Line next = inside.ask("acquire a 1000 5000");
  ASSERT_EQ(next.word, "granted");
  EXPECT_GE(next.number("at"), held.number("deadline"));
  EXPECT_GT(next.get("token"), held.get("token"));
}

}  // namespace
}  // namespace holdfast::faults
