// Histories written by hand: good ones pass, each bad one is refused for its own reason.
#include "lab/checker/checker.h"

#include <chrono>
#include <limits>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/testing/story.h"

namespace holdfast::lab {
namespace {

using testing::Asked;
using ::testing::HasSubstr;
using testing::Story;

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kSecond = 1'000 * kMs;

Verdict judge(const Story& story) { return check(story.history()); }

// Exactly one violation: this one.
void expect_only(const Verdict& verdict, Class kind, std::string_view rule) {
  std::ostringstream text;
  print(verdict, text);
  ASSERT_EQ(verdict.violations.size(), 1U) << text.str();
  EXPECT_EQ(verdict.violations[0].kind, kind) << text.str();
  EXPECT_EQ(verdict.violations[0].rule, rule) << text.str();
}

void release(Story& story, std::uint32_t process, std::int64_t invoke, std::int64_t ret,
             const Asked& asked = {}) {
  story.call(Kind::kRelease, process, invoke, ret, Outcome::kReleased, asked);
}

// Owner 1 holds from 10 to 50 with token 1; its lease would last to 100.
Story one_holder() {
  Story story;
  story.acquire(1, 0, 10, {.token = 1, .deadline = 100});
  release(story, 1, 50, 60);
  return story;
}

TEST(CheckerTest, AHandoffIsLegal) {
  Story story = one_holder();
  story.acquire(2, 5, 50, {.token = 2, .deadline = 150, .wait = 1000});
  release(story, 2, 90, 95);
  EXPECT_TRUE(judge(story).clean());
}

TEST(CheckerTest, NothingIsClean) { EXPECT_TRUE(check({}).clean()); }

TEST(CheckerTest, OneNanosecondOfOverlapIsSeenWithBothSides) {
  Story story = one_holder();
  story.acquire(2, 5, 49, {.token = 2, .deadline = 150, .wait = 1000});
  const Verdict verdict = judge(story);
  EXPECT_EQ(verdict.count(Class::kV0), 1U);
  EXPECT_EQ(verdict.count(Class::kV1), 1U);
  ASSERT_EQ(verdict.violations.size(), 2U);
  const Violation& seen = verdict.violations[1];
  EXPECT_EQ(seen.first, 2U);
  EXPECT_EQ(seen.second, 3U);
  EXPECT_EQ(seen.begin_ns, 49);
  EXPECT_EQ(seen.end_ns, 50);
  EXPECT_THAT(seen.message, HasSubstr("lock 'a'"));
  EXPECT_THAT(seen.message, HasSubstr("owner 1/0"));
  EXPECT_THAT(seen.message, HasSubstr("owner 2/0"));
  EXPECT_THAT(seen.message, HasSubstr("overlap of 0.000001 ms"));
}

TEST(CheckerTest, TwoGrantsThatBothEndedBeforeTheyReturnedStillNeedAnOrderOfTokens) {
  Story story;
  story.acquire(1, 0, 10, {.token = 2, .deadline = 5});
  story.acquire(2, 20, 30, {.token = 1, .deadline = 25});
  expect_only(judge(story), Class::kV0, "token-order");
}

TEST(CheckerTest, AGrantWithinAnothersLeaseIsIllegalEvenIfItHadEndedByItsReturn) {
  Story story;
  story.acquire(1, 0, 10, {.token = 1, .deadline = 100});
  story.acquire(2, 20, 30, {.token = 2, .deadline = 25});
  expect_only(judge(story), Class::kV0, "token-order");
}

TEST(CheckerTest, TheSameTokenForTwoIsIllegal) {
  Story story = one_holder();
  story.acquire(2, 70, 75, {.token = 1, .deadline = 150});
  expect_only(judge(story), Class::kV0, "token-twice");
}

// A store without fencing tokens is judged by everything but their order.
TEST(CheckerTest, WithoutFencingOnlyTheOrderOfTokensIsNotJudged) {
  CheckOptions unfenced;
  unfenced.fenced = false;
  Story lower;
  lower.acquire(1, 0, 10, {.token = 2, .deadline = 15});
  lower.acquire(2, 20, 30, {.token = 1, .deadline = 35});
  lower.acquire(3, 40, 50, {.token = 1, .deadline = 55});
  EXPECT_TRUE(check(lower.history(), unfenced).clean());
  EXPECT_FALSE(judge(lower).clean());
  Story together = one_holder();
  together.acquire(2, 20, 30, {.token = 2, .deadline = 150});
  EXPECT_EQ(check(together.history(), unfenced).count(Class::kV0), 1U);
  EXPECT_EQ(check(together.history(), unfenced).count(Class::kV1), 1U);
  Story stranger = one_holder();
  stranger.call(Kind::kRelease, 2, 20, 25, Outcome::kReleased, {.id = 1});
  expect_only(check(stranger.history(), unfenced), Class::kV0, "release-by-stranger");
  Story busy = one_holder();
  busy.acquire(3, 61, 70, {.outcome = Outcome::kBusy});
  expect_only(check(busy.history(), unfenced), Class::kV0, "busy-without-holder");
}

TEST(CheckerTest, ReadersShareAndAWriterWaitsForAll) {
  Story story;
  story.acquire(1, 0, 10, {.mode = ModeKind::kShared, .token = 5, .deadline = 100});
  story.acquire(2, 0, 12, {.mode = ModeKind::kShared, .token = 5, .deadline = 100});
  release(story, 1, 20, 21);
  release(story, 2, 40, 41);
  story.acquire(3, 15, 40, {.token = 6, .deadline = 100, .wait = 50});
  EXPECT_TRUE(judge(story).clean());
  story.acquire(4, 15, 45, {.mode = ModeKind::kShared, .token = 7, .deadline = 50, .wait = 50});
  EXPECT_EQ(judge(story).count(Class::kV0), 1U);
  EXPECT_EQ(judge(story).count(Class::kV1), 1U);
}

TEST(CheckerTest, PermitsAreCountedTogether) {
  Story story;
  const auto take = [&](std::uint32_t process, std::int64_t at, std::uint32_t count) {
    story.acquire(process, at, at + 1,
                  {.mode = ModeKind::kPermits, .count = count, .capacity = 3, .deadline = 100});
  };
  take(1, 0, 1);
  take(2, 2, 2);
  EXPECT_TRUE(judge(story).clean());
  take(3, 4, 1);
  EXPECT_EQ(judge(story).count(Class::kV0), 1U);
  EXPECT_EQ(judge(story).count(Class::kV1), 1U);
}

TEST(CheckerTest, AClientThatCountsItsLeaseFromTheReplyBreaksV1AndNotV0) {
  Story story;
  story.acquire(1, 0, 40, {.token = 1, .deadline = 140, .ttl = 100});
  story.acquire(2, 105, 110, {.token = 2, .deadline = 200, .ttl = 100});
  expect_only(judge(story), Class::kV1, "two-beliefs");
}

TEST(CheckerTest, ALostMemoryBreaksV1AndNotV0) {
  Story story;
  story.acquire(1, 0, 10, {.token = 7, .deadline = 100});
  story.incarnation(20, 30);
  story.acquire(2, 40, 50, {.token = 8, .deadline = 150});
  expect_only(judge(story), Class::kV1, "two-beliefs");
}

TEST(CheckerTest, TokensGrowOverALostMemory) {
  const auto after_loss = [](std::uint64_t token, std::int64_t invoked, ModeKind before,
                             ModeKind after) {
    Story story;
    story.acquire(1, 0, 10, {.mode = before, .token = 7, .deadline = 15});
    story.incarnation(12, 18);
    story.acquire(2, invoked, 50, {.mode = after, .token = token, .deadline = 150});
    return story;
  };
  constexpr ModeKind kExclusive = ModeKind::kExclusive;
  constexpr ModeKind kShared = ModeKind::kShared;
  for (const std::uint64_t token : {1U, 7U}) {
    // Also where nobody can tell which of the two incarnations granted.
    for (const std::int64_t invoked : {40, 15, 11}) {
      for (const auto& [before, after] :
           {std::pair(kExclusive, kExclusive), {kExclusive, kShared}, {kShared, kExclusive}}) {
        const Story story = after_loss(token, invoked, before, after);
        expect_only(judge(story), Class::kV2, "token-after-loss");
      }
    }
  }
  EXPECT_TRUE(judge(after_loss(8, 40, kExclusive, kExclusive)).clean());
  EXPECT_TRUE(judge(after_loss(1, 40, kShared, kShared)).clean());
  EXPECT_TRUE(judge(after_loss(1, 10, kExclusive, kExclusive)).clean());  // Which came first?
}

TEST(CheckerTest, AStoreWhoseClockWasSetMayHaveLostWhatItsTokensGrowBy) {
  Story story;
  story.acquire(1, 0, 10, {.token = 7, .deadline = 15});
  story.fault(FaultKind::kClockJump, 11, 12);
  story.incarnation(20, 30);
  story.acquire(2, 40, 50, {.token = 1, .deadline = 150});
  EXPECT_TRUE(judge(story).clean());
}

TEST(CheckerTest, ARefusalOfTheResourceNeedsAReason) {
  Story story;
  story.acquire(1, 0, 10, {.token = 5, .deadline = 100});
  story.write(1, 20, 1, {.token = 5});
  story.write(2, 30, 0, {.token = 4}, Outcome::kRefused);
  story.write(3, 40, 0, {.token = 5}, Outcome::kRefused);  // Equal, of another acquisition.
  EXPECT_TRUE(judge(story).clean());
  Story higher = story;
  higher.write(4, 50, 0, {.token = 6}, Outcome::kRefused);
  expect_only(judge(higher), Class::kMalformed, "refused-without-reason");
  Story own = story;
  own.write(1, 50, 0, {.token = 5}, Outcome::kRefused);
  expect_only(judge(own), Class::kMalformed, "refused-without-reason");
  // It may have counted, though its writer never heard of it.
  Story open = story;
  open.call(Kind::kWrite, 5, 45, -1, Outcome::kNone, {.token = 7});
  open.write(4, 50, 0, {.token = 6}, Outcome::kRefused);
  EXPECT_TRUE(judge(open).clean());
  // Too late to be the reason.
  Story late = story;
  late.write(4, 50, 0, {.token = 6}, Outcome::kRefused);
  late.write(5, 60, 2, {.token = 7});
  expect_only(judge(late), Class::kMalformed, "refused-without-reason");
}

TEST(CheckerTest, AGrantThatMayBelongToEitherIncarnationIsLeftOutOfV0) {
  Story story;
  story.acquire(1, 0, 25, {.token = 7, .deadline = 30});
  story.incarnation(20, 30);
  story.acquire(2, 40, 50, {.token = 8, .deadline = 150});
  const Verdict verdict = judge(story);
  EXPECT_TRUE(verdict.clean());
  EXPECT_EQ(verdict.without_incarnation, 1U);
}

TEST(CheckerTest, AClockThatIsSetBreaksV1AndNotV0) {
  Story story;
  story.acquire(1, 0, 10, {.token = 1, .deadline = 100, .ttl = 100});
  story.fault(FaultKind::kClockJump, 30, 31);
  story.acquire(2, 40, 50, {.token = 2, .deadline = 150, .ttl = 100});
  expect_only(judge(story), Class::kV1, "two-beliefs");
}

TEST(CheckerTest, TheDeadAndTheToldBelieveNothing) {
  Story dead;
  dead.acquire(1, 0, 10, {.token = 1, .deadline = 100});
  dead.death(1, 20);
  dead.acquire(2, 30, 40, {.token = 2, .deadline = 150});
  EXPECT_TRUE(judge(dead).clean());
  Story told;
  told.acquire(1, 0, 10, {.token = 1, .deadline = 100});
  told.lost(1, 20);
  told.acquire(2, 30, 40, {.token = 2, .deadline = 150});
  EXPECT_TRUE(judge(told).clean());
}

TEST(CheckerTest, AReEntryHoldsUntilTheLastRelease) {
  Story story;
  story.acquire(1, 0, 10, {.token = 1, .deadline = 100});
  story.acquire(1, 12, 13, {.token = 1, .deadline = 100});
  release(story, 1, 20, 21);
  Story with_release = story;
  release(with_release, 1, 30, 31);
  with_release.acquire(2, 35, 40, {.token = 2, .deadline = 150});
  EXPECT_TRUE(judge(with_release).clean());
  story.acquire(2, 35, 40, {.token = 2, .deadline = 150});
  EXPECT_EQ(judge(story).count(Class::kV1), 1U);
}

TEST(CheckerTest, AReEntryKeepsItsToken) {
  Story story;
  story.acquire(1, 0, 10, {.token = 1, .deadline = 100});
  story.acquire(1, 12, 13, {.token = 2, .deadline = 100});
  expect_only(judge(story), Class::kV0, "re-entry-token");
}

TEST(CheckerTest, AStrangersReleaseIsIllegal) {
  Story story = one_holder();
  story.call(Kind::kRelease, 2, 20, 25, Outcome::kReleased, {.id = 1});
  expect_only(judge(story), Class::kV0, "release-by-stranger");
}

TEST(CheckerTest, OneAcquisitionIsReleasedOnceAndNotRenewedAfterwards) {
  Story twice = one_holder();
  release(twice, 1, 70, 80);
  expect_only(judge(twice), Class::kV0, "released-twice");
  Story renewed = one_holder();
  renewed.call(Kind::kRenew, 1, 70, 80, Outcome::kRenewed, {.deadline = 200});
  expect_only(judge(renewed), Class::kV0, "renewed-after-release");
}

TEST(CheckerTest, ARenewalThatReturnsBeforeItsAcquireCounts) {
  Story story;
  story.acquire(1, 0, 50, {.token = 1, .deadline = 60, .wait = 100});
  story.call(Kind::kRenew, 1, 30, 40, Outcome::kRenewed, {.deadline = 130});
  story.acquire(2, 70, 80, {.token = 2, .deadline = 200});
  const Verdict verdict = judge(story);
  EXPECT_EQ(verdict.count(Class::kV1), 1U);
  EXPECT_EQ(verdict.count(Class::kMalformed), 0U);
}

TEST(CheckerTest, TheResourceRefusesWhatIsStale) {
  Story story;
  story.acquire(1, 0, 10, {.token = 1, .deadline = 20});
  story.acquire(2, 30, 40, {.token = 2, .deadline = 100});
  story.write(2, 50, 1, {.token = 2});
  story.write(1, 60, 2, {.token = 1}, Outcome::kRefused);
  story.write(2, 70, 3, {.token = 2});
  EXPECT_TRUE(judge(story).clean());
  EXPECT_EQ(judge(story).refused_writes, 1U);
  story.write(1, 80, 4, {.token = 1});
  expect_only(judge(story), Class::kV2, "stale-write");
}

TEST(CheckerTest, AnEqualTokenOfAnotherAcquisitionIsStale) {
  Story story;
  story.write(1, 10, 1, {.token = 5});
  story.write(2, 20, 2, {.token = 5});
  expect_only(judge(story), Class::kV2, "stale-write");
}

TEST(CheckerTest, ASharedTokenMustExceedAndNeverRaises) {
  Story story;
  const Asked shared{.mode = ModeKind::kShared, .token = 9};
  story.write(1, 10, 1, {.token = 5});
  story.write(2, 20, 2, shared);
  story.write(3, 30, 3, shared);
  story.write(4, 40, 4, {.token = 7});
  EXPECT_TRUE(judge(story).clean());
  story.write(5, 50, 5, {.mode = ModeKind::kShared, .token = 7});
  expect_only(judge(story), Class::kV2, "stale-write");
}

TEST(CheckerTest, HeldAtTheDeadlineIsTooLate) {
  Story story;
  story.acquire(1, 0, 10, {.token = 1, .deadline = 100});
  story.call(Kind::kHeld, 1, 99, 105, Outcome::kHeld);
  EXPECT_TRUE(judge(story).clean());
  story.call(Kind::kHeld, 1, 110, 111, Outcome::kLost);
  EXPECT_TRUE(judge(story).clean());
  story.call(Kind::kHeld, 1, 112, 113, Outcome::kHeld);
  expect_only(judge(story), Class::kV3, "held-after-deadline");
}

TEST(CheckerTest, ARenewalUnderWayMayHaveMovedTheDeadline) {
  Story story;
  story.acquire(1, 0, 10, {.token = 1, .deadline = 100});
  story.call(Kind::kRenew, 1, 80, 120, Outcome::kRenewed, {.deadline = 180});
  story.call(Kind::kHeld, 1, 110, 111, Outcome::kHeld);
  EXPECT_TRUE(judge(story).clean());
  story.call(Kind::kHeld, 1, 180, 181, Outcome::kHeld);
  expect_only(judge(story), Class::kV3, "held-after-deadline");
}

TEST(CheckerTest, ABusyAnswerNeedsAReason) {
  Story story = one_holder();
  story.acquire(2, 55, 70, {.outcome = Outcome::kBusy});
  EXPECT_TRUE(judge(story).clean());
  EXPECT_EQ(judge(story).busy_judged, 1U);
  story.acquire(3, 61, 70, {.outcome = Outcome::kBusy});
  expect_only(judge(story), Class::kV0, "busy-without-holder");
}

// The client believed its session lost; the servers end it later.
TEST(CheckerTest, WhatWasNotGivenBackIsAReasonForAsLongAsItLingers) {
  CheckOptions options;
  Story story;
  story.acquire(1, 0, 10, {.token = 1, .deadline = 100});
  story.acquire(2, 161, 170, {.outcome = Outcome::kBusy});
  expect_only(check(story.history(), options), Class::kV0, "busy-without-holder");
  options.linger_ns = 50;
  expect_only(check(story.history(), options), Class::kV0, "busy-without-holder");
  options.linger_ns = 70;
  EXPECT_TRUE(check(story.history(), options).clean());
  Story released = one_holder();
  released.acquire(3, 61, 70, {.outcome = Outcome::kBusy});
  expect_only(check(released.history(), options), Class::kV0, "busy-without-holder");
  Story given_up;
  given_up.acquire(1, 0, 10, {.outcome = Outcome::kUnavailable});
  given_up.acquire(2, 40, 50, {.outcome = Outcome::kBusy});
  EXPECT_TRUE(check(given_up.history(), options).clean());
}

// Cut from holdfast-chaos, seed 7117: a server that had come back gave the dead holder's lease its
// whole length again.
TEST(CheckerTest, ALeaseThatAReturnedServerExtendsIsAReason) {
  Story story;
  story.acquire(1, 0, 10, {.token = 1, .deadline = 100, .ttl = 100});
  story.fault(FaultKind::kRestart, 50, 900);
  story.acquire(2, 990, 995, {.outcome = Outcome::kBusy});
  CheckOptions options;
  expect_only(check(story.history(), options), Class::kV0, "busy-without-holder");
  options.extends = true;
  EXPECT_TRUE(check(story.history(), options).clean());
  story.acquire(3, 1005, 1010, {.outcome = Outcome::kBusy});
  expect_only(check(story.history(), options), Class::kV0, "busy-without-holder");
}

// A release is answered before its commit, so a crash may forget it; an earlier one it may not.
TEST(CheckerTest, AReleaseOfTheLastMomentMayBeForgottenByACrash) {
  Story story = one_holder();
  story.fault(FaultKind::kRestart, kSecond / 2, kSecond);
  story.acquire(2, kSecond, kSecond + 10, {.outcome = Outcome::kBusy});
  CheckOptions options;
  expect_only(check(story.history(), options), Class::kV0, "busy-without-holder");
  options.extends = true;
  EXPECT_TRUE(check(story.history(), options).clean());
  Story earlier = one_holder();
  earlier.fault(FaultKind::kRestart, 2 * kSecond, 3 * kSecond);
  earlier.acquire(2, 3 * kSecond, 3 * kSecond + 10, {.outcome = Outcome::kBusy});
  expect_only(check(earlier.history(), options), Class::kV0, "busy-without-holder");
}

// Cut from holdfast-chaos, seed 7119: the server was stopped for longer than was left of the lease,
// and then read renewals first.
TEST(CheckerTest, ALeaseOfAServerThatStoodStillIsAReason) {
  for (const FaultKind kind : {FaultKind::kPause, FaultKind::kStall}) {
    Story story;
    story.acquire(1, 0, 10, {.token = 1, .deadline = kSecond, .ttl = kSecond});
    story.fault(kind, kSecond / 2, 2 * kSecond);
    story.acquire(2, 2 * kSecond, 2 * kSecond + 10, {.outcome = Outcome::kBusy});
    CheckOptions options;
    expect_only(check(story.history(), options), Class::kV0, "busy-without-holder");
    options.extends = true;
    EXPECT_TRUE(check(story.history(), options).clean());
    story.acquire(3, 3 * kSecond, 3 * kSecond + 10, {.outcome = Outcome::kBusy});
    expect_only(check(story.history(), options), Class::kV0, "busy-without-holder");
  }
}

TEST(CheckerTest, APauseOfAClientLengthensNoLease) {
  Story story;
  story.acquire(1, 0, 10, {.token = 1, .deadline = kSecond, .ttl = kSecond});
  story.fault(FaultKind::kPause, kSecond / 2, 2 * kSecond);
  story.acquire(2, 2 * kSecond, 2 * kSecond + 10, {.outcome = Outcome::kBusy});
  History history = story.history();
  history.targets = {"client 1"};
  CheckOptions options;
  options.extends = true;
  expect_only(check(history, options), Class::kV0, "busy-without-holder");
}

// The next leader of a cluster does not know what the isolated one answered.
TEST(CheckerTest, AReleaseThatAnIsolatedLeaderAnsweredMayBeForgotten) {
  Story story = one_holder();
  story.fault(FaultKind::kIsolate, 20, kSecond);
  story.acquire(2, 2 * kSecond, 2 * kSecond + 10, {.outcome = Outcome::kBusy});
  CheckOptions options;
  options.linger_ns = 3 * kSecond;
  expect_only(check(story.history(), options), Class::kV0, "busy-without-holder");
  options.extends = true;
  EXPECT_TRUE(check(story.history(), options).clean());
}

void expect_a_reason_while_it_lingers(Story& story) {
  CheckOptions options;
  expect_only(check(story.history(), options), Class::kV0, "busy-without-holder");
  options.linger_ns = 5000;
  EXPECT_TRUE(check(story.history(), options).clean());
}

// Cut from etcd-restart, seed 220, in milliseconds: the writer gave up while the server was away,
// so that its place in the queue was still there when its own next try came.
TEST(CheckerTest, WhoGaveUpOnAServerThatIsAwayIsAReasonForAsLongAsItLingers) {
  Story story;
  story.fault(FaultKind::kRestart, 6185, 8012);
  story.acquire(3, 1101, 6988, {.outcome = Outcome::kTimedOut, .wait = 5396});
  story.acquire(2, 2209, 9635,
                {.mode = ModeKind::kShared, .token = 1, .deadline = 10'635, .wait = 8613});
  story.acquire(3, 6991, 8276, {.outcome = Outcome::kBusy, .mode = ModeKind::kShared});
  expect_a_reason_while_it_lingers(story);
}

// Cut from consul-chaos, seed 113: sent to a server that stood still, and given up while it was
// away.
TEST(CheckerTest, WhatWasSentToAServerThatStoodStillIsAReasonForAsLongAsItLingers) {
  Story story;
  story.fault(FaultKind::kPause, 457, 1148);
  story.fault(FaultKind::kRestart, 1182, 3218);
  story.acquire(5, 735, 2731, {.outcome = Outcome::kUnavailable, .wait = 6312});
  story.acquire(2, 450, 3834, {.outcome = Outcome::kTimedOut, .wait = 3021});
  story.acquire(2, 3838, 3853, {.outcome = Outcome::kBusy});
  expect_a_reason_while_it_lingers(story);
}

TEST(CheckerTest, AWaitingWriterIsAReasonToRefuseAReader) {
  Story story;
  const Asked busy{.outcome = Outcome::kBusy, .mode = ModeKind::kShared};
  story.acquire(1, 0, 10, {.mode = ModeKind::kShared, .token = 1, .deadline = 100});
  story.acquire(3, 30, 35, busy);
  expect_only(judge(story), Class::kV0, "busy-without-holder");
  story.acquire(2, 20, 100, {.outcome = Outcome::kTimedOut, .wait = 80});
  EXPECT_TRUE(judge(story).clean());
}

TEST(CheckerTest, ARequestThatWasTakenBackIsAReasonToo) {
  for (const Outcome outcome : {Outcome::kUnavailable, Outcome::kTimedOut, Outcome::kCancelled}) {
    Story story = one_holder();
    story.acquire(3, 161, 170, {.outcome = Outcome::kBusy});
    expect_only(judge(story), Class::kV0, "busy-without-holder");
    story.acquire(2, 120, 200, {.outcome = outcome, .wait = 80});
    EXPECT_TRUE(judge(story).clean()) << name_of(outcome);
    story.acquire(4, 201, 210, {.outcome = Outcome::kBusy});
    expect_only(judge(story), Class::kV0, "busy-without-holder");
  }
}

TEST(CheckerTest, AWaiterThatLearnsLateLostItsWakeUp) {
  Story story = one_holder();
  story.acquire(2, 20, 3 * kSecond, {.token = 2, .deadline = 4 * kSecond, .wait = 9 * kSecond});
  expect_only(judge(story), Class::kLostWakeUp, "idle");
}

// Cut from holdfast-etcd-leader-isolate, seed 7205: etcd elected a leader anew after a member had
// come back, so no request was served for 3 s.
TEST(CheckerTest, AWaiterThatLearnsLateWhileNobodyIsServedLostNothing) {
  const auto told_at = [](std::int64_t at, std::int64_t asked, std::int64_t refused) {
    Story story = one_holder();
    story.acquire(2, 20, at, {.token = 2, .deadline = at + kSecond, .wait = 90 * kSecond});
    story.acquire(3, asked, refused, {.outcome = Outcome::kUnavailable});
    return judge(story);
  };
  EXPECT_TRUE(told_at(3 * kSecond, kSecond, 2 * kSecond).clean());
  expect_only(told_at(3 * kSecond, 30, 2 * kSecond), Class::kLostWakeUp, "idle");
  expect_only(told_at(3 * kSecond, kSecond, 4 * kSecond), Class::kLostWakeUp, "idle");
  expect_only(told_at(11 * kSecond, kSecond, 2 * kSecond), Class::kLostWakeUp, "idle");
}

TEST(CheckerTest, AWaiterOnAFreeLockIsStuck) {
  Story story = one_holder();
  story.acquire(2, 20, 0, {.wait = 90 * kSecond});
  story.fault(FaultKind::kPartition, 30, 5 * kSecond);
  story.death(9, 14 * kSecond);
  EXPECT_TRUE(judge(story).clean());
  story.death(10, 16 * kSecond);
  expect_only(judge(story), Class::kStuck, "idle");
}

TEST(CheckerTest, AStoreThatRefusesLongAfterItHealedIsStuck) {
  Story story = one_holder();
  const Asked refused{.outcome = Outcome::kUnavailable};
  story.fault(FaultKind::kDiskFull, 1 * kSecond, 5 * kSecond);
  std::uint32_t process = 20;
  for (std::int64_t at = 2 * kSecond; at < 15 * kSecond; at += kSecond) {
    story.acquire(++process, at, at + 10, refused);
  }
  EXPECT_TRUE(judge(story).clean());
  Story answered = story;
  story.acquire(++process, 16 * kSecond, 16 * kSecond + 10, refused);
  expect_only(judge(story), Class::kStuck, "refused");
  // It refuses some, and grants others: that is trouble, and no standstill.
  answered.acquire(90, 14 * kSecond, 14 * kSecond + 10,
                   {.token = 90, .deadline = 14 * kSecond + 100});
  answered.acquire(++process, 16 * kSecond, 16 * kSecond + 10, refused);
  EXPECT_TRUE(judge(answered).clean());
}

TEST(CheckerTest, ManyRefusalsBesideManyFaultsAreJudgedInTime) {
  constexpr std::size_t kMany = 100'000;
  History history{{"a"}, {"host"}, {}};
  std::int64_t at = 0;
  const auto call = [&](Event event, Outcome outcome) {
    event.phase = Phase::kInvoke;
    event.at_ns = ++at;
    history.events.push_back(event);
    event.phase = Phase::kReturn;
    event.at_ns = ++at;
    event.outcome = outcome;
    history.events.push_back(event);
  };
  for (std::size_t i = 1; i <= kMany; ++i) {
    Event event;
    event.kind = Kind::kFault;
    event.fault = FaultKind::kDelay;
    call(event, Outcome::kNone);
    event.kind = Kind::kAcquire;
    event.fault = FaultKind::kNone;
    event.process = 1;
    event.call = i;
    event.ttl_ns = event.wait_ns = kSecond;
    at += 20 * kSecond;
    call(event, Outcome::kUnavailable);
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(check(history).count(Class::kStuck), kMany);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
}

TEST(CheckerTest, ALeaseThatDoesNotEndIsOrphaned) {
  Story story;
  story.acquire(1, 0, 10, {.token = 1, .deadline = kSecond, .ttl = kSecond});
  story.death(1, 20);
  const auto refused_at = [&](std::uint32_t process, std::int64_t at) {
    story.acquire(process, at, at + 1, {.outcome = Outcome::kTimedOut, .wait = 1});
    story.acquire(process + 1, at, at + 1, {.outcome = Outcome::kBusy});
  };
  refused_at(2, kSecond / 2);
  EXPECT_TRUE(judge(story).clean());
  refused_at(4, 12 * kSecond);
  const Verdict verdict = judge(story);
  EXPECT_EQ(verdict.count(Class::kOrphaned), 1U);
  EXPECT_EQ(verdict.count(Class::kStuck) + verdict.count(Class::kLostWakeUp), 0U);
}

TEST(CheckerTest, AnAnswerThatBelongsToAnotherCallIsMalformed) {
  for (const auto& [kind, outcome] : {std::pair(Kind::kRelease, Outcome::kGranted),
                                      {Kind::kRelease, Outcome::kAccepted},
                                      {Kind::kHeld, Outcome::kRenewed},
                                      {Kind::kRenew, Outcome::kReleased},
                                      {Kind::kWrite, Outcome::kHeld}}) {
    Story story;
    story.acquire(1, 0, 10, {.token = 1, .deadline = 100});
    story.call(kind, 1, 20, 30, outcome, {.token = 1});
    expect_only(judge(story), Class::kMalformed, "malformed");
  }
}

TEST(CheckerTest, ATimeFromTheEdgeOfTheAxisIsMalformedAndNothingIsComputedWithIt) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  for (const std::int64_t edge : {kLeast, std::numeric_limits<std::int64_t>::max()}) {
    for (const auto member : {&Event::deadline_ns, &Event::ttl_ns, &Event::at_ns}) {
      Story story = one_holder();
      story.call(Kind::kHeld, 1, 20, 30, Outcome::kHeld, {});
      History history = story.history();
      for (Event& event : history.events) event.*member = edge;
      const Verdict verdict = check(history);
      EXPECT_EQ(verdict.count(Class::kMalformed), history.events.size());
    }
  }
}

TEST(CheckerTest, NamesAreWrittenOut) {
  Story story({"a\x1b[2J'b"});
  story.acquire(1, 0, 10, {.token = 1, .deadline = 100});
  story.acquire(2, 20, 30, {.token = 2, .deadline = 100});
  const Verdict verdict = judge(story);
  ASSERT_FALSE(verdict.violations.empty());
  EXPECT_THAT(verdict.violations[0].message, HasSubstr("lock 'a\\x1b[2J\\'b'"));
}

TEST(CheckerTest, AHistorySaysWhatItIsToBeJudgedBy) {
  History history;
  EXPECT_EQ(options_of(history).wake_ns, CheckOptions().wake_ns);
  history.limits = {3, 5, false, 7};
  EXPECT_EQ(options_of(history).linger_ns, 7);
  EXPECT_EQ(options_of(history).wake_ns, 3);
  EXPECT_EQ(options_of(history).grace_ns, 5);
  EXPECT_EQ(options_of(history).busy_samples, 0U);
}

TEST(CheckerTest, WhatDoesNotFitTogetherIsMalformed) {
  Story story;
  Event alone;
  alone.call = 77;
  alone.kind = Kind::kHeld;
  alone.phase = Phase::kReturn;
  story.add(alone);
  expect_only(judge(story), Class::kMalformed, "malformed");
  Story twice;
  twice.acquire(1, 0, -1, {});
  twice.acquire(1, 10, 20, {.token = 1, .deadline = 30});
  expect_only(judge(twice), Class::kMalformed, "malformed");
}

}  // namespace
}  // namespace holdfast::lab
