// Readers and writers in one queue, upgrade and downgrade.
#include <gtest/gtest.h>

#include "src/machine/machine_test_support.h"

namespace holdfast::machine {
namespace {

constexpr Mode kS = Mode::shared();

TEST(SharedModeTest, ReadersHoldTogetherEachWithItsOwnLeaseAndToken) {
  Driver d;
  EXPECT_EQ(d.acquire(1, kS).token, token(1));
  d.now = at(10);
  const Reply second = d.acquire(2, kS);
  EXPECT_EQ(second.token, token(2));
  EXPECT_EQ(second.lease_end, at(110));
  d.tick(at(100));
  EXPECT_EQ(d.holders(), Ids{2});
}

TEST(SharedModeTest, AReaderDoesNotPassAWaitingWriter) {
  Driver d;
  d.acquire(1, kS);
  d.acquire(2);
  EXPECT_EQ(d.acquire(3, kS).outcome, Outcome::kWaiting);
  EXPECT_EQ(d.try_acquire(4, kS).outcome, Outcome::kBusy);
  d.release(1);
  EXPECT_EQ(d.holders(), Ids{2});
  d.release(2);
  EXPECT_EQ(d.holders(), Ids{3});
}

TEST(SharedModeTest, AWriterWaitsForTheLastReader) {
  Driver d;
  d.acquire(1, kS);
  d.acquire(2, kS);
  d.acquire(3);
  d.release(1);
  EXPECT_EQ(d.did(EffectKind::kGranted), Ids{});
  d.release(2);
  EXPECT_EQ(d.did(EffectKind::kGranted), Ids{3});
}

TEST(SharedModeTest, AReleaseAdmitsAllReadersUpToTheNextWriter) {
  Driver d;
  d.acquire(1);
  for (const std::uint64_t who : {2U, 3U}) d.acquire(who, kS);
  d.acquire(4);
  d.acquire(5, kS);
  d.release(1);
  EXPECT_EQ(d.did(EffectKind::kGranted), (Ids{2, 3}));
}

TEST(SharedModeTest, AWriterThatGivesUpLetsTheReadersBehindItIn) {
  Driver d;
  d.acquire(1, kS);
  d.acquire(2);
  d.acquire(3, kS);
  d.cancel(2);
  EXPECT_EQ(d.did(EffectKind::kGranted), Ids{3});
}

TEST(SharedModeTest, NextExpiryIsTheEarliestAmongTheHolders) {
  Driver d;
  d.ttl = Duration{300};
  d.acquire(1, kS);
  d.ttl = Duration{200};
  d.acquire(2, kS);
  EXPECT_EQ(d.try_acquire(3).next_expiry, at(200));
}

TEST(SharedModeTest, AnUpgradeOfTheOnlyReaderIsImmediateAndHasANewToken) {
  Driver d;
  d.acquire(1, kS);
  const Reply reply = d.upgrade(1, 2);
  EXPECT_EQ(reply.outcome, Outcome::kHeld);
  EXPECT_EQ(reply.token, token(2));
  EXPECT_EQ(d.effect(EffectKind::kGranted).upgrade_of, id(1));
  EXPECT_EQ(d.holders(), (Ids{1, 2}));
  EXPECT_EQ(d.try_acquire(3, kS).outcome, Outcome::kBusy);
}

TEST(SharedModeTest, AnUpgradeWaitsForTheOtherReadersAndBlocksNewOnes) {
  Driver d;
  d.acquire(1, kS);
  d.acquire(2, kS);
  EXPECT_EQ(d.upgrade(1, 3).outcome, Outcome::kWaiting);
  EXPECT_EQ(d.acquire(4, kS).outcome, Outcome::kWaiting);
  d.release(2);
  EXPECT_EQ(d.did(EffectKind::kGranted), Ids{3});
  EXPECT_EQ(d.holders(), (Ids{1, 3}));
  EXPECT_EQ(d.waiters(), Ids{4});
}

TEST(SharedModeTest, AnUpgradePassesTheWritersAheadOfIt) {
  Driver d;
  d.acquire(1, kS);
  d.acquire(2);
  const Reply reply = d.upgrade(1, 3);
  EXPECT_EQ(reply.outcome, Outcome::kHeld);
  EXPECT_EQ(d.waiters(), Ids{2});
}

TEST(SharedModeTest, AWaitingUpgradeIsNextWhateverItsPlace) {
  Driver d;
  d.acquire(1, kS);
  d.acquire(2, kS);
  d.acquire(3);
  EXPECT_EQ(d.upgrade(1, 4).position, 0U);
  d.release(2);
  EXPECT_EQ(d.holders(), (Ids{1, 4}));
}

TEST(SharedModeTest, AReaderAheadOfTheUpgradeIsAdmittedBeforeItWhenTheWriterBetweenLeaves) {
  Driver d;
  d.acquire(1, kS);
  d.acquire(2, kS);
  d.acquire(3);
  d.acquire(4, kS);
  d.upgrade(1, 5);
  d.cancel(3);
  EXPECT_EQ(d.holders(), (Ids{1, 2, 4}));
  d.release(2);
  d.release(4);
  EXPECT_EQ(d.holders(), (Ids{1, 5}));
}

TEST(SharedModeTest, AnAdmittedUpgradeKeepsTheReadersThatItPassedWaiting) {
  Driver d;
  d.acquire(1, kS);
  d.acquire(2);
  d.acquire(3, kS);
  d.upgrade(1, 4);
  d.cancel(2);
  EXPECT_EQ(d.did(EffectKind::kGranted), Ids{});
  EXPECT_EQ(d.waiters(), Ids{3});
}

TEST(SharedModeTest, ASecondUpgradeWouldDeadlock) {
  Driver d;
  d.acquire(1, kS);
  d.acquire(2, kS);
  d.upgrade(1, 3);
  EXPECT_EQ(d.upgrade(2, 4).outcome, Outcome::kWouldDeadlock);
  EXPECT_EQ(d.upgrade(1, 5).outcome, Outcome::kWouldDeadlock);
  EXPECT_EQ(d.upgrade(1, 3).outcome, Outcome::kWaiting) << "the first one, repeated";
  d.cancel(3);
  EXPECT_EQ(d.upgrade(2, 4).outcome, Outcome::kWaiting);
}

TEST(SharedModeTest, OnlyASharedHolderCanBeUpgraded) {
  Driver d;
  EXPECT_EQ(d.upgrade(1, 2).outcome, Outcome::kInvalid);
  d.acquire(1);
  EXPECT_EQ(d.upgrade(1, 2).outcome, Outcome::kInvalid);
  d.acquire(3, kS);
  EXPECT_EQ(d.upgrade(3, 2).outcome, Outcome::kInvalid) << "it waits";
  EXPECT_EQ(d.upgrade(9, 2).outcome, Outcome::kInvalid);
  Acquire shared = d.request(2, kS);
  shared.upgrade_of = id(1);
  EXPECT_EQ(d.apply(shared).outcome, Outcome::kInvalid);
}

TEST(SharedModeTest, ReleasingTheSharedTicketEndsItsWaitingUpgrade) {
  Driver d;
  d.acquire(1, kS);
  d.acquire(2, kS);
  d.upgrade(1, 3);
  d.acquire(4, kS);
  d.release(1);
  EXPECT_EQ(d.did(EffectKind::kCancelled), Ids{3});
  EXPECT_EQ(d.did(EffectKind::kReleased), Ids{1});
  EXPECT_EQ(d.did(EffectKind::kGranted), Ids{4});
}

TEST(SharedModeTest, ReleasingTheSharedTicketEndsItsAdmittedUpgrade) {
  Driver d;
  d.tombstone = Duration{50};
  d.acquire(1, kS);
  d.upgrade(1, 2);
  d.acquire(3);
  d.release(1);
  EXPECT_EQ(d.did(EffectKind::kReleased), (Ids{2, 1}));
  EXPECT_EQ(d.did(EffectKind::kTombstone), (Ids{2, 1}));
  EXPECT_EQ(d.holders(), Ids{3});
}

TEST(SharedModeTest, TheSharedTicketsExpiryEndsItsUpgrade) {
  Driver d;
  d.acquire(1, kS);
  d.now = at(50);
  d.upgrade(1, 2);
  d.acquire(3);
  d.now = at(75);
  d.renew(3, 1);
  d.tick(at(100));
  EXPECT_EQ(d.did(EffectKind::kExpired), (Ids{2, 1}));
  EXPECT_EQ(d.holders(), Ids{3});
}

TEST(SharedModeTest, TheUpgradesExpiryLeavesTheSharedTicket) {
  Driver d;
  d.acquire(1, kS);
  d.upgrade(1, 2);
  d.now = at(60);
  d.renew(1, 1);
  d.acquire(3, kS);
  d.now = at(80);
  d.renew(3, 1);
  d.tick(at(100));
  EXPECT_EQ(d.did(EffectKind::kExpired), Ids{2});
  EXPECT_EQ(d.holders(), (Ids{1, 3}));
}

TEST(SharedModeTest, BreakingTheSharedTicketEndsItsUpgradeToo) {
  Driver d;
  d.acquire(1, kS);
  d.upgrade(1, 2);
  d.apply(Break{.name = d.name, .token = token(1)});
  EXPECT_EQ(d.did(EffectKind::kBroken), (Ids{2, 1}));
  EXPECT_EQ(d.holders(), Ids{});
}

TEST(SharedModeTest, BreakingAnUpgradeLeavesItsSharedTicket) {
  Driver d;
  d.acquire(1, kS);
  d.upgrade(1, 2);
  d.apply(Break{.name = d.name, .token = token(2)});
  EXPECT_EQ(d.holders(), Ids{1});
}

TEST(SharedModeTest, DowngradeWeakensInPlaceAndAdmitsTheReaders) {
  Driver d;
  d.acquire(1);
  d.acquire(2, kS);
  d.acquire(3, kS);
  d.acquire(4);
  EXPECT_EQ(d.downgrade(1).outcome, Outcome::kDone);
  EXPECT_EQ(d.did(EffectKind::kDowngraded), Ids{1});
  EXPECT_EQ(d.effect(EffectKind::kDowngraded).token, token(1)) << "the token stays";
  EXPECT_EQ(d.did(EffectKind::kGranted), (Ids{2, 3}));
  EXPECT_EQ(d.machine.inspect(d.name)->tickets[0].mode, kS);
  EXPECT_EQ(d.holders(), (Ids{1, 2, 3}));
}

TEST(SharedModeTest, DowngradeOfAnUpgradeLeavesItsSharedTicket) {
  Driver d;
  d.tombstone = Duration{50};
  d.acquire(1, kS);
  d.upgrade(1, 2);
  d.acquire(3, kS);
  EXPECT_EQ(d.downgrade(2).outcome, Outcome::kDone);
  EXPECT_EQ(d.did(EffectKind::kReleased), Ids{2});
  EXPECT_EQ(d.did(EffectKind::kTombstone), Ids{2});
  EXPECT_EQ(d.holders(), (Ids{1, 3}));
  EXPECT_EQ(d.upgrade(1, 2).outcome, Outcome::kGone) << "a late duplicate of the upgrade";
}

TEST(SharedModeTest, ALateDowngradeOfTheSharedTicketLeavesItsUpgradeAlone) {
  Driver d;
  d.acquire(1);
  d.downgrade(1);
  d.upgrade(1, 2);
  EXPECT_EQ(d.downgrade(1).outcome, Outcome::kDone);
  EXPECT_TRUE(d.effects.empty());
  EXPECT_EQ(d.holders(), (Ids{1, 2}));
}

TEST(SharedModeTest, OnlyAHolderIsDowngraded) {
  Driver d;
  EXPECT_EQ(d.downgrade(1).outcome, Outcome::kNotHeld);
  d.acquire(1);
  d.acquire(2);
  EXPECT_EQ(d.downgrade(2).outcome, Outcome::kNotHeld);
  EXPECT_EQ(d.downgrade(9).outcome, Outcome::kNotHeld);
}

TEST(SharedModeTest, AThousandReadersAreAdmittedInSteps) {
  Driver d;
  d.acquire(1);
  for (std::uint64_t who = 2; who <= 1001; ++who) d.acquire(who, kS);
  d.release(1);
  std::size_t admitted = d.did(EffectKind::kGranted).size();
  EXPECT_EQ(admitted, 128U);
  while (d.machine.next_event() == d.now) {
    d.apply(Tick{});
    admitted += d.did(EffectKind::kGranted).size();
  }
  EXPECT_EQ(admitted, 1000U);
}

}  // namespace
}  // namespace holdfast::machine
