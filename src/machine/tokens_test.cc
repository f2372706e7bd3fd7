// Fencing tokens, the tombstones of ids, and what a forgotten lock leaves behind.
#include <gtest/gtest.h>

#include "src/machine/machine_test_support.h"

namespace holdfast::machine {
namespace {

TEST(TokensTest, GrowWithEveryGrantOfAName) {
  Driver d;
  Token last{};
  for (std::uint64_t who = 1; who <= 5; ++who) {
    const Reply reply = d.acquire(who);
    EXPECT_GT(reply.token, last);
    last = reply.token;
    d.release(who);
  }
}

TEST(TokensTest, StartAboveTheFloorInItsEpoch) {
  Driver d({}, Token{3, 70});
  EXPECT_EQ(d.acquire(1).token, (Token{3, 71}));
}

TEST(TokensTest, OfDifferentNamesAreCountedApart) {
  Driver d;
  d.acquire(1);
  d.name = "other";
  EXPECT_EQ(d.acquire(1).token, token(1));
}

TEST(TokensTest, SurviveTheirLocksBeingForgotten) {
  Driver d;
  d.acquire(1);
  d.release(1);
  EXPECT_EQ(d.did(EffectKind::kForgotten).size(), 1U);
  EXPECT_EQ(d.effect(EffectKind::kForgotten).token, token(1));
  EXPECT_EQ(d.machine.floor(), token(1));
  EXPECT_EQ(d.acquire(2).token, token(2));
}

TEST(TokensTest, OfAForgottenLockRaiseThoseOfTheOthersOnly) {
  Driver d;
  d.name = "kept";
  d.line_up(2);
  d.name = "forgotten";
  for (std::uint64_t who = 1; who <= 9; ++who) {
    d.acquire(who);
    d.release(who);
  }
  d.name = "kept";
  d.release(1);
  EXPECT_EQ(d.effect(EffectKind::kGranted).token, token(10));
}

TEST(TokensTest, AForgottenLockLeavesTheFloorWhereItIsHigher) {
  Driver d({}, token(50));
  d.acquire(1);
  d.name = "other";
  d.acquire(1);
  d.release(1);
  d.name = "orders/42";
  d.release(1);
  EXPECT_EQ(d.machine.floor(), token(51));
}

TEST(TokensTest, NothingIsGrantedAboveTheCeiling) {
  Driver d(Limits{.token_ceiling = 1});
  d.acquire(1);
  d.name = "other";
  EXPECT_EQ(d.acquire(1).outcome, Outcome::kHeld);
  d.release(1);
  EXPECT_EQ(d.acquire(2).outcome, Outcome::kExhausted);
  EXPECT_EQ(d.machine.inspect(d.name), std::nullopt) << "nothing was left behind";
  d.machine.set_token_ceiling(2);
  EXPECT_EQ(d.acquire(2).token, token(2));
}

TEST(TokensTest, AWaiterWithoutATokenWaitsOnUntilTheCeilingRises) {
  Driver d(Limits{.token_ceiling = 1});
  d.line_up(2);
  d.release(1);
  EXPECT_EQ(d.did(EffectKind::kGranted), Ids{});
  EXPECT_EQ(d.waiters(), Ids{2});
  EXPECT_EQ(d.machine.next_event(), at(30)) << "and nobody spins for it";
  EXPECT_EQ(d.acquire(3).outcome, Outcome::kWaiting);
  d.now = at(5);
  d.machine.set_token_ceiling(2);
  d.apply(Tick{});
  EXPECT_EQ(d.holders(), Ids{2});
}

TEST(TokensTest, ACeilingThatRisesTooLittleChangesNothing) {
  Driver d(Limits{.token_ceiling = 10}, token(9));
  d.line_up(2);
  d.release(1);
  d.machine.set_token_ceiling(10);
  EXPECT_EQ(d.machine.next_event(), at(30));
  d.tick(at(30));
  EXPECT_EQ(d.machine.inspect(d.name), std::nullopt);
  d.machine.set_token_ceiling(11);
  EXPECT_EQ(d.machine.next_event(), std::nullopt);
}

TEST(TokensTest, TheCounterDoesNotOverflow) {
  Driver d({}, token(UINT64_MAX - 1));
  EXPECT_EQ(d.acquire(1).token, token(UINT64_MAX));
  EXPECT_EQ(d.acquire(2, Mode::exclusive()).outcome, Outcome::kWaiting);
  d.release(1);
  EXPECT_EQ(d.waiters(), Ids{2});
  d.cancel(2);
  EXPECT_EQ(d.acquire(3).outcome, Outcome::kExhausted);
}

TEST(TombstoneTest, AnAcquireThatComesAfterItsReleaseGetsNothing) {
  Driver d;
  d.tombstone = Duration{50};
  d.acquire(1);
  d.release(1);
  EXPECT_EQ(d.effect(EffectKind::kTombstone).lease_end, at(50));
  EXPECT_EQ(d.acquire(1).outcome, Outcome::kGone);
  EXPECT_TRUE(d.effects.empty());
}

TEST(TombstoneTest, ACancelMayOvertakeItsAcquire) {
  Driver d;
  d.tombstone = Duration{50};
  EXPECT_EQ(d.cancel(1).outcome, Outcome::kGone);
  EXPECT_EQ(d.acquire(1).outcome, Outcome::kGone);
  EXPECT_EQ(d.acquire(2).outcome, Outcome::kHeld);
}

TEST(TombstoneTest, StandsForItsTimeAndThenGoes) {
  Driver d;
  d.tombstone = Duration{50};
  d.cancel(1);
  d.now = at(49);
  EXPECT_EQ(d.acquire(1).outcome, Outcome::kGone);
  d.tick(at(50));
  EXPECT_EQ(d.did(EffectKind::kTombstoneDropped), Ids{1});
  EXPECT_EQ(d.machine.inspect(d.name), std::nullopt);
  EXPECT_EQ(d.acquire(1).outcome, Outcome::kHeld);
}

TEST(TombstoneTest, ARepeatedReleaseProlongsItAndAShorterOneDoesNot) {
  Driver d;
  d.tombstone = Duration{50};
  d.cancel(1);
  d.now = at(10);
  d.cancel(1);
  EXPECT_EQ(d.effect(EffectKind::kTombstone).lease_end, at(60));
  d.tombstone = Duration{5};
  d.cancel(1);
  EXPECT_TRUE(d.effects.empty());
  d.tick(at(59));
  EXPECT_EQ(d.acquire(1).outcome, Outcome::kGone);
}

TEST(TombstoneTest, NoneIsLeftWhereNoneIsAskedFor) {
  Driver d;
  d.acquire(1);
  d.release(1);
  EXPECT_EQ(d.did(EffectKind::kTombstone), Ids{});
  EXPECT_EQ(d.acquire(1).outcome, Outcome::kHeld);
}

TEST(TombstoneTest, AnExpiredIdIsRefusedWhereTheLimitsSaySo) {
  Driver d(Limits{.expiry_tombstone = Duration{40}});
  d.acquire(1);
  d.tick(at(100));
  EXPECT_EQ(d.did(EffectKind::kTombstone), Ids{1});
  EXPECT_EQ(d.acquire(1).outcome, Outcome::kGone);
  d.tick(at(140));
  EXPECT_EQ(d.acquire(1).outcome, Outcome::kHeld);
}

TEST(TombstoneTest, ABrokenIdIsRefused) {
  Driver d;
  d.acquire(1);
  d.apply(Break{.name = d.name, .token = token(1), .tombstone = Duration{40}});
  EXPECT_EQ(d.acquire(1).outcome, Outcome::kGone);
}

TEST(TombstoneTest, IsOfOneNameOnly) {
  Driver d;
  d.tombstone = Duration{50};
  d.cancel(1);
  d.name = "other";
  EXPECT_EQ(d.acquire(1).outcome, Outcome::kHeld);
}

TEST(TombstoneTest, TheOldestGoFirstBeyondTheLimit) {
  Driver d(Limits{.max_tombstones = 2});
  d.tombstone = Duration{50};
  for (std::uint64_t who = 1; who <= 3; ++who) {
    d.now = at(static_cast<std::int64_t>(who));
    d.cancel(who);
  }
  EXPECT_EQ(d.did(EffectKind::kTombstoneDropped), Ids{1});
  EXPECT_EQ(d.acquire(2).outcome, Outcome::kGone);
  EXPECT_EQ(d.acquire(3).outcome, Outcome::kGone);
  EXPECT_EQ(d.acquire(1).outcome, Outcome::kHeld);
}

TEST(TombstoneTest, ALimitOfZeroKeepsNone) {
  Driver d(Limits{.max_tombstones = 0});
  d.tombstone = Duration{50};
  d.cancel(1);
  EXPECT_TRUE(d.effects.empty());
  EXPECT_TRUE(d.machine.names("", 9).empty());
}

}  // namespace
}  // namespace holdfast::machine
