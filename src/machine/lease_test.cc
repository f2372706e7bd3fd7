// How leases are given, extended, inherited and ended.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/machine/machine_test_support.h"

namespace holdfast::machine {
namespace {

TEST(LeaseTest, AHandoffInheritsTheWaitersLease) {
  Driver d;
  d.line_up(2);
  d.now = at(20);
  d.renew(2, 1);
  d.now = at(45);
  d.release(1);
  const Effect& grant = d.effect(EffectKind::kGranted);
  EXPECT_EQ(grant.lease_end, at(50));
  EXPECT_EQ(grant.seq, 1U);
  EXPECT_EQ(grant.lease, d.waiter_ttl);
  EXPECT_EQ(grant.token, token(2));
  const Reply reply = d.acquire(2);
  EXPECT_EQ(reply.outcome, Outcome::kHeld);
  EXPECT_EQ(reply.lease_end, at(50));
  EXPECT_EQ(reply.seq, 1U);
}

TEST(LeaseTest, TheNewHoldersFirstRenewalIsForTheWholeTtl) {
  Driver d;
  d.line_up(2);
  d.release(1);
  d.now = at(10);
  const Reply reply = d.renew(2, 1);
  EXPECT_EQ(reply.outcome, Outcome::kHeld);
  EXPECT_EQ(reply.lease_end, at(110));
  EXPECT_EQ(reply.lease, d.ttl);
  EXPECT_EQ(reply.seq, 1U);
}

TEST(LeaseTest, ALeaseEndsAtItsEndAndNotBefore) {
  Driver d;
  d.acquire(1);
  d.tick(at(99));
  EXPECT_EQ(d.holders(), Ids{1});
  d.tick(at(100));
  EXPECT_EQ(d.did(EffectKind::kExpired), Ids{1});
  EXPECT_TRUE(d.effect(EffectKind::kExpired).was_holder);
  EXPECT_EQ(d.machine.inspect(d.name), std::nullopt);
}

// Eight locks of one holder and one waiter each, whose leases all end at 100.
void fill_eight_locks(Driver& d) {
  d.waiter_ttl = Duration{100};
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    d.name = name;
    const std::uint64_t first = 2 * static_cast<std::uint64_t>(name[0] - 'a') + 1;
    d.acquire(first);
    d.acquire(first + 1);
  }
}

TEST(LeaseTest, ACommandEndsWhatIsOverOfItsLockAndSoManyOthers) {
  Driver d;
  fill_eight_locks(d);
  d.now = at(100);
  d.effects.clear();
  d.name = "h";
  const Renew late{.name = "h", .id = id(15), .seq = 1, .ttl = d.ttl, .waiter_ttl = d.ttl};
  EXPECT_EQ(d.machine.apply({d.now, late, 3}, d.effects).outcome, Outcome::kGone);
  d.machine.check_invariants();
  EXPECT_EQ(d.did(EffectKind::kExpired), (Ids{1, 2, 3, 4, 15, 16}));
  EXPECT_TRUE(d.did(EffectKind::kGranted).empty()) << "the lease of 4 is over, too";
  EXPECT_EQ(d.machine.next_event(), d.now);
  d.effects.clear();
  d.machine.apply({d.now, Tick{"c"}, 0}, d.effects);
  EXPECT_EQ(d.did(EffectKind::kExpired), (Ids{5, 6}));
  d.tick(d.now);
  EXPECT_EQ(d.did(EffectKind::kExpired), (Ids{7, 8, 9, 10, 11, 12, 13, 14}));
  EXPECT_EQ(d.machine.next_event(), std::nullopt);
}

TEST(LeaseTest, ACommandAtALongQueueEndsAllThatIsOver) {
  Driver d;
  fill_eight_locks(d);
  d.name = "long";
  for (std::uint64_t who = 100; who < 1'200; ++who) {
    d.machine.apply({d.now, d.request(who, Mode::exclusive())}, d.effects);
  }
  d.now = at(100);
  d.effects.clear();
  d.machine.apply({d.now, Tick{"long"}, 0}, d.effects);
  EXPECT_EQ(d.did(EffectKind::kExpired).size(), 1'116U);
}

TEST(LeaseTest, AWaiterWhoseLeaseIsOverIsNotAdmittedFromABacklog) {
  Driver d({.admissions_per_step = 1});
  d.waiter_ttl = Duration{150};
  for (const std::uint64_t first : {1U, 3U}) {
    d.name = first == 1 ? "a" : "b";
    d.acquire(first);
    d.acquire(first + 1);
  }
  d.tick(at(100));
  ASSERT_EQ(d.did(EffectKind::kGranted), Ids{2});
  d.effects.clear();
  d.machine.apply({at(150), Tick{}, 0}, d.effects);
  EXPECT_EQ(d.did(EffectKind::kExpired), Ids{4});
  EXPECT_TRUE(d.did(EffectKind::kGranted).empty());
}

TEST(LeaseTest, ExpiryHandsOnInTheSameStep) {
  Driver d;
  d.waiter_ttl = Duration{500};
  d.line_up(2);
  d.tick(at(100));
  EXPECT_EQ(d.did(EffectKind::kExpired), Ids{1});
  EXPECT_EQ(d.holders(), Ids{2});
}

TEST(LeaseTest, ADeadWaiterIsNeverGranted) {
  Driver d;
  d.line_up(2);
  d.now = at(20);
  d.acquire(3);
  d.now = at(40);
  d.release(1);
  EXPECT_EQ(d.did(EffectKind::kExpired), Ids{2});
  EXPECT_FALSE(d.effect(EffectKind::kExpired).was_holder);
  EXPECT_EQ(d.holders(), Ids{3});
}

TEST(LeaseTest, ADeadHeadCostsItsOwnLeaseOnly) {
  Driver d;
  d.line_up(2);
  d.now = at(10);
  d.acquire(3);
  d.release(1);
  EXPECT_EQ(d.holders(), Ids{2});
  EXPECT_EQ(d.machine.next_event(), at(30));
  d.tick(at(30));
  EXPECT_EQ(d.holders(), Ids{3});
}

TEST(LeaseTest, NothingIsGrantedForATimeThatHasPassed) {
  Driver d;
  d.acquire(1);
  d.acquire(2);  // Until 30, when 1 still holds.
  d.tick(at(1000));
  EXPECT_EQ(d.did(EffectKind::kGranted), Ids{});
  EXPECT_EQ(d.machine.inspect(d.name), std::nullopt);
}

TEST(LeaseTest, ACommandSeesNoLeaseThatIsOver) {
  Driver d;
  d.acquire(1);
  d.now = at(100);
  EXPECT_EQ(d.renew(1, 1).outcome, Outcome::kGone);
  d.acquire(2);
  d.now = at(200);
  EXPECT_EQ(d.release(2).outcome, Outcome::kGone);
  EXPECT_EQ(d.try_acquire(3).outcome, Outcome::kHeld);
}

TEST(LeaseTest, ExpiryReachesEveryLockWhateverTheCommandNames) {
  Driver d;
  for (const char* name : {"a", "b", "c"}) {
    d.name = name;
    d.acquire(1);
  }
  d.name = "d";
  d.now = at(100);
  d.acquire(2);
  EXPECT_EQ(d.did(EffectKind::kExpired), (Ids{1, 1, 1}));
  EXPECT_EQ(d.machine.names("", 9), std::vector<std::string>{"d"});
}

TEST(LeaseTest, EqualEndsExpireInOrderOfIdThenName) {
  Driver d;
  for (const char* name : {"b", "a"}) {
    d.name = name;
    d.acquire(2, Mode::shared());
    d.acquire(1, Mode::shared());
  }
  d.tick(at(100));
  std::vector<std::string> order;
  for (const Effect& effect : d.effects) {
    if (effect.kind == EffectKind::kExpired) {
      order.push_back(effect.name + std::to_string(effect.id.low));
    }
  }
  EXPECT_EQ(order, (std::vector<std::string>{"a1", "b1", "a2", "b2"}));
}

TEST(LeaseTest, AnEarlierInstantIsTakenAsNow) {
  Driver d;
  d.tick(at(50));
  d.now = at(10);
  EXPECT_EQ(d.acquire(1).lease_end, at(150));
  EXPECT_EQ(d.machine.now(), at(50));
}

TEST(LeaseTest, ALeaseLongerThanTimeEndsWithIt) {
  Driver d;
  d.now = at(5);
  d.ttl = Duration::max();
  EXPECT_EQ(d.acquire(1).lease_end, Instant::max());
}

TEST(LeaseTest, RenewalCountsFromItsOwnInstant) {
  Driver d;
  d.acquire(1);
  d.now = at(60);
  const Reply reply = d.renew(1, 1);
  EXPECT_EQ(reply.lease_end, at(160));
  EXPECT_EQ(reply.token, token(1));
  const Effect& effect = d.effect(EffectKind::kExtended);
  EXPECT_EQ(effect.lease_end, at(160));
  EXPECT_EQ(effect.seq, 1U);
  EXPECT_EQ(effect.lease, d.ttl);
}

TEST(LeaseTest, AHeartbeatExtendsAWaiterByItsOwnLength) {
  Driver d;
  d.line_up(2);
  d.now = at(25);
  const Reply reply = d.renew(2, 1);
  EXPECT_EQ(reply.outcome, Outcome::kWaiting);
  EXPECT_EQ(reply.lease_end, at(55));
  EXPECT_EQ(reply.lease, d.waiter_ttl);
}

TEST(LeaseTest, ARepeatedOrLateRenewalChangesNothing) {
  Driver d;
  d.acquire(1);
  d.now = at(10);
  d.renew(1, 2);
  for (const std::uint64_t seq : {0U, 1U, 2U}) {
    d.now = at(50);
    const Reply reply = d.renew(1, seq);
    EXPECT_EQ(reply.outcome, Outcome::kHeld);
    EXPECT_EQ(reply.lease_end, at(110));
    EXPECT_EQ(reply.seq, 2U);
    EXPECT_TRUE(d.effects.empty());
  }
}

TEST(LeaseTest, ALeaseEndNeverMovesBack) {
  Driver d;
  d.acquire(1);
  d.ttl = Duration{20};
  d.now = at(10);
  const Reply reply = d.renew(1, 1);
  EXPECT_EQ(reply.lease_end, at(100));
  EXPECT_EQ(reply.seq, 0U) << "the pair names the request that defined the end";
  EXPECT_EQ(reply.lease, Duration{100});
  EXPECT_TRUE(d.effects.empty());
}

TEST(LeaseTest, RenewalNeverCreates) {
  Driver d;
  EXPECT_EQ(d.renew(1, 1).outcome, Outcome::kGone);
  d.acquire(2);
  EXPECT_EQ(d.renew(1, 1).outcome, Outcome::kGone);
  EXPECT_EQ(d.holders(), Ids{2});
}

TEST(LeaseTest, ARenewalWithoutALengthIsInvalid) {
  Driver d;
  d.line_up(2);
  EXPECT_EQ(d.apply(Renew{.name = d.name, .id = id(1), .seq = 1, .waiter_ttl = d.ttl}).outcome,
            Outcome::kInvalid);
  EXPECT_EQ(d.apply(Renew{.name = d.name, .id = id(2), .seq = 1, .ttl = d.ttl}).outcome,
            Outcome::kInvalid);
}

TEST(LeaseTest, NextEventIsTheEarliestEnd) {
  Driver d;
  EXPECT_EQ(d.machine.next_event(), std::nullopt);
  d.acquire(1);
  EXPECT_EQ(d.machine.next_event(), at(100));
  d.acquire(2);
  EXPECT_EQ(d.machine.next_event(), at(30));
  d.tombstone = Duration{20};
  d.cancel(2);
  EXPECT_EQ(d.machine.next_event(), at(20));
}

}  // namespace
}  // namespace holdfast::machine
