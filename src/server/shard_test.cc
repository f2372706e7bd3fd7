// The rules of the lock service on one node, fact by fact, and together in simulated worlds.
//
// HOLDFAST_SIM_SEEDS=20000 runs more worlds; HOLDFAST_SIM_SEED=n replays one.
#include "src/server/shard.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "src/server/compactor.h"
#include "src/server/testing/shard_rig.h"
#include "src/server/testing/world.h"
#include "tests/simulation/seeds.h"

namespace holdfast::server {
namespace {

using machine::Outcome;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ShardRig;

Outcome outcome(const ShardRig::Slot& slot) { return slot->value().value().reply.outcome; }

// --- Rule 43: an orderly end.

// When a lock that 1 holds is free for 2: the time since `rig` has been there.
machine::Duration free_after(ShardRig& rig, std::string_view name) {
  machine::Duration passed{};
  for (; passed < seconds(60); passed += milliseconds(100), rig.pass(milliseconds(100))) {
    machine::Acquire other = rig.acquire(name, 99);
    other.may_wait = false;
    const auto answer = rig.ask(other);
    rig.commit();
    if (outcome(answer) == Outcome::kHeld) return passed;
  }
  return passed;
}

TEST(ShardTest, AnOrderlyEndLengthensNoLeaseAndACrashDoes) {
  for (const bool orderly : {true, false}) {
    ShardRig rig;
    rig.hold("a", 1);
    rig.pass(seconds(4));
    rig.ask(machine::Renew{"a", {1, 1}, 1, rig.kTtl, rig.kTtl});  // From memory alone.
    rig.hold("b", 1);
    rig.pass(seconds(4));
    if (orderly) rig.stop();
    rig.restart();
    const auto left = free_after(rig, "b");
    const auto whole = std::chrono::duration_cast<milliseconds>(rig.kTtl);
    if (orderly) {
      EXPECT_LE(left, whole - seconds(4) + milliseconds(200));
      EXPECT_GE(left, whole - seconds(4)) << "the renewal before the end counts";
    } else {
      EXPECT_GE(left, whole);
    }
  }
}

TEST(ShardTest, ARenewalFromMemoryOutlivesAnOrderlyEnd) {
  ShardRig rig;
  rig.hold("a", 1);
  rig.pass(seconds(8));
  const auto renewed = rig.ask(machine::Renew{"a", {1, 1}, 1, rig.kTtl, rig.kTtl});
  ASSERT_EQ(outcome(renewed), Outcome::kHeld);
  rig.stop();
  rig.restart();
  EXPECT_GE(free_after(rig, "a"), rig.kTtl);
}

TEST(ShardTest, AfterTheFirstClosingRecordNothingIsAnswered) {
  ShardRig rig;
  rig.hold("a", 1);
  ASSERT_TRUE(rig.shard().take_closing_batch(rig.boot));
  const auto renewed = rig.ask(machine::Renew{"a", {1, 1}, 1, rig.kTtl, rig.kTtl});
  ASSERT_TRUE(*renewed);
  EXPECT_EQ((**renewed).error().code(), Errc::kUnavailable);
}

TEST(ShardTest, AStartAfterAnOrderlyEndThatCrashesExtendsLeases) {
  ShardRig rig;
  rig.hold("a", 1);
  rig.pass(seconds(4));
  rig.stop();
  rig.restart();
  rig.restart();
  EXPECT_GE(free_after(rig, "a"), rig.kTtl);
}

// --- Rule 49: a copy that was put back.

TEST(ShardTest, ARestoredCopyGrantsNothingAndNoLeaseEndsUntilTheWaitIsOver) {
  ShardRig rig;
  rig.hold("a", 1);
  rig.hold("a", 2);  // Waits.
  rig.quiet = seconds(100);
  rig.restart();
  rig.told.clear();
  const auto early = rig.ask(rig.acquire("b", 3));
  ASSERT_TRUE(*early);
  EXPECT_EQ((**early).error().code(), Errc::kUnavailable);
  bool seen = false;
  rig.shard().inspect(rig.boot, "a", [&](const Result<LockSight>& sight) {
    seen = sight && sight->lock && sight->lock->tickets.size() == 2;
  });
  EXPECT_TRUE(seen) << "reads are answered";
  rig.pass(seconds(99));
  rig.commit();
  EXPECT_TRUE(rig.told.empty()) << "no waiter is granted, and nothing ends";
  rig.pass(seconds(2));
  const auto late = rig.ask(rig.acquire("b", 3));
  rig.commit();
  EXPECT_EQ(outcome(late), Outcome::kHeld);
}

// --- Rule 32: what leaves is committed.

TEST(ShardTest, AGrantIsToldAfterItsCommit) {
  ShardRig rig;
  const auto answer = rig.ask(rig.acquire("a", 1));
  ASSERT_TRUE(rig.begin());
  EXPECT_FALSE(*answer);
  EXPECT_TRUE(rig.told.empty());
  rig.finish();
  ASSERT_TRUE(*answer);
  EXPECT_EQ(outcome(answer), Outcome::kHeld);
  EXPECT_EQ(rig.told.size(), 1U);
}

TEST(ShardTest, AReadWaitsForWhatItHasSeen) {
  ShardRig rig;
  rig.ask(rig.acquire("a", 1));
  bool told = false;
  rig.shard().inspect(rig.boot, "a", [&](const Result<LockSight>& sight) {
    told = sight && sight->lock && sight->lock->tickets.size() == 1;
  });
  EXPECT_FALSE(told);
  rig.commit();
  EXPECT_TRUE(told);
}

TEST(ShardTest, ABusyAnswerWaitsForTheGrantThatItTells) {
  ShardRig rig;
  rig.ask(rig.acquire("a", 1));
  ASSERT_TRUE(rig.begin());
  machine::Acquire other = rig.acquire("a", 2);
  other.may_wait = false;
  const auto busy = rig.ask(other);
  EXPECT_FALSE(*busy);  // It has changed nothing itself.
  rig.finish();
  EXPECT_EQ(outcome(busy), Outcome::kBusy);
}

TEST(ShardTest, ARepeatedAcquireAndAHeartbeatWaitForTheGrant) {
  ShardRig rig;
  rig.ask(rig.acquire("a", 1));
  const auto again = rig.ask(rig.acquire("a", 1));
  ASSERT_TRUE(rig.begin());
  const auto beat = rig.ask(machine::Renew{"a", {1, 1}, 1, rig.kTtl, rig.kTtl});
  EXPECT_FALSE(*again);
  EXPECT_FALSE(*beat);
  rig.finish();
  EXPECT_EQ(outcome(again), Outcome::kHeld);
  EXPECT_EQ(outcome(beat), Outcome::kHeld);
}

TEST(ShardTest, ARepeatedAcquireInAnotherModeIsRefused) {
  ShardRig rig;
  const auto in = [&](machine::Mode mode, std::uint64_t id, const char* name = "a") {
    machine::Acquire wish = rig.acquire(name, id);
    wish.mode = mode;
    const auto slot = rig.ask(wish);
    rig.commit();
    return outcome(slot);
  };
  EXPECT_EQ(in(machine::Mode::shared(), 1), Outcome::kHeld);
  EXPECT_EQ(in(machine::Mode::exclusive(), 2), Outcome::kWaiting);
  EXPECT_EQ(in(machine::Mode::exclusive(), 1), Outcome::kMismatch);
  EXPECT_EQ(in(machine::Mode::shared(), 2), Outcome::kMismatch);
  EXPECT_EQ(in(machine::Mode::shared(), 1), Outcome::kHeld) << "nothing has changed";
  EXPECT_EQ(in(machine::Mode::exclusive(), 2), Outcome::kWaiting);
  EXPECT_EQ(in(machine::Mode::of_permits(1, 3), 1, "slots"), Outcome::kHeld);
  EXPECT_EQ(in(machine::Mode::of_permits(2, 3), 1, "slots"), Outcome::kMismatch);
  EXPECT_EQ(in(machine::Mode::of_permits(1, 3), 1, "slots"), Outcome::kHeld);
  // Its lease has ended, so this is the first call of a new ticket.
  rig.pass(2 * rig.kTtl);
  EXPECT_NE(in(machine::Mode::exclusive(), 1), Outcome::kMismatch);
}

TEST(ShardTest, SeveralLocksAtOnceAreRefusedIfOneIsHeldInAnotherMode) {
  ShardRig rig;
  machine::Acquire wish = rig.acquire("a", 1);
  wish.mode = machine::Mode::shared();
  rig.ask(wish);
  rig.commit();
  std::optional<Result<Service::AllOrNone>> all;
  const std::vector<Request> both = {{.client = "c", .action = rig.acquire("a", 1)},
                                     {.client = "c", .action = rig.acquire("b", 2)}};
  rig.shard().submit_all(rig.boot, both, [&](auto answer) { all.emplace(std::move(answer)); });
  rig.commit();
  ASSERT_TRUE(all && *all);
  ASSERT_TRUE((*all)->refused);
  EXPECT_EQ((*all)->refused->reply.outcome, Outcome::kMismatch);
  EXPECT_EQ((*all)->refused_index, 0U);
  EXPECT_EQ(rig.hold("b", 3).outcome, Outcome::kHeld) << "none was taken";
}

TEST(ShardTest, AHandoffIsPushedAfterTheCommitOfTheRelease) {
  ShardRig rig;
  rig.hold("a", 1);
  rig.hold("a", 2);  // Waits.
  rig.ask(machine::Release{"a", {1, 1}, {}});
  EXPECT_TRUE(rig.pushes.empty());
  rig.commit();
  ASSERT_EQ(rig.pushes.size(), 1U);
  EXPECT_EQ(rig.pushes[0].kind, port::Push::Kind::kGranted);
  EXPECT_EQ(rig.pushes[0].id, (machine::AcquisitionId{1, 2}));
}

TEST(ShardTest, AHeartbeatThatFindsTheHandoffWaitsForItsCommit) {
  ShardRig rig;
  rig.hold("a", 1);
  rig.hold("a", 2);
  rig.ask(machine::Release{"a", {1, 1}, {}});
  const auto beat = rig.ask(machine::Renew{"a", {1, 2}, 1, rig.kTtl, rig.kTtl});
  EXPECT_FALSE(*beat);
  rig.commit();
  EXPECT_EQ(outcome(beat), Outcome::kHeld);
}

// --- Rule 33: renewals.

TEST(ShardTest, ARenewalIsAnsweredAtOnceAndNotJournaled) {
  ShardRig rig;
  rig.hold("a", 1);
  rig.ask(rig.acquire("b", 9));  // Somebody else's commit is under way.
  ASSERT_TRUE(rig.begin());
  rig.pass(seconds(1));
  const auto renewal = rig.ask(machine::Renew{"a", {1, 1}, 1, rig.kTtl, rig.kTtl});
  ASSERT_TRUE(*renewal);
  EXPECT_EQ((**renewal)->reply.seq, 1U);
  rig.finish();
  EXPECT_FALSE(rig.begin());
}

TEST(ShardTest, ALongerRenewalIsAnsweredAfterItsCommit) {
  ShardRig rig;
  rig.hold("a", 1);
  const auto renewal = rig.ask(machine::Renew{"a", {1, 1}, 1, 3 * rig.kTtl, 3 * rig.kTtl});
  EXPECT_FALSE(*renewal);
  rig.commit();
  EXPECT_EQ(outcome(renewal), Outcome::kHeld);
  rig.restart();
  const auto lock = rig.shard().machine().inspect("a");
  EXPECT_GE(lock->tickets[0].lease_end - rig.shard().machine().now(), 3 * rig.kTtl);
}

// After a restart the lease lasts longer than one ttl, so the renewal does not move its end.
TEST(ShardTest, ARenewalThatTheLeaseCoversIsAnsweredWithItsOwnNumber) {
  ShardRig rig;
  rig.hold("a", 1);
  rig.ask(machine::Renew{"a", {1, 1}, 1, 3 * rig.kTtl, 3 * rig.kTtl});
  rig.commit();
  rig.restart();
  const auto renewal = rig.ask(machine::Renew{"a", {1, 1}, 2, rig.kTtl, rig.kTtl});
  ASSERT_TRUE(*renewal);
  EXPECT_EQ((**renewal)->reply.seq, 2U);
  EXPECT_EQ((**renewal)->reply.lease, rig.kTtl);
  // A request with a lower number that comes late must not cut what was just told.
  const auto late = rig.ask(machine::Keep{"a", {1, 1}, 1, seconds(1), {}});
  rig.commit();
  EXPECT_EQ(outcome(late), Outcome::kNotHeld);
  const auto lock = rig.shard().machine().inspect("a");
  EXPECT_GE(lock->tickets[0].lease_end - rig.shard().machine().now(), rig.kTtl);
}

// --- Rule 37: releases.

TEST(ShardTest, AReleaseOfACommittedHolderIsAnsweredAtOnce) {
  ShardRig rig;
  rig.hold("a", 1);
  const auto release = rig.ask(machine::Release{"a", {1, 1}, {}});
  ASSERT_TRUE(*release);
  EXPECT_EQ(outcome(release), Outcome::kReleased);
  // The crash before the commit leaves the lock busy, for as long as its lease.
  rig.restart();
  EXPECT_TRUE(rig.shard().machine().inspect("a"));
  rig.pass(rig.kTtl + seconds(1));
  EXPECT_EQ(rig.hold("a", 2).outcome, Outcome::kHeld);
}

// So the next grant may share its commit.
TEST(ShardTest, ABatchOfReleasesHasTimeUntilSomebodyWaitsForIt) {
  ShardRig rig;
  rig.hold("a", 1);
  rig.ask(machine::Release{"a", {1, 1}, {}});
  EXPECT_TRUE(rig.shard().has_bytes());
  EXPECT_TRUE(rig.shard().has_time());
  rig.ask(rig.acquire("b", 2));
  EXPECT_FALSE(rig.shard().has_time());
}

TEST(ShardTest, AHandoffHasNoTime) {
  ShardRig rig;
  rig.hold("a", 1);
  rig.ask(rig.acquire("a", 2));
  rig.commit();
  rig.ask(machine::Release{"a", {1, 1}, {}});
  EXPECT_TRUE(rig.shard().has_bytes());
  EXPECT_FALSE(rig.shard().has_time());
}

TEST(ShardTest, OtherEndsAreAnsweredAfterTheirCommit) {
  ShardRig rig;
  const auto uncommitted = rig.ask(rig.acquire("u", 5));
  const auto early = rig.ask(machine::Release{"u", {1, 5}, {}});
  EXPECT_FALSE(*early);
  rig.hold("a", 1);
  rig.hold("b", 2);
  rig.hold("c", 3);
  rig.hold("d", 4);
  const auto cancel = rig.ask(machine::Cancel{"a", {1, 1}, {}});
  const auto keep = rig.ask(machine::Keep{"b", {1, 2}, 1, seconds(1), {}});
  const auto set = rig.ask(machine::SetValue{"c", {1, 3}, "v"});
  const auto release = rig.ask(machine::Release{"c", {1, 3}, {}});  // Its value is not committed.
  const auto token = rig.shard().machine().inspect("d")->last_token;
  const auto broken = rig.ask(machine::Break{"d", token, {}, nullptr});
  for (const auto& each : {cancel, keep, set, release, broken}) EXPECT_FALSE(*each);
  rig.commit();
  for (const auto& each : {cancel, keep, set, release, broken}) EXPECT_TRUE(*each);
}

// --- Rules 34, 40, 53: time.

TEST(ShardTest, NothingIsAnsweredFromMemoryWhileTimeIsInDoubt) {
  ShardRig rig;
  rig.hold("a", 1);
  rig.hold("b", 2);
  rig.ask(rig.acquire("x", 9));
  ASSERT_TRUE(rig.begin());
  rig.shard().doubt_time();
  const auto renewal = rig.ask(machine::Renew{"a", {1, 1}, 1, rig.kTtl, rig.kTtl});
  const auto release = rig.ask(machine::Release{"b", {1, 2}, {}});
  rig.finish();  // It was begun before the doubt.
  EXPECT_FALSE(*renewal);
  EXPECT_FALSE(*release);
  ASSERT_TRUE(rig.begin());
  rig.finish();
  EXPECT_TRUE(*renewal);
  EXPECT_TRUE(*release);
}

TEST(ShardTest, AfterTheDeadlineOfLeadershipEveryAnswerWaitsForAWriteOfItsOwn) {
  ShardRig rig;
  rig.hold("a", 1);
  rig.hold("b", 2);
  rig.shard().lead_until(rig.boot + seconds(1));
  EXPECT_TRUE(*rig.ask(machine::Renew{"a", {1, 1}, 1, rig.kTtl, rig.kTtl}));
  rig.pass(seconds(1));
  for (std::uint64_t seq = 2; seq < 4; ++seq) {  // Also after the first such write.
    const auto renewal = rig.ask(machine::Renew{"a", {1, 1}, seq, rig.kTtl, rig.kTtl});
    EXPECT_FALSE(*renewal);
    rig.commit();
    EXPECT_TRUE(*renewal);
  }
  bool read = false;
  rig.shard().inspect(rig.boot, "a", [&](const Result<LockSight>&) { read = true; });
  const auto release = rig.ask(machine::Release{"b", {1, 2}, {}});
  EXPECT_FALSE(read);
  EXPECT_FALSE(*release);
  rig.commit();
  EXPECT_TRUE(read);
  EXPECT_TRUE(*release);
  rig.shard().lead_until(rig.boot + seconds(1));
  EXPECT_TRUE(*rig.ask(machine::Renew{"a", {1, 1}, 4, rig.kTtl, rig.kTtl}));
}

// A paused virtual machine whose clock stood still passes no deadline, but the write shows it.
TEST(ShardTest, AConfirmedRenewalWaitsForACommitThatBeginsLater) {
  ShardRig rig;
  rig.hold("a", 1);
  rig.shard().confirm_renewals();
  const std::size_t batches = rig.disk.batches.size();
  std::uint64_t seq = 0;
  const auto renew = [&] {
    return rig.ask(machine::Renew{"a", {1, 1}, ++seq, rig.kTtl, rig.kTtl});
  };
  const auto first = renew();
  EXPECT_FALSE(*first);
  ASSERT_TRUE(rig.begin());
  const auto second = renew();  // The commit under way began before it was read.
  rig.finish();
  EXPECT_TRUE(*first);
  EXPECT_FALSE(*second);
  ASSERT_TRUE(rig.begin());
  rig.finish();
  EXPECT_TRUE(*second);
  EXPECT_FALSE(rig.begin()) << "nobody waits any more";
  EXPECT_EQ(rig.disk.batches.size(), batches) << "nothing had to be written";
  // The next batch has the next number.
  rig.hold("b", 2);
  EXPECT_EQ(rig.disk.batches.size(), batches + 1);
}

// Rule 57: by this answer a resource judges a token.
TEST(ShardTest, AReadOfOneLockIsConfirmed) {
  ShardRig rig;
  rig.hold("a", 1);
  rig.shard().confirm_renewals();
  rig.shard().lead_until(rig.boot + seconds(2));
  bool read = false;
  rig.shard().inspect(rig.boot, "a",
                      [&](const Result<LockSight>& sight) { read = sight && sight->lock; });
  rig.shard().trust_deadline(rig.boot);
  EXPECT_FALSE(read) << "the deadline of leadership is no confirmation";
  ASSERT_TRUE(rig.begin());
  rig.finish();
  EXPECT_TRUE(read);
}

TEST(ShardTest, WhileACommitTakesLongTheDeadlineOfLeadershipIsTrusted) {
  ShardRig rig;
  rig.hold("a", 1);
  rig.shard().confirm_renewals();
  rig.shard().lead_until(rig.boot + seconds(2));
  std::uint64_t seq = 0;
  const auto renew = [&] {
    return rig.ask(machine::Renew{"a", {1, 1}, ++seq, rig.kTtl, rig.kTtl});
  };
  const auto first = renew();
  ASSERT_TRUE(rig.begin());
  const auto second = renew();
  const auto grant = rig.ask(rig.acquire("b", 2));
  rig.shard().trust_deadline(rig.boot);
  EXPECT_TRUE(*first);
  EXPECT_TRUE(*second);
  EXPECT_FALSE(*grant) << "it has to be written";
  EXPECT_TRUE(*renew()) << "as long as that commit is under way";
  rig.finish();
  const auto later = renew();
  EXPECT_FALSE(*later);
  rig.commit();
  EXPECT_TRUE(*later);
  EXPECT_TRUE(*grant);
}

TEST(ShardTest, ADeadlineThatHasPassedOrATimeInDoubtIsNotTrusted) {
  for (const bool doubts : {false, true}) {
    ShardRig rig;
    rig.hold("a", 1);
    rig.shard().confirm_renewals();
    rig.shard().lead_until(rig.boot + seconds(2));
    const auto renewal = rig.ask(machine::Renew{"a", {1, 1}, 1, rig.kTtl, rig.kTtl});
    ASSERT_TRUE(rig.begin());
    if (doubts) rig.shard().doubt_time();
    rig.shard().trust_deadline(rig.boot + seconds(doubts ? 1 : 2));
    EXPECT_FALSE(*renewal);
    rig.finish();
    EXPECT_TRUE(*renewal);
  }
}

// Rule 39. The old leader is not dead but paused, and answers until its deadline.
TEST(ShardTest, ATakeOverWaitsForWhatTheOldLeaderMayStillAnswer) {
  for (const auto covered : {seconds(2), seconds(0)}) {
    ShardRig rig;
    rig.hold("a", 1);
    rig.shard().lead_until(rig.boot + seconds(2));
    const auto old = rig.take_over(covered);
    const machine::Instant late = old.boot + milliseconds(1'900);
    std::optional<Outcome> renewed;
    old.shard->submit(late, {"c", 0, machine::Renew{"a", {1, 1}, 1, rig.kTtl, rig.kTtl}},
                      [&](const Result<Answer>& answer) { renewed = answer->reply.outcome; });
    ASSERT_EQ(renewed, Outcome::kHeld);
    const machine::Duration believed = milliseconds(1'900) + rig.kTtl;
    const bool safe = free_after(rig, "a") >= believed;
    EXPECT_EQ(safe, covered > seconds(0)) << "without it two would hold";
    std::optional<Outcome> later;
    old.shard->submit(old.boot + seconds(2),
                      {"c", 0, machine::Renew{"a", {1, 1}, 2, rig.kTtl, rig.kTtl}},
                      [&](const Result<Answer>& answer) { later = answer->reply.outcome; });
    EXPECT_FALSE(later) << "the deadline has passed";
  }
}

TEST(ShardTest, LeasesDoNotDependOnTheUptimeOfTheHost) {
  ShardRig rig;
  rig.pass(seconds(100));
  rig.hold("a", 1);
  rig.restart();  // Uptime is shorter now.
  rig.pass(rig.kTtl - seconds(1));
  EXPECT_TRUE(rig.shard().machine().inspect("a"));
  rig.pass(seconds(2));
  EXPECT_FALSE(rig.shard().machine().inspect("a"));
}

TEST(ShardTest, WaitingRenewalsComeBeforeExpiryAfterAStall) {
  ShardRig rig;
  rig.hold("a", 1);
  rig.boot += 2 * rig.kTtl;  // The process was stopped, or the host asleep.
  rig.shard().tick(rig.boot);
  rig.boot += milliseconds(50);
  EXPECT_EQ(outcome(rig.ask(machine::Renew{"a", {1, 1}, 1, rig.kTtl, rig.kTtl})), Outcome::kHeld);
  rig.pass(rig.kTtl + seconds(1));
  EXPECT_FALSE(rig.shard().machine().inspect("a"));
}

// --- Rules 42, 54, 56: a journal that fails, is full, is slow.

TEST(ShardTest, AnUnknownCommitAnswersUnknownAndWhatWasNotSentUnavailable) {
  ShardRig rig;
  rig.hold("h", 7);
  const auto sent = rig.ask(rig.acquire("a", 1));
  ASSERT_TRUE(rig.begin());
  const auto unsent = rig.ask(rig.acquire("b", 2));
  rig.shard().fail(Error(Errc::kUnavailable, "the disk is gone"), /*unknown=*/true);
  EXPECT_EQ((*sent)->error().code(), Errc::kOutcomeUnknown);
  EXPECT_EQ((*unsent)->error().code(), Errc::kUnavailable);
  const auto renewal = rig.ask(machine::Renew{"h", {1, 7}, 1, rig.kTtl, rig.kTtl});
  EXPECT_EQ((*renewal)->error().code(), Errc::kUnavailable);
  EXPECT_FALSE(rig.shard().take_batch());
}

TEST(ShardTest, ARefusedCommitIsUnavailable) {
  ShardRig rig;
  const auto sent = rig.ask(rig.acquire("a", 1));
  ASSERT_TRUE(rig.begin());
  rig.shard().fail(Error(Errc::kUnavailable, "another server"), /*unknown=*/false);
  EXPECT_EQ((*sent)->error().code(), Errc::kUnavailable);
}

TEST(ShardTest, AFullJournalRefusesGrantsAndRenews) {
  ShardRig rig;
  rig.hold("a", 1);
  rig.shard().set_full(true);
  EXPECT_EQ((*rig.ask(rig.acquire("b", 2)))->error().code(), Errc::kUnavailable);
  EXPECT_EQ(outcome(rig.ask(machine::Renew{"a", {1, 1}, 1, rig.kTtl, rig.kTtl})), Outcome::kHeld);
  EXPECT_EQ(outcome(rig.ask(machine::Release{"a", {1, 1}, {}})), Outcome::kReleased);
}

// One command has all renewals of a client, so one without an answer would end them all.
TEST(ShardTest, AFullJournalHoldsNoRenewalUp) {
  ShardRig rig;
  rig.hold("a", 1);
  rig.hold("a", 2);  // Waits.
  rig.ask(machine::Release{"a", {1, 1}, {}});
  const auto before = rig.ask(machine::Renew{"a", {1, 2}, 1, rig.kTtl, rig.kTtl});
  ASSERT_TRUE(rig.begin());
  rig.shard().set_full(true);
  const auto since = rig.ask(machine::Renew{"a", {1, 2}, 2, rig.kTtl, rig.kTtl});
  for (const auto& renewal : {before, since}) {
    ASSERT_TRUE(*renewal);
    EXPECT_EQ((*renewal)->error().code(), Errc::kUnavailable);
  }
}

// --- Rule 46: all of a step is in one batch.

TEST(ShardTest, SeveralLocksAreTakenTogetherOrNotAtAll) {
  ShardRig rig;
  rig.hold("b", 9);
  std::optional<Service::AllOrNone> answer;
  const auto take = [&](std::uint64_t id) {
    answer.reset();
    rig.shard().submit_all(rig.boot,
                           {{"c", 0, rig.acquire("a", id)}, {"c", 0, rig.acquire("b", id)}},
                           [&](Result<Service::AllOrNone> all) { answer = *std::move(all); });
    rig.commit();
  };
  take(1);
  ASSERT_TRUE(answer && answer->refused);
  EXPECT_EQ(answer->refused->reply.outcome, Outcome::kBusy);
  EXPECT_EQ(answer->refused_index, 1U);
  EXPECT_FALSE(rig.shard().machine().inspect("a"));
  rig.ask(machine::Release{"b", {1, 9}, {}});
  rig.commit();
  const auto batches = rig.disk.batches.size();
  take(2);
  EXPECT_EQ(answer->granted.size(), 2U);
  EXPECT_EQ(rig.disk.batches.size(), batches + 1);
}

TEST(ShardTest, AllThatAStepAdmitsIsInItsBatch) {
  ShardRig rig;
  rig.hold("a", 1);
  for (std::uint64_t id = 2; id < 402; ++id) {  // More than one step of the machine admits.
    machine::Acquire reader = rig.acquire("a", id);
    reader.mode = machine::Mode::shared();
    rig.ask(reader);
  }
  rig.commit();
  rig.ask(machine::Release{"a", {1, 1}, {}});
  ASSERT_TRUE(rig.begin());
  rig.finish();
  EXPECT_FALSE(rig.begin());
  rig.restart();
  std::size_t holders = 0;
  const auto lock = rig.shard().machine().inspect("a");
  for (const auto& ticket : lock->tickets) holders += ticket.held;
  EXPECT_EQ(holders, 400U);
}

// --- Rules 45, 48: late requests, tokens.

TEST(ShardTest, AnAcquireThatComesAfterItsReleaseIsRefusedAlsoAfterARestart) {
  ShardRig rig;
  rig.hold("a", 1, /*issue=*/5);
  rig.ask(machine::Release{"a", {1, 1}, {}}, 5);
  rig.commit();
  EXPECT_EQ(rig.hold("a", 1, 5).outcome, Outcome::kGone);
  // A release that overtakes its acquire.
  rig.ask(machine::Release{"b", {1, 2}, {}}, 6);
  rig.commit();
  rig.restart();
  EXPECT_EQ(rig.hold("a", 1, 5).outcome, Outcome::kGone);
  EXPECT_EQ(rig.hold("b", 2, 6).outcome, Outcome::kGone);
  EXPECT_EQ(rig.hold("b", 3, 7).outcome, Outcome::kHeld);
}

TEST(ShardTest, AnAcquireWhoseTicketIsThereIsRepeatedHoweverOldItsNumber) {
  ShardRig rig;
  const auto first = rig.hold("a", 1, 5);
  rig.restart();
  const auto again = rig.hold("a", 1, 5);
  EXPECT_EQ(again.outcome, Outcome::kHeld);
  EXPECT_EQ(again.token, first.token);
}

TEST(ShardTest, TokensAreAboveEveryFloorThatWasEverSeen) {
  ShardRig rig;
  rig.restart(/*wall=*/5'000);
  EXPECT_GT(rig.hold("a", 1).token, (machine::Token{0, 5'000}));
  rig.restart(/*wall=*/9'000);
  rig.restart(/*wall=*/10);  // The clock was set back, and nothing was granted in between.
  EXPECT_GT(rig.hold("b", 2).token, (machine::Token{0, 9'000}));
}

machine::Token hold_and_let_operator_break(ShardRig& rig) {
  const machine::Token token = rig.hold("a", 1).token;
  const machine::OwnerInfo by{.owner = "operator"};
  rig.ask(machine::Break{"a", token, {}, std::make_shared<machine::OwnerInfo>(by)});
  rig.commit();
  return token;
}

TEST(ShardTest, TheTraceOfABreakSurvivesARestart) {
  ShardRig rig;
  const machine::Token broken = hold_and_let_operator_break(rig);
  rig.restart();
  const auto renewal = rig.ask(machine::Renew{"a", {1, 1}, 1, rig.kTtl, rig.kTtl});
  ASSERT_EQ(outcome(renewal), Outcome::kGone);
  ASSERT_TRUE((**renewal)->last_break);
  EXPECT_EQ((**renewal)->last_break->token, broken);
  EXPECT_EQ((**renewal)->last_break->by->owner, "operator");
}

// Rule 57: it outlives the batches that the snapshot stands for.
TEST(ShardTest, TheTraceOfABreakIsInTheSnapshot) {
  ShardRig rig;
  const machine::Token broken = hold_and_let_operator_break(rig);
  testing::SimJournal journal(rig.disk);
  ASSERT_TRUE(journal.open());
  const std::uint64_t last = *journal.last();
  Compactor compactor(journal, {.bytes = 1, .chunk = 100}, *journal.head(), last);
  compactor.note_commit(last, 1'000);
  while (compactor.busy()) ASSERT_EQ(compactor.step(), Commit::kCommitted);
  ASSERT_EQ(rig.disk.head.batch, last);
  rig.disk.batches.clear();
  rig.restart();
  const auto renewal = rig.ask(machine::Renew{"a", {1, 1}, 1, rig.kTtl, rig.kTtl});
  ASSERT_TRUE((**renewal)->last_break);
  EXPECT_EQ((**renewal)->last_break->token, broken);
  EXPECT_EQ((**renewal)->last_break->by->owner, "operator");
}

// --- Everything at once.

TEST(ShardSim, EveryWorldKeepsEveryPromise) {
  struct ShardRun {
    std::string play() const { return testing::World(seed).run(250); }
    std::uint64_t seed;
  };
  simulation::play_seeds<ShardRun>(simulation::usually(1'500, 200), "ctest -R server_test");
}

}  // namespace
}  // namespace holdfast::server
