// Grants, handoff, idempotence and the queue of a plain mutex, rule by rule.
#include "src/machine/lock_machine.h"

#include <memory>

#include <gtest/gtest.h>

#include "src/machine/machine_test_support.h"

namespace holdfast::machine {
namespace {

TEST(LockMachineTest, AFreeLockIsGrantedForTheWholeTtl) {
  Driver d;
  d.now = at(7);
  const Reply reply = d.acquire(1);
  EXPECT_EQ(reply.outcome, Outcome::kHeld);
  EXPECT_EQ(reply.token, token(1));
  EXPECT_EQ(reply.lease_end, at(107));
  EXPECT_EQ(reply.seq, 0U);
  EXPECT_EQ(reply.lease, Duration{100});
}

TEST(LockMachineTest, AGrantWithoutWaitingTellsAllOfTheTicket) {
  Driver d;
  Acquire acquire = d.request(1, Mode::exclusive());
  acquire.owner = std::make_shared<OwnerInfo>(OwnerInfo{.owner = "worker"});
  d.apply(acquire);
  ASSERT_EQ(d.effects.size(), 1U);
  const Effect& effect = d.effects[0];
  EXPECT_EQ(effect.kind, EffectKind::kGranted);
  EXPECT_EQ(effect.name, d.name);
  EXPECT_EQ(effect.id, id(1));
  EXPECT_EQ(effect.order, 1U);
  EXPECT_EQ(effect.ttl, d.ttl);
  EXPECT_EQ(effect.waiter_ttl, d.waiter_ttl);
  EXPECT_EQ(effect.owner, acquire.owner);
}

TEST(LockMachineTest, ASecondContenderWaitsAndIsToldForHowLong) {
  Driver d;
  d.acquire(1);
  d.now = at(10);
  const Reply reply = d.acquire(2);
  EXPECT_EQ(reply.outcome, Outcome::kWaiting);
  EXPECT_EQ(reply.position, 0U);
  EXPECT_EQ(reply.next_expiry, at(100));
  EXPECT_EQ(reply.lease_end, at(40));
  EXPECT_EQ(reply.lease, d.waiter_ttl);
  EXPECT_EQ(reply.token, Token{});
  EXPECT_EQ(d.acquire(3).position, 1U);
}

void acquire_with_delay(Driver& d, Mode mode, Duration delay, std::uint64_t id = 1) {
  OwnerInfo owner;
  owner.lock_delay = delay;
  Acquire acquire = d.request(id, mode);
  acquire.owner = std::make_shared<const OwnerInfo>(owner);
  d.apply(acquire);
}

// A lease of 100 whose last 60 are a lock-delay.
TEST(LockMachineTest, AWaiterIsToldThatOnlyALockDelayKeepsTheLockClosed) {
  Driver d;
  acquire_with_delay(d, Mode::exclusive(), Duration(60));
  d.waiter_ttl = Duration(1'000);
  EXPECT_EQ(d.acquire(2).opens_at, Instant()) << "its holder counts on it";
  d.now = at(39);
  EXPECT_EQ(d.renew(2, 1).opens_at, Instant());
  d.now = at(40);
  EXPECT_EQ(d.renew(2, 2).opens_at, at(100));
  EXPECT_EQ(d.try_acquire(3).opens_at, at(100));
  d.renew(1, 1);
  EXPECT_EQ(d.renew(2, 3).opens_at, Instant()) << "the holder was slow, and is back";
}

// A shorter lease than the delay is a waiter's, or of somebody who took the lock over.
TEST(LockMachineTest, ALeaseWithoutItsLockDelayIsSomebodys) {
  Driver d;
  acquire_with_delay(d, Mode::exclusive(), Duration(100));
  EXPECT_EQ(d.acquire(2).opens_at, Instant());
}

TEST(LockMachineTest, OneReaderThatCountsOnTheLockIsEnough) {
  Driver d;
  acquire_with_delay(d, Mode::shared(), Duration(60));
  d.now = at(20);
  acquire_with_delay(d, Mode::shared(), Duration(60), 2);
  d.waiter_ttl = Duration(1'000);
  d.now = at(50);
  EXPECT_EQ(d.acquire(3).opens_at, Instant());
  d.now = at(60);
  EXPECT_EQ(d.renew(3, 1).opens_at, at(120));
}

TEST(LockMachineTest, WhoWouldNotWaitIsToldBusyAndLeavesNothing) {
  Driver d;
  d.acquire(1);
  const Reply reply = d.try_acquire(2);
  EXPECT_EQ(reply.outcome, Outcome::kBusy);
  EXPECT_EQ(reply.next_expiry, at(100));
  EXPECT_TRUE(d.effects.empty());
  EXPECT_EQ(d.waiters(), Ids{});
  EXPECT_EQ(d.machine.inspect(d.name)->next_order, 2U);
}

TEST(LockMachineTest, ReleaseGrantsTheOldestWaiterInTheSameStep) {
  Driver d;
  d.line_up(3);
  d.now = at(5);
  EXPECT_EQ(d.release(1).outcome, Outcome::kReleased);
  EXPECT_EQ(d.did(EffectKind::kReleased), Ids{1});
  EXPECT_EQ(d.did(EffectKind::kGranted), Ids{2});
  EXPECT_EQ(d.holders(), Ids{2});
  EXPECT_EQ(d.waiters(), Ids{3});
}

TEST(LockMachineTest, ARepeatedAcquireGetsTheSameGrant) {
  Driver d;
  const Reply first = d.acquire(1);
  d.now = at(40);
  EXPECT_EQ(d.acquire(1), first);
  EXPECT_TRUE(d.effects.empty());
}

TEST(LockMachineTest, ARepeatedAcquireKeepsItsPlaceInTheQueue) {
  Driver d;
  d.line_up(3);
  const Reply again = d.acquire(2);
  EXPECT_EQ(again.outcome, Outcome::kWaiting);
  EXPECT_EQ(again.position, 0U);
  EXPECT_EQ(d.waiters(), (Ids{2, 3}));
}

TEST(LockMachineTest, ReleaseByAStrangerChangesNothing) {
  Driver d;
  d.acquire(1);
  EXPECT_EQ(d.release(2).outcome, Outcome::kGone);
  EXPECT_TRUE(d.effects.empty());
  EXPECT_EQ(d.holders(), Ids{1});
}

TEST(LockMachineTest, AZombieReleaseCannotFreeTheNextAcquisition) {
  Driver d;
  d.line_up(2);
  d.release(1);
  EXPECT_EQ(d.release(1).outcome, Outcome::kGone);
  EXPECT_EQ(d.holders(), Ids{2});
}

TEST(LockMachineTest, AWaiterThatLeavesIsNotWaitedFor) {
  Driver d;
  d.line_up(3);
  EXPECT_EQ(d.cancel(2).outcome, Outcome::kCancelled);
  EXPECT_EQ(d.did(EffectKind::kCancelled), Ids{2});
  d.release(1);
  EXPECT_EQ(d.holders(), Ids{3});
}

TEST(LockMachineTest, ReleaseOfAWaiterIsACancel) {
  Driver d;
  d.line_up(2);
  EXPECT_EQ(d.release(2).outcome, Outcome::kCancelled);
  EXPECT_EQ(d.waiters(), Ids{});
}

TEST(LockMachineTest, CancelOfAGrantHandsOnInTheSameStep) {
  Driver d;
  d.line_up(2);
  EXPECT_EQ(d.cancel(1).outcome, Outcome::kReleased);
  EXPECT_EQ(d.holders(), Ids{2});
}

TEST(LockMachineTest, AFullQueueTakesNoMore) {
  Driver d;
  d.acquire(1);
  Acquire acquire = d.request(2, Mode::exclusive());
  acquire.max_waiters = 1;
  EXPECT_EQ(d.apply(acquire).outcome, Outcome::kWaiting);
  acquire.id = id(3);
  EXPECT_EQ(d.apply(acquire).outcome, Outcome::kQueueFull);
  EXPECT_EQ(d.waiters(), Ids{2});
  acquire.id = id(2);
  EXPECT_EQ(d.apply(acquire).outcome, Outcome::kWaiting) << "whoever stands in it is in it";
}

TEST(LockMachineTest, MalformedRequestsAreInvalid) {
  Driver d;
  const Acquire good = d.request(1, Mode::exclusive());
  const auto outcome = [&](auto change) {
    Acquire bad = good;
    change(bad);
    return d.apply(bad).outcome;
  };
  EXPECT_EQ(outcome([](Acquire& a) { a.id = {}; }), Outcome::kInvalid);
  EXPECT_EQ(outcome([](Acquire& a) { a.name = ""; }), Outcome::kInvalid);
  EXPECT_EQ(outcome([](Acquire& a) { a.ttl = {}; }), Outcome::kInvalid);
  EXPECT_EQ(outcome([](Acquire& a) { a.waiter_ttl = {}; }), Outcome::kInvalid);
  EXPECT_EQ(outcome([](Acquire& a) { a.mode = Mode::of_permits(0, 1); }), Outcome::kInvalid);
  EXPECT_EQ(outcome([](Acquire& a) { a.mode = Mode::of_permits(1, 0); }), Outcome::kInvalid);
  EXPECT_EQ(d.apply(Release{.name = d.name}).outcome, Outcome::kInvalid);
  EXPECT_EQ(d.apply(Cancel{.id = id(1)}).outcome, Outcome::kInvalid);
  EXPECT_TRUE(d.machine.names("", 9).empty());
  EXPECT_EQ(outcome([](Acquire& a) { a.waiter_ttl = {}, a.may_wait = false; }), Outcome::kHeld);
}

TEST(LockMachineTest, BreakFreesTheHolderWithThatToken) {
  Driver d;
  d.line_up(2);
  const auto by = std::make_shared<OwnerInfo>(OwnerInfo{.owner = "operator"});
  EXPECT_EQ(d.apply(Break{.name = d.name, .token = token(1), .by = by}).outcome,
            Outcome::kReleased);
  EXPECT_EQ(d.did(EffectKind::kBroken), Ids{1});
  EXPECT_EQ(d.effect(EffectKind::kBroken).owner, by);
  EXPECT_EQ(d.holders(), Ids{2});
}

TEST(LockMachineTest, ABreakCannotHitANewerHolder) {
  Driver d;
  d.line_up(2);
  d.release(1);
  EXPECT_EQ(d.apply(Break{.name = d.name, .token = token(1)}).outcome, Outcome::kNotHeld);
  EXPECT_EQ(d.apply(Break{.name = "other", .token = token(1)}).outcome, Outcome::kNotHeld);
  EXPECT_EQ(d.apply(Break{.name = d.name, .token = Token{}}).outcome, Outcome::kNotHeld);
  EXPECT_EQ(d.holders(), Ids{2});
}

TEST(LockMachineTest, AValueStaysAfterItsHolder) {
  Driver d;
  d.acquire(1);
  EXPECT_EQ(d.apply(SetValue{.name = d.name, .id = id(1), .value = "leader"}).outcome,
            Outcome::kDone);
  EXPECT_EQ(d.effect(EffectKind::kValueSet).value, "leader");
  d.release(1);
  ASSERT_TRUE(d.machine.inspect(d.name));
  EXPECT_EQ(d.machine.inspect(d.name)->value, "leader");
  EXPECT_EQ(d.apply(SetValue{.name = d.name, .id = id(1), .value = "late"}).outcome,
            Outcome::kNotHeld);
  d.acquire(2);
  d.apply(SetValue{.name = d.name, .id = id(2)});
  d.release(2);
  EXPECT_EQ(d.machine.inspect(d.name), std::nullopt);
}

TEST(LockMachineTest, OnlyAHolderSetsAValueAndOnlyASmallOne) {
  Driver d;
  d.line_up(2);
  EXPECT_EQ(d.apply(SetValue{.name = d.name, .id = id(2), .value = "x"}).outcome,
            Outcome::kNotHeld);
  EXPECT_EQ(d.apply(SetValue{d.name, id(1), std::string(4097, 'x')}).outcome, Outcome::kTooLarge);
  EXPECT_EQ(d.apply(SetValue{d.name, id(1), std::string(4096, 'x')}).outcome, Outcome::kDone);
}

TEST(LockMachineTest, AStepAdmitsNoMoreThanItsLimitAndTheNextOnesGoOn) {
  Driver d(Limits{.admissions_per_step = 2});
  d.acquire(1);
  for (std::uint64_t who = 2; who <= 6; ++who) d.acquire(who, Mode::shared());
  d.now = at(3);
  d.release(1);
  EXPECT_EQ(d.did(EffectKind::kGranted), (Ids{2, 3}));
  EXPECT_EQ(d.machine.next_event(), at(3));
  d.apply(Tick{});
  EXPECT_EQ(d.did(EffectKind::kGranted), (Ids{4, 5}));
  EXPECT_EQ(d.acquire(7, Mode::shared()).outcome, Outcome::kHeld);
  EXPECT_EQ(d.did(EffectKind::kGranted), (Ids{6, 7}));
  EXPECT_EQ(d.machine.next_event(), at(30));
}

TEST(LockMachineTest, ANewcomerDoesNotOvertakeThoseLeftOver) {
  Driver d(Limits{.admissions_per_step = 1});
  d.acquire(1);
  for (std::uint64_t who = 2; who <= 4; ++who) d.acquire(who, Mode::shared());
  d.release(1);
  EXPECT_EQ(d.try_acquire(9, Mode::shared()).outcome, Outcome::kBusy);
  EXPECT_EQ(d.holders(), (Ids{2, 3}));
}

TEST(LockMachineTest, TheCommandsOwnLockIsAdmittedFirst) {
  Driver d(Limits{.admissions_per_step = 1});
  for (const char* name : {"a", "z"}) {
    d.name = name;
    d.waiter_ttl = Duration{500};
    d.acquire(1);
    d.acquire(2);
  }
  d.now = at(100);
  EXPECT_EQ(d.acquire(3).outcome, Outcome::kWaiting);
  EXPECT_EQ(d.holders(), Ids{2});
  d.name = "a";
  EXPECT_EQ(d.holders(), Ids{});
  d.apply(Tick{});
  EXPECT_EQ(d.holders(), Ids{2});
}

TEST(LockMachineTest, PositionIsExactUpTo64AndNeverTooSmall) {
  Driver d;
  for (std::uint64_t who = 0; who <= 200; ++who) d.acquire(who + 1);
  for (std::uint64_t who = 2; who <= 100; who += 2) d.cancel(who);
  // The 50 even ones up to 100 among the 200 waiters 2..201 have left.
  EXPECT_EQ(d.acquire(101).position, 49U);
  EXPECT_EQ(d.acquire(115).position, 63U);
  EXPECT_EQ(d.acquire(116).position, 64U);
  EXPECT_GE(d.acquire(201).position, 149U);
  EXPECT_LT(d.acquire(201).position, 150U) << "never more than wait";
}

TEST(LockMachineTest, NamesAreSortedAndLimited) {
  Driver d;
  for (const char* name : {"b/2", "a/1", "b/1", "b/10", "c"}) {
    d.name = name;
    d.acquire(1);
  }
  EXPECT_EQ(d.machine.names("b/", 9), (std::vector<std::string>{"b/1", "b/10", "b/2"}));
  EXPECT_EQ(d.machine.names("", 2), (std::vector<std::string>{"a/1", "b/1"}));
  for (const std::size_t limit : {0U, 1U, 2U, 99U}) {
    for (const char* after : {"", "a", "b/1", "b/10", "z"}) {
      std::vector<std::string> expected = d.machine.names("b", 99);
      std::erase_if(expected, [&](const std::string& name) { return name <= after; });
      expected.resize(std::min(limit, expected.size()));
      EXPECT_EQ(d.machine.names_in_use("b", after, limit), expected) << after << ' ' << limit;
    }
  }
  EXPECT_TRUE(d.machine.names("d", 9).empty());
  EXPECT_TRUE(d.machine.names("", 0).empty());
}

TEST(LockMachineTest, TheSameIdMayHoldSeveralNames) {
  Driver d;
  d.acquire(1);
  d.name = "other";
  EXPECT_EQ(d.acquire(1).outcome, Outcome::kHeld);
  d.release(1);
  d.name = "orders/42";
  EXPECT_EQ(d.holders(), Ids{1});
}

TEST(LockMachineTest, AMovedMachineGoesOn) {
  Driver d;
  d.acquire(1);
  LockMachine moved = std::move(d.machine);
  d.machine = std::move(moved);
  EXPECT_EQ(d.renew(1, 1).outcome, Outcome::kHeld);
}

}  // namespace
}  // namespace holdfast::machine
