// Holders are killed, stopped or broken; the tests measure how fast the next one learns.
#include <gtest/gtest.h>

#include "tests/faults/process_harness.h"

namespace holdfast::faults {
namespace {

constexpr milliseconds kLease = 1s;

TEST(HolderFaultsTest, AKilledHoldersLockGoesOnAfterItsLeaseAndNotBefore) {
  const TempFolder folder;
  ActorProcess holder(folder.url());
  ActorProcess waiter(folder.url());
  ASSERT_EQ(holder.ask("acquire a 1000").word, "granted");
  waiter.queue_up("a", 1s);

  ASSERT_EQ(holder.ask("renew").word, "ok");
  const Line last = holder.ask("state");
  const std::int64_t killed = holder.kill();
  const Line next = waiter.answer();

  ASSERT_EQ(next.word, "granted") << next.get("text");
  EXPECT_GE(next.number("at"), last.number("deadline")) << "while the dead one's lease ran";
  EXPECT_LE(next.number("at") - killed, ns(kLease + 1s));
  EXPECT_GT(next.get("token"), last.get("token"));
}

TEST(HolderFaultsTest, AKilledHoldersLockIsRefusedAndThenGivenToANewcomer) {
  const TempFolder folder;
  ActorProcess holder(folder.url());
  ActorProcess newcomer(folder.url());  // Its start may take longer than the lease.
  ASSERT_EQ(newcomer.ask("acquire other 1000").word, "granted");
  ASSERT_EQ(newcomer.ask("release").word, "ok");
  const Line held = holder.ask("acquire a 2000");
  ASSERT_EQ(held.word, "granted");
  holder.kill();
  const Line refused = newcomer.ask("acquire a 1000 0");
  ASSERT_EQ(refused.word, "failed");
  EXPECT_EQ(refused.get("code"), "kTimedOut");
  const Line next = newcomer.ask("acquire a 1000 60000");
  ASSERT_EQ(next.word, "granted") << next.get("text");
  EXPECT_GE(next.number("at"), held.number("deadline"));
  EXPECT_GT(next.get("token"), held.get("token"));
}

TEST(HolderFaultsTest, AHolderStoppedForHalfItsLeaseStillHoldsAndIsRenewed) {
  const TempFolder folder;
  ActorProcess holder(folder.url());
  ActorProcess waiter(folder.url());
  ASSERT_EQ(holder.ask("acquire a 1000").word, "granted");
  waiter.queue_up("a", 1s);
  ASSERT_EQ(holder.ask("renew").word, "ok");
  const Line before = holder.ask("state");

  stop_between_commits(holder, folder);
  let_pass(kLease / 2);
  holder.resume();
  const Line after = holder.ask("state");
  // The machine may have been too busy to wake it in time: then it must know.
  ASSERT_LT(after.number("at"), before.number("deadline")) << "this machine is too slow to tell";
  EXPECT_EQ(after.get("held"), "yes");

  // Renewed: it still holds when the lease it had when it was stopped is long over.
  let_pass_until(before.number("deadline") + ns(kLease / 2));
  const Line later = holder.ask("state");
  EXPECT_EQ(later.get("held"), "yes");
  EXPECT_GT(later.number("deadline"), before.number("deadline"));
  EXPECT_FALSE(holder.has_event("lost"));
  const Line released = holder.ask("release");
  EXPECT_EQ(released.word, "ok") << released.get("text");
  const Line next = waiter.answer();
  ASSERT_EQ(next.word, "granted");
  EXPECT_GE(next.number("at"), released.number("invoked"));
}

class StoppedHolderTest : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Leases, StoppedHolderTest, testing::Values(1, 3));

TEST_P(StoppedHolderTest, KnowsItsLossAndItsLateWriteIsRefused) {
  const TempFolder folder;
  const std::string file = folder.file("resource");
  ActorProcess first(folder.url());
  ActorProcess second(folder.url());
  ASSERT_EQ(first.ask("acquire a 1000").word, "granted");
  ASSERT_EQ(first.ask("write " + file + " 1").word, "written");
  second.queue_up("a", 1s);
  ASSERT_EQ(first.ask("renew").word, "ok");

  const std::int64_t stopped = stop_between_commits(first, folder);
  const Line taken = second.answer();
  ASSERT_EQ(taken.word, "granted") << taken.get("text");
  EXPECT_LE(taken.number("at") - stopped, ns(kLease + 1s));
  ASSERT_EQ(second.ask("write " + file + " 2").word, "written");
  let_pass_until(stopped + GetParam() * ns(kLease));
  first.resume();

  const Line after = first.ask("state");
  EXPECT_EQ(after.get("held"), "no");
  EXPECT_EQ(after.get("state"), "kLost");
  EXPECT_EQ(after.get("remaining"), "0");
  EXPECT_GE(taken.number("at"), after.number("deadline")) << "two believed to hold";
  EXPECT_GT(taken.get("token"), after.get("token"));
  EXPECT_EQ(first.event("lost").get("code"), "kLost");
  const Line write = first.ask("write " + file + " 3");
  EXPECT_EQ(write.word, "refused");
  EXPECT_EQ(write.get("highest"), taken.get("token"));
  const Line renewed = first.ask("renew");
  EXPECT_EQ(renewed.word, "failed");
  EXPECT_EQ(renewed.get("code"), "kLost");
  const Line released = first.ask("release");
  EXPECT_EQ(released.word, "failed");
  EXPECT_EQ(released.get("code"), "kLost");
  EXPECT_EQ(released.get("again"), "kLost");
  // The zombie's release has changed nothing.
  EXPECT_EQ(second.ask("state").get("held"), "yes");
  EXPECT_EQ(second.ask("release").word, "ok");
}

TEST_P(StoppedHolderTest, IsLostWithoutARivalToo) {
  const TempFolder folder;
  ActorProcess holder(folder.url());
  ASSERT_EQ(holder.ask("acquire a 1000").word, "granted");
  stop_between_commits(holder, folder);
  let_pass(GetParam() * kLease);
  holder.resume();
  EXPECT_EQ(holder.ask("state").get("held"), "no");
  EXPECT_EQ(holder.event("lost").get("code"), "kLost");
  EXPECT_EQ(holder.ask("release").get("code"), "kLost");
}

TEST(HolderFaultsTest, AReleaseWakesTheWaiterFarFasterThanThePoll) {
  const TempFolder folder;
  ActorProcess left(folder.url());
  ActorProcess right(folder.url());
  ActorProcess* holder = &left;
  ActorProcess* waiter = &right;
  // With a lease this long the poll comes once a second.
  ASSERT_EQ(holder->ask("acquire a 20000").word, "granted");
  for (int round = 0; round < 10; ++round) {
    waiter->queue_up("a", 20s);
    const Line released = holder->ask("release");
    ASSERT_EQ(released.word, "ok") << released.get("text");
    const Line granted = waiter->answer();
    ASSERT_EQ(granted.word, "granted");
    EXPECT_GE(granted.number("at"), released.number("invoked"));
    EXPECT_LT(granted.number("at") - released.number("invoked"), ns(500ms)) << "round " << round;
    std::swap(holder, waiter);
  }
}

TEST(HolderFaultsTest, AHolderWhoseLockAnOperatorBreaksIsToldAndHarmsNobody) {
  const TempFolder folder;
  const std::string file = folder.file("resource");
  ActorProcess broken(folder.url());
  ActorProcess next(folder.url());
  ActorProcess operator_(folder.url());
  const Line held = broken.ask("acquire a 5000");
  ASSERT_EQ(held.word, "granted");
  next.queue_up("a", 5s);

  ASSERT_EQ(operator_.ask("break a 1").get("code"), "kLost") << "nobody has that token";
  ASSERT_EQ(broken.ask("state").get("held"), "yes");
  const std::string token = operator_.ask("look a").get("token");
  ASSERT_EQ(token, held.get("token"));
  ASSERT_EQ(operator_.ask("break a " + token).word, "ok");

  const Line granted = next.answer();
  ASSERT_EQ(granted.word, "granted");
  EXPECT_GT(granted.get("token"), held.get("token"));
  ASSERT_EQ(next.ask("write " + file + " 1").word, "written");
  EXPECT_EQ(broken.event("lost").get("code"), "kBroken");
  EXPECT_EQ(broken.ask("state").get("held"), "no");
  EXPECT_EQ(broken.ask("write " + file + " 2").word, "refused");
  EXPECT_EQ(broken.ask("release").get("code"), "kBroken");

  EXPECT_EQ(operator_.ask("look a").get("token"), granted.get("token"));
  EXPECT_EQ(operator_.ask("acquire a 1000 0").get("code"), "kTimedOut");
  EXPECT_EQ(next.ask("state").get("held"), "yes");
  EXPECT_EQ(next.ask("release").word, "ok");
}

TEST(HolderFaultsTest, AStoppedHolderWhoseLockWasBrokenLearnsItWhenItGoesOn) {
  const TempFolder folder;
  ActorProcess broken(folder.url());
  ActorProcess other(folder.url());
  const Line held = broken.ask("acquire a 5000");
  ASSERT_EQ(held.word, "granted");
  stop_between_commits(broken, folder);
  ASSERT_EQ(other.ask("break a " + held.get("token")).word, "ok");
  const Line granted = other.ask("acquire a 5000 0");
  ASSERT_EQ(granted.word, "granted");
  broken.resume();
  const Line released = broken.ask("release");
  EXPECT_EQ(released.word, "failed");
  EXPECT_TRUE(released.get("code") == "kBroken" || released.get("code") == "kLost")
      << released.get("code");
  EXPECT_EQ(other.ask("state").get("held"), "yes");
  EXPECT_EQ(other.ask("release").word, "ok");
}

}  // namespace
}  // namespace holdfast::faults
