#include "src/session/fsm/acquire_fsm.h"

#include <gtest/gtest.h>

namespace holdfast::session {
namespace {

using namespace std::chrono_literals;
using Step = AcquireFsm::Step;
using port::AcquisitionState;
using port::AcquisitionStatus;
using port::EndStatus;

BootInstant at(Nanos since_start) { return BootInstant(1h) + since_start; }

AcquireFsm::Terms terms(std::optional<Nanos> wait = std::nullopt) {
  AcquireFsm::Terms out;
  out.ttl = 30s;
  out.waiter_ttl = 5s;
  out.wait = wait;
  out.heartbeat = 1s;
  out.min_left = 1s;
  return out;
}

AcquisitionState ticket(AcquisitionStatus status, std::uint64_t seq = 0, Duration lease = 5s) {
  AcquisitionState state;
  state.status = status;
  state.seq = seq;
  state.lease = lease;
  return state;
}

AcquisitionState waiting(std::uint32_t ahead = 5) {
  AcquisitionState state = ticket(AcquisitionStatus::kWaiting);
  state.ahead = ahead;
  return state;
}

port::Push granted_push(std::uint64_t seq) {
  return {port::Push::Kind::kGranted, {}, ticket(AcquisitionStatus::kHeld, seq)};
}

port::Push hint() { return {port::Push::Kind::kHint, {}, {}}; }

Error unavailable() { return {Errc::kUnavailable, "no route"}; }
Error unknown() { return {Errc::kOutcomeUnknown, "no reply"}; }

// Asked at 0 s, told to wait at 0.1 s.
AcquireFsm queued(const AcquireFsm::Terms& how = terms()) {
  AcquireFsm fsm(how);
  EXPECT_EQ(fsm.start(at(0s)).step, Step::kSendAcquire);
  EXPECT_EQ(fsm.on_reply(at(100ms), waiting()).step, Step::kWait);
  EXPECT_TRUE(fsm.queued());
  return fsm;
}

TEST(AcquireFsmTest, AFreeLockIsGrantedByTheFirstReply) {
  AcquireFsm fsm(terms());
  const auto ask = fsm.start(at(0s));
  EXPECT_EQ(ask.step, Step::kSendAcquire);
  EXPECT_TRUE(ask.fresh_id);
  EXPECT_EQ(fsm.on_reply(at(1s), ticket(AcquisitionStatus::kHeld, 0, 30s)).step, Step::kGranted);
  EXPECT_EQ(fsm.log().sent_at(0), at(0s));
}

TEST(AcquireFsmTest, BusyEndsATry) {
  AcquireFsm::Terms how = terms();
  how.may_wait = false;
  AcquireFsm fsm(how);
  fsm.start(at(0s));
  EXPECT_EQ(fsm.on_reply(at(1ms), ticket(AcquisitionStatus::kBusy)).step, Step::kBusy);
}

// Nobody is to take a store that is away for a lock that others hold.
TEST(AcquireFsmTest, AWaitThatEndsBeforeTheStoreWasReachedSaysSo) {
  AcquireFsm fsm(terms(3s));
  fsm.start(at(0s));
  EXPECT_EQ(fsm.on_timer(at(3s)).step, Step::kSendCancel);
  EXPECT_EQ(fsm.on_cancel_reply(at(4s), unavailable()).step, Step::kWait);
  EXPECT_EQ(fsm.on_timer(fsm.wake_at()).step, Step::kSendCancel);
  ASSERT_EQ(fsm.on_cancel_reply(at(4100ms), EndStatus::kGone).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kUnavailable);
  EXPECT_NE(fsm.error()->message().find("no route"), std::string::npos);
}

TEST(AcquireFsmTest, AWaitThatEndsRightBeforeTheStoreIsFoundToBeAwaySaysSo) {
  AcquireFsm fsm(terms(3s));
  fsm.start(at(0s));
  ASSERT_EQ(fsm.on_timer(at(3s)).step, Step::kSendCancel);
  ASSERT_EQ(fsm.on_reply(at(3s), unavailable()).step, Step::kWait);
  ASSERT_EQ(fsm.on_cancel_reply(at(3s), EndStatus::kGone).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kUnavailable);
  EXPECT_NE(fsm.error()->message().find("no route"), std::string::npos);
}

TEST(AcquireFsmTest, AWaitThatEndsBeforeASlowAnswerIsOverInTime) {
  AcquireFsm fsm(terms(1ms));
  fsm.start(at(0s));
  EXPECT_EQ(fsm.on_timer(at(1ms)).step, Step::kSendCancel);
  ASSERT_EQ(fsm.on_cancel_reply(at(20ms), EndStatus::kCancelled).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kTimedOut);
}

TEST(AcquireFsmTest, WhoLeftAQueueIsNotToldThatTheStoreWasAway) {
  AcquireFsm fsm = queued(terms(3s));
  EXPECT_EQ(fsm.on_timer(at(3s)).step, Step::kSendCancel);
  EXPECT_EQ(fsm.on_cancel_reply(at(3500ms), unavailable()).step, Step::kWait);
  EXPECT_EQ(fsm.on_timer(fsm.wake_at()).step, Step::kSendCancel);
  ASSERT_EQ(fsm.on_cancel_reply(at(4s), EndStatus::kCancelled).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kTimedOut);
}

// Whatever the store does about its deadlines.
TEST(AcquireFsmTest, ATryThatIsNotAnsweredAtAllEndsInItsTime) {
  AcquireFsm::Terms how = terms();
  how.may_wait = false;
  AcquireFsm fsm(how);
  fsm.start(at(0s));
  EXPECT_LT(fsm.wake_at(), at(how.request + 500ms));
  EXPECT_EQ(fsm.on_timer(fsm.wake_at()).step, Step::kSendCancel);
  while (fsm.wake_at() < at(how.request + how.patience)) {
    EXPECT_NE(fsm.on_timer(fsm.wake_at()).step, Step::kFailed);
  }
  ASSERT_EQ(fsm.wake_at(), at(how.request + how.patience));
  ASSERT_EQ(fsm.on_timer(fsm.wake_at()).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kOutcomeUnknown);
}

TEST(AcquireFsmTest, AGrantWhoseLeaseIsNearlyOverIsConfirmedFirst) {
  AcquireFsm fsm(terms());
  fsm.start(at(0s));
  const auto action = fsm.on_reply(at(29s), ticket(AcquisitionStatus::kHeld, 0, 30s));
  ASSERT_EQ(action.step, Step::kSendHeartbeat);
  EXPECT_EQ(action.seq, 1U);
  EXPECT_EQ(fsm.on_reply(at(29100ms), ticket(AcquisitionStatus::kHeld, 1, 30s)).step,
            Step::kGranted);
}

TEST(AcquireFsmTest, AGrantThatCameAfterItsDeadlineIsNoGrant) {
  AcquireFsm fsm(terms());
  fsm.start(at(0s));
  ASSERT_EQ(fsm.on_reply(at(40s), ticket(AcquisitionStatus::kHeld, 0, 30s)).step,
            Step::kSendHeartbeat);
  // The store had given it to somebody else in the meantime.
  const auto again = fsm.on_reply(at(41s), ticket(AcquisitionStatus::kGone));
  EXPECT_EQ(again.step, Step::kSendAcquire);
  EXPECT_TRUE(again.fresh_id);
}

TEST(AcquireFsmTest, AWaiterSendsHeartbeatsAndNothingElse) {
  AcquireFsm fsm = queued();
  EXPECT_EQ(fsm.wake_at(), at(1100ms));
  EXPECT_EQ(fsm.on_timer(at(1s)).step, Step::kWait);
  EXPECT_EQ(fsm.on_timer(at(1100ms)).step, Step::kSendHeartbeat);
  EXPECT_EQ(fsm.on_timer(at(1200ms)).step, Step::kWait);
  EXPECT_EQ(fsm.on_reply(at(1300ms), waiting()).step, Step::kWait);
  EXPECT_EQ(fsm.wake_at(), at(2300ms));
}

TEST(AcquireFsmTest, TheNextInLinePollsAtTheEndOfTheHoldersLease) {
  AcquireFsm fsm(terms());
  fsm.start(at(0s));
  AcquisitionState state = waiting(/*ahead=*/0);
  state.next_expiry = 300ms;
  fsm.on_reply(at(100ms), state);
  EXPECT_EQ(fsm.wake_at(), at(402ms));
}

TEST(AcquireFsmTest, ThoseFurtherBackDoNot) {
  AcquireFsm fsm(terms());
  fsm.start(at(0s));
  AcquisitionState state = waiting(/*ahead=*/2);
  state.next_expiry = 300ms;
  fsm.on_reply(at(100ms), state);
  EXPECT_EQ(fsm.wake_at(), at(1100ms));
}

TEST(AcquireFsmTest, AHintIsFollowedByAHeartbeatAtOnce) {
  AcquireFsm fsm = queued();
  const auto action = fsm.on_push(at(200ms), hint());
  ASSERT_EQ(action.step, Step::kSendHeartbeat);
  EXPECT_EQ(fsm.on_reply(at(300ms), ticket(AcquisitionStatus::kHeld, 1, 30s)).step, Step::kGranted);
}

TEST(AcquireFsmTest, AHintDuringAHeartbeatIsNotLost) {
  AcquireFsm fsm = queued();
  ASSERT_EQ(fsm.on_timer(at(1100ms)).step, Step::kSendHeartbeat);
  EXPECT_EQ(fsm.on_push(at(1150ms), hint()).step, Step::kWait);
  EXPECT_EQ(fsm.on_reply(at(1200ms), waiting()).step, Step::kSendHeartbeat);
}

TEST(AcquireFsmTest, AHintBeforeTheFirstReplyIsNotLost) {
  AcquireFsm fsm(terms());
  fsm.start(at(0s));
  EXPECT_EQ(fsm.on_push(at(50ms), hint()).step, Step::kWait);
  EXPECT_EQ(fsm.on_reply(at(100ms), waiting()).step, Step::kSendHeartbeat);
}

// Safety rule 1: heartbeat 1 was applied, 2 is stuck in the network. Counted from 2's send the
// belief would outlive the lease.
TEST(AcquireFsmTest, AHandoffCountsFromTheHeartbeatThatTheStoreNames) {
  AcquireFsm fsm = queued();
  ASSERT_EQ(fsm.on_timer(at(1100ms)).step, Step::kSendHeartbeat);
  fsm.on_reply(at(1200ms), waiting());
  ASSERT_EQ(fsm.on_timer(at(2200ms)).step, Step::kSendHeartbeat);
  ASSERT_EQ(fsm.on_push(at(2300ms), granted_push(1)).step, Step::kGranted);
  EXPECT_EQ(fsm.held().seq, 1U);
  EXPECT_EQ(fsm.log().sent_at(fsm.held().seq), at(1100ms));
}

// The servers have made it shorter than it was asked for.
TEST(AcquireFsmTest, WhatIsAskedForAndASessionNeverHasIsNotWaitedFor) {
  AcquireFsm::Terms how = terms();
  how.min_left = 14s;
  AcquireFsm fsm(how);
  fsm.start(at(0s));
  AcquisitionState held = ticket(AcquisitionStatus::kHeld, 0, 12s);
  held.more_in = 4s;
  const auto renewal = fsm.on_reply(at(1s), held);
  ASSERT_EQ(renewal.step, Step::kSendHeartbeat);
  held.seq = renewal.seq;
  EXPECT_EQ(fsm.on_reply(at(1s), held).step, Step::kGranted);
}

TEST(AcquireFsmTest, APushWithTooLittleLeftIsConfirmedFirst) {
  AcquireFsm fsm = queued();
  ASSERT_EQ(fsm.on_push(at(4s), granted_push(0)).step, Step::kSendHeartbeat);
  EXPECT_EQ(fsm.on_reply(at(4100ms), ticket(AcquisitionStatus::kHeld, 1, 30s)).step,
            Step::kGranted);
}

TEST(AcquireFsmTest, AGrantWithoutItsLockDelayIsRenewedFirst) {
  AcquireFsm::Terms how = terms();
  how.lock_delay = 10s;
  AcquireFsm fsm = queued(how);
  ASSERT_EQ(fsm.on_push(at(200ms), granted_push(0)).step, Step::kSendHeartbeat);
  EXPECT_EQ(fsm.on_reply(at(300ms), ticket(AcquisitionStatus::kHeld, 1, 40s)).step, Step::kGranted);
}

TEST(AcquireFsmTest, ALockDelayThatTheStoreCannotKeepIsRefused) {
  AcquireFsm::Terms how = terms();
  how.lock_delay = 60s;
  AcquireFsm fsm(how);
  fsm.start(at(0s));
  ASSERT_EQ(fsm.on_reply(at(100ms), ticket(AcquisitionStatus::kHeld, 0, 40s)).step,
            Step::kSendHeartbeat);
  ASSERT_EQ(fsm.on_reply(at(200ms), ticket(AcquisitionStatus::kHeld, 1, 40s)).step,
            Step::kSendCancel);
  ASSERT_EQ(fsm.on_cancel_reply(at(300ms), port::EndStatus::kReleased).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kUnsupported);
  EXPECT_NE(fsm.error()->message().find("60000 ms"), std::string::npos);
}

TEST(AcquireFsmTest, NewsOfALockDelayIsKeptAndAsksNothing) {
  AcquireFsm fsm = queued(terms(5s));
  EXPECT_FALSE(fsm.opens_at());
  port::Push push{port::Push::Kind::kDelayed, {}, {}};
  push.state.opens_in = 60s;
  EXPECT_EQ(fsm.on_push(at(1s), push).step, Step::kWait);
  EXPECT_EQ(fsm.opens_at(), at(61s));
  ASSERT_EQ(fsm.on_timer(at(1100ms)).step, Step::kSendHeartbeat);
  EXPECT_EQ(fsm.on_push(at(1200ms), push).step, Step::kWait) << "a heartbeat is under way";
  EXPECT_EQ(fsm.on_reply(at(1300ms), waiting()).step, Step::kWait) << "and none follows";
  ASSERT_EQ(fsm.on_timer(at(5s)).step, Step::kSendCancel);
  ASSERT_EQ(fsm.on_cancel_reply(at(5s), port::EndStatus::kCancelled).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kTimedOut);
  EXPECT_NE(fsm.error()->message().find("closed for 56200 ms"), std::string::npos)
      << fsm.error()->message();
}

TEST(AcquireFsmTest, AnAnswerMayHaveTheNewsItself) {
  AcquireFsm fsm(terms());
  fsm.start(at(0s));
  AcquisitionState state = waiting(/*ahead=*/0);
  state.opens_in = 9s;
  EXPECT_EQ(fsm.on_reply(at(1s), state).step, Step::kWait);
  EXPECT_EQ(fsm.opens_at(), at(10s));
}

// A promoted replica may know an older request of ours than we still do.
TEST(AcquireFsmTest, AGrantThatCountsFromAnUnknownRequestIsConfirmedFirst) {
  AcquireFsm fsm = queued();
  EXPECT_EQ(fsm.on_push(at(2s), granted_push(77)).step, Step::kSendHeartbeat);
}

TEST(AcquireFsmTest, WhereNobodyRenewsLaterAGrantOfTheQueueIsRenewedFirst) {
  AcquireFsm::Terms whole = terms();
  whole.whole = true;
  AcquireFsm fsm = queued(whole);
  ASSERT_EQ(fsm.on_push(at(1s), granted_push(0)).step, Step::kSendHeartbeat);
  EXPECT_EQ(fsm.on_reply(at(1100ms), ticket(AcquisitionStatus::kHeld, 1, 30s)).step,
            Step::kGranted);
  EXPECT_EQ(fsm.held().lease, Duration(30s));
  AcquireFsm free(whole);
  free.start(at(0s));
  EXPECT_EQ(free.on_reply(at(1s), ticket(AcquisitionStatus::kHeld, 0, 30s)).step, Step::kGranted);
}

TEST(AcquireFsmTest, ATicketThatDiedIsReplacedUnderANewId) {
  AcquireFsm fsm = queued();
  fsm.on_timer(at(9s));
  const auto action = fsm.on_reply(at(9100ms), ticket(AcquisitionStatus::kGone));
  EXPECT_EQ(action.step, Step::kSendAcquire);
  EXPECT_TRUE(action.fresh_id);
  EXPECT_EQ(fsm.log().sent_at(0), at(9100ms));
}

TEST(AcquireFsmTest, TheEndOfTheWaitLeavesTheQueue) {
  AcquireFsm fsm = queued(terms(/*wait=*/500ms));
  EXPECT_EQ(fsm.wake_at(), at(500ms));
  EXPECT_EQ(fsm.on_timer(at(500ms)).step, Step::kSendCancel);
  EXPECT_EQ(fsm.on_cancel_reply(at(600ms), EndStatus::kCancelled).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kTimedOut);
}

TEST(AcquireFsmTest, AGrantThatCrossedTheCancelIsGivenBack) {
  AcquireFsm fsm = queued(terms(/*wait=*/500ms));
  ASSERT_EQ(fsm.on_timer(at(500ms)).step, Step::kSendCancel);
  // The push comes too late; the cancel has handed on in the same step.
  EXPECT_EQ(fsm.on_push(at(550ms), granted_push(0)).step, Step::kWait);
  EXPECT_EQ(fsm.on_cancel_reply(at(600ms), EndStatus::kReleased).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kTimedOut);
}

TEST(AcquireFsmTest, CancellingBeforeTheFirstReplyCancelsAtTheStore) {
  AcquireFsm fsm(terms());
  fsm.start(at(0s));
  ASSERT_EQ(fsm.on_cancel(at(10ms), Errc::kCancelled).step, Step::kSendCancel);
  EXPECT_EQ(fsm.on_reply(at(20ms), ticket(AcquisitionStatus::kHeld, 0, 30s)).step, Step::kWait);
  EXPECT_EQ(fsm.on_cancel_reply(at(30ms), EndStatus::kReleased).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kCancelled);
}

TEST(AcquireFsmTest, ACancelThatFailsIsRepeatedUntilPatienceEnds) {
  AcquireFsm fsm = queued();
  ASSERT_EQ(fsm.on_cancel(at(1s), Errc::kCancelled).step, Step::kSendCancel);
  ASSERT_EQ(fsm.on_cancel_reply(at(1010ms), unknown()).step, Step::kWait);
  EXPECT_EQ(fsm.on_timer(fsm.wake_at()).step, Step::kSendCancel);
  ASSERT_EQ(fsm.on_cancel_reply(at(1100ms), unavailable()).step, Step::kWait);
  EXPECT_EQ(fsm.on_timer(at(3s)).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kOutcomeUnknown);
  EXPECT_TRUE(fsm.error()->message().starts_with(
      "no route; the store did not confirm that the wait was given up"))
      << fsm.error()->message();
}

TEST(AcquireFsmTest, ASilentCancelEndsWithPatienceToo) {
  AcquireFsm fsm = queued();
  ASSERT_EQ(fsm.on_cancel(at(1s), Errc::kCancelled).step, Step::kSendCancel);
  while (fsm.wake_at() < at(3s)) ASSERT_EQ(fsm.on_timer(fsm.wake_at()).step, Step::kWait);
  EXPECT_EQ(fsm.on_timer(at(3s)).step, Step::kFailed);
  EXPECT_TRUE(fsm.error()->message().starts_with("the store does not answer, and did not confirm"))
      << fsm.error()->message();
}

TEST(AcquireFsmTest, ASecondCancelChangesNothing) {
  AcquireFsm fsm = queued();
  ASSERT_EQ(fsm.on_cancel(at(1s), Errc::kCancelled).step, Step::kSendCancel);
  EXPECT_EQ(fsm.on_cancel(at(1s), Errc::kClosed).step, Step::kWait);
  fsm.on_cancel_reply(at(1100ms), EndStatus::kCancelled);
  EXPECT_EQ(fsm.error()->code(), Errc::kCancelled);
  EXPECT_EQ(fsm.on_cancel(at(2s), Errc::kCancelled).step, Step::kWait);
}

TEST(AcquireFsmTest, AnUnreachableStoreIsToldAtOnce) {
  AcquireFsm fsm(terms());
  fsm.start(at(0s));
  EXPECT_EQ(fsm.on_reply(at(10ms), unavailable()).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kUnavailable);
}

// A reply was lost: only the same id can tell what became of the request.
TEST(AcquireFsmTest, AnUnknownOutcomeIsAskedAgainWithTheSameId) {
  AcquireFsm fsm(terms());
  fsm.start(at(0s));
  ASSERT_EQ(fsm.on_reply(at(100ms), unknown()).step, Step::kWait);
  const auto again = fsm.on_timer(fsm.wake_at());
  EXPECT_EQ(again.step, Step::kSendAcquire);
  EXPECT_FALSE(again.fresh_id);
  EXPECT_EQ(fsm.on_reply(at(300ms), ticket(AcquisitionStatus::kHeld, 0, 30s)).step, Step::kGranted);
  // The first of the two may be the one that was applied.
  EXPECT_EQ(fsm.log().sent_at(0), at(0s));
}

// Only the repetition was surely not applied.
TEST(AcquireFsmTest, AnUnknownOutcomeStaysUnknownWhenTheStoreCannotBeReachedAfterwards) {
  AcquireFsm fsm(terms());
  fsm.start(at(0s));
  ASSERT_EQ(fsm.on_reply(at(100ms), unknown()).step, Step::kWait);
  ASSERT_EQ(fsm.on_timer(fsm.wake_at()).step, Step::kSendAcquire);
  ASSERT_EQ(fsm.on_reply(at(300ms), unavailable()).step, Step::kWait);
  const auto again = fsm.on_timer(fsm.wake_at());
  EXPECT_EQ(again.step, Step::kSendAcquire);
  EXPECT_FALSE(again.fresh_id);
  ASSERT_EQ(fsm.on_reply(at(31s), unavailable()).step, Step::kSendCancel);
  EXPECT_EQ(fsm.on_timer(at(33s)).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kOutcomeUnknown);
}

TEST(AcquireFsmTest, AnUnknownOutcomeIsTakenBackWhenTheRepetitionIsRefused) {
  AcquireFsm fsm(terms());
  fsm.start(at(0s));
  ASSERT_EQ(fsm.on_reply(at(100ms), unknown()).step, Step::kWait);
  ASSERT_EQ(fsm.on_timer(fsm.wake_at()).step, Step::kSendAcquire);
  ASSERT_EQ(fsm.on_reply(at(300ms), Error{Errc::kQueueFull, "full"}).step, Step::kSendCancel);
  EXPECT_EQ(fsm.on_cancel_reply(at(400ms), EndStatus::kGone).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kQueueFull);
  EXPECT_EQ(fsm.error()->message(), "full");
}

TEST(AcquireFsmTest, AnUnknownOutcomeIsTakenBackBeforeTheLockIsCalledBusy) {
  auto how = terms();
  how.may_wait = false;
  AcquireFsm fsm(how);
  fsm.start(at(0s));
  ASSERT_EQ(fsm.on_reply(at(100ms), unknown()).step, Step::kWait);
  ASSERT_EQ(fsm.on_timer(fsm.wake_at()).step, Step::kSendAcquire);
  ASSERT_EQ(fsm.on_reply(at(300ms), ticket(AcquisitionStatus::kBusy)).step, Step::kSendCancel);
  EXPECT_EQ(fsm.on_cancel_reply(at(400ms), EndStatus::kGone).step, Step::kBusy);
}

// The repetition has a deadline of its own, which may be almost a request later.
TEST(AcquireFsmTest, ATryWhoseRepetitionIsNotAnsweredEndsInItsTime) {
  auto how = terms();
  how.may_wait = false;
  how.request = 3s;
  AcquireFsm fsm(how);
  fsm.start(at(0s));
  ASSERT_EQ(fsm.on_reply(at(2900ms), unknown()).step, Step::kWait);
  ASSERT_EQ(fsm.on_timer(fsm.wake_at()).step, Step::kSendAcquire);
  EXPECT_EQ(fsm.wake_at(), at(3s));
  EXPECT_EQ(fsm.on_timer(at(3s)).step, Step::kSendCancel);
  EXPECT_EQ(fsm.on_timer(at(5s)).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kOutcomeUnknown);
  EXPECT_TRUE(fsm.error()->message().starts_with(
      "no reply; the store did not confirm that the request was taken back"))
      << fsm.error()->message();
}

TEST(AcquireFsmTest, ARequestThatWentOutElsewhereIsRepeatedAndItsLeaseCountsFromThere) {
  AcquireFsm fsm(terms());
  const auto again = fsm.start_again(at(5s), at(0s));
  EXPECT_EQ(again.step, Step::kSendAcquire);
  EXPECT_FALSE(again.fresh_id);
  EXPECT_EQ(fsm.on_reply(at(6s), ticket(AcquisitionStatus::kHeld, 0, 30s)).step, Step::kGranted);
  EXPECT_EQ(fsm.log().sent_at(0), at(0s));
  AcquireFsm refused(terms());
  refused.start_again(at(5s), at(0s));
  EXPECT_EQ(refused.on_reply(at(6s), unavailable()).step, Step::kWait);
}

TEST(AcquireFsmTest, AfterALeaseOfUnknownOutcomesTheRequestIsTakenBack) {
  AcquireFsm fsm(terms());
  fsm.start(at(0s));
  ASSERT_EQ(fsm.on_reply(at(30s), unknown()).step, Step::kSendCancel);
  EXPECT_EQ(fsm.on_cancel_reply(at(31s), EndStatus::kGone).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kUnavailable);
}

TEST(AcquireFsmTest, AFailedHeartbeatIsTriedAgainWithoutLosingThePlace) {
  AcquireFsm fsm = queued();
  ASSERT_EQ(fsm.on_timer(at(1100ms)).step, Step::kSendHeartbeat);
  ASSERT_EQ(fsm.on_reply(at(1200ms), unavailable()).step, Step::kWait);
  EXPECT_LE(fsm.wake_at(), at(1500ms));
  EXPECT_EQ(fsm.on_timer(at(1500ms)).step, Step::kSendHeartbeat);
}

// --- A store that is away for longer than a ticket lives.

// Told that its ticket has gone, at 9.1 s, and that the store cannot be reached, at 9.2 s.
AcquireFsm away(const AcquireFsm::Terms& how = terms()) {
  AcquireFsm fsm = queued(how);
  EXPECT_EQ(fsm.on_timer(at(9s)).step, Step::kSendHeartbeat);
  EXPECT_EQ(fsm.on_reply(at(9100ms), ticket(AcquisitionStatus::kGone)).step, Step::kSendAcquire);
  EXPECT_EQ(fsm.on_reply(at(9200ms), unavailable()).step, Step::kWait);
  return fsm;
}

TEST(AcquireFsmTest, WhoHasQueuedGoesOnWaitingForAStoreThatIsAway) {
  AcquireFsm fsm = away();
  for (auto now = 10s; now < 600s; now += 5s) {
    EXPECT_LE(fsm.wake_at(), at(now));
    const auto again = fsm.on_timer(at(now));
    ASSERT_EQ(again.step, Step::kSendAcquire);
    EXPECT_TRUE(again.fresh_id) << "the last one surely did not arrive";
    ASSERT_EQ(fsm.on_reply(at(now + 1s), unavailable()).step, Step::kWait);
  }
  ASSERT_EQ(fsm.on_timer(at(600s)).step, Step::kSendAcquire);
  ASSERT_EQ(fsm.on_reply(at(601s), waiting()).step, Step::kWait);
  EXPECT_TRUE(fsm.queued());
  ASSERT_EQ(fsm.on_push(at(602s), granted_push(0)).step, Step::kGranted);
  EXPECT_EQ(fsm.log().sent_at(0), at(600s));
}

// Nor may it stand in the queue twice.
TEST(AcquireFsmTest, WhoGoesOnWaitingAsksUnderTheSameIdWhileARequestMayStillArrive) {
  AcquireFsm fsm = away();
  ASSERT_TRUE(fsm.on_timer(at(10s)).fresh_id);
  ASSERT_EQ(fsm.on_reply(at(11s), unknown()).step, Step::kWait);
  for (auto now = 12s; now < 600s; now += 5s) {  // Far beyond a ttl.
    const auto again = fsm.on_timer(at(now));
    ASSERT_EQ(again.step, Step::kSendAcquire);
    EXPECT_FALSE(again.fresh_id);
    ASSERT_EQ(fsm.on_reply(at(now + 1s), unavailable()).step, Step::kWait);
  }
  ASSERT_FALSE(fsm.on_timer(at(600s)).fresh_id);
  const auto anew = fsm.on_reply(at(601s), ticket(AcquisitionStatus::kGone));
  EXPECT_EQ(anew.step, Step::kSendAcquire);
  EXPECT_TRUE(anew.fresh_id);
}

// As the lock service does while it changes its leader.
AcquireFsm::Terms outlasting(std::optional<Nanos> wait = std::nullopt) {
  AcquireFsm::Terms how = terms(wait);
  how.outlasts_first = true;
  return how;
}

TEST(AcquireFsmTest, WhoOutlastsTheFirstOutageAsksUntilTheStoreIsThere) {
  AcquireFsm fsm(outlasting());
  fsm.start(at(0s));
  EXPECT_FALSE(fsm.held_up());
  for (auto now = 1s; now < 600s; now += 5s) {
    ASSERT_EQ(fsm.on_reply(at(now), unavailable()).step, Step::kWait);
    ASSERT_TRUE(fsm.held_up());
    EXPECT_EQ(fsm.held_up()->message(), "no route");
    const auto again = fsm.on_timer(fsm.wake_at());
    ASSERT_EQ(again.step, Step::kSendAcquire);
    EXPECT_TRUE(again.fresh_id);
  }
  EXPECT_EQ(fsm.on_reply(at(600s), ticket(AcquisitionStatus::kHeld, 0, 30s)).step, Step::kGranted);
  EXPECT_EQ(fsm.log().sent_at(0), at(596200ms));
}

TEST(AcquireFsmTest, WhoOutlastsTheFirstOutageKeepsAnIdThatMayHaveArrived) {
  AcquireFsm fsm(outlasting());
  fsm.start(at(0s));
  ASSERT_EQ(fsm.on_reply(at(1s), unknown()).step, Step::kWait);
  for (auto now = 2s; now < 600s; now += 5s) {  // Far beyond a ttl.
    const auto again = fsm.on_timer(at(now));
    ASSERT_EQ(again.step, Step::kSendAcquire);
    EXPECT_FALSE(again.fresh_id);
    ASSERT_EQ(fsm.on_reply(at(now + 1s), unavailable()).step, Step::kWait);
  }
}

TEST(AcquireFsmTest, TheFirstOutageIsOutlastedForAsLongAsTheWait) {
  AcquireFsm fsm(outlasting(/*wait=*/3s));
  fsm.start(at(0s));
  ASSERT_EQ(fsm.on_reply(at(2900ms), unavailable()).step, Step::kWait);
  EXPECT_EQ(fsm.wake_at(), at(3s));
  ASSERT_EQ(fsm.on_timer(at(3s)).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kUnavailable);
  EXPECT_NE(fsm.error()->message().find("no route"), std::string::npos);
}

TEST(AcquireFsmTest, ATryAndARefusalOutlastNothing) {
  AcquireFsm::Terms how = outlasting();
  how.may_wait = false;
  AcquireFsm one(how);
  one.start(at(0s));
  EXPECT_EQ(one.on_reply(at(1s), unavailable()).step, Step::kFailed);
  AcquireFsm two(outlasting());
  two.start(at(0s));
  EXPECT_EQ(two.on_reply(at(1s), Error(Errc::kPermissionDenied, "no")).step, Step::kFailed);
}

TEST(AcquireFsmTest, AWaitThatEndsWhileTheStoreIsAwaySaysSoAtOnce) {
  AcquireFsm fsm = away(terms(/*wait=*/9300ms));
  EXPECT_EQ(fsm.wake_at(), at(9300ms));
  ASSERT_EQ(fsm.on_timer(at(9300ms)).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kUnavailable);
  EXPECT_NE(fsm.error()->message().find("no route"), std::string::npos);
}

TEST(AcquireFsmTest, AWaitThatEndsWhileAStoreIsAskedAnewTakesThatBack) {
  AcquireFsm fsm = away(terms(/*wait=*/12s));
  ASSERT_EQ(fsm.on_timer(at(10s)).step, Step::kSendAcquire);
  ASSERT_EQ(fsm.on_timer(at(12s)).step, Step::kSendCancel);
  ASSERT_EQ(fsm.on_cancel_reply(at(13s), unavailable()).step, Step::kWait);
  ASSERT_EQ(fsm.on_timer(fsm.wake_at()).step, Step::kSendCancel);
  ASSERT_EQ(fsm.on_cancel_reply(at(13500ms), EndStatus::kGone).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kUnavailable);
}

TEST(AcquireFsmTest, AWaitThatEndsWithAnUnknownOutcomeTakesThatBack) {
  AcquireFsm fsm = away(terms(/*wait=*/12s));
  ASSERT_EQ(fsm.on_timer(at(10s)).step, Step::kSendAcquire);
  ASSERT_EQ(fsm.on_reply(at(12s), unknown()).step, Step::kSendCancel);
  EXPECT_EQ(fsm.on_timer(at(14s)).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kOutcomeUnknown);
}

TEST(AcquireFsmTest, WhoWaitsForAStoreThatIsAwayCanLeaveAtOnce) {
  for (const Errc why : {Errc::kCancelled, Errc::kClosed}) {
    AcquireFsm fsm = away();
    ASSERT_EQ(fsm.on_cancel(at(9300ms), why).step, Step::kFailed);
    EXPECT_EQ(fsm.error()->code(), why);
    EXPECT_EQ(fsm.on_timer(at(10s)).step, Step::kWait);
  }
}

TEST(AcquireFsmTest, WhoHasQueuedIsToldAnErrorThatRetryingCannotMend) {
  AcquireFsm fsm = away();
  ASSERT_EQ(fsm.on_timer(at(10s)).step, Step::kSendAcquire);
  ASSERT_EQ(fsm.on_reply(at(11s), Error(Errc::kPermissionDenied, "no")).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kPermissionDenied);
}

// A ticket that has gone says nothing about the store: the clock alone may show it.
TEST(AcquireFsmTest, AWaitThatEndsInTheQueueOfAStoreThatIsAwaySaysSo) {
  for (const EndStatus how : {EndStatus::kGone, EndStatus::kCancelled}) {
    AcquireFsm failed = queued(terms(/*wait=*/3s));
    ASSERT_EQ(failed.on_timer(at(1100ms)).step, Step::kSendHeartbeat);
    ASSERT_EQ(failed.on_reply(at(2900ms), unavailable()).step, Step::kWait);
    ASSERT_EQ(failed.on_timer(at(3s)).step, Step::kSendCancel);
    ASSERT_EQ(failed.on_cancel_reply(at(4s), how).step, Step::kFailed);
    AcquireFsm silent = queued(terms(/*wait=*/3s));
    ASSERT_EQ(silent.on_timer(at(1100ms)).step, Step::kSendHeartbeat);
    ASSERT_EQ(silent.on_timer(at(3s)).step, Step::kSendCancel);
    ASSERT_EQ(silent.on_cancel_reply(at(4s), how).step, Step::kFailed);
    const Errc expected = how == EndStatus::kGone ? Errc::kUnavailable : Errc::kTimedOut;
    EXPECT_EQ(failed.error()->code(), expected);
    EXPECT_EQ(silent.error()->code(), expected);
    const bool may_stand = failed.error()->message().find("may stay queued") != std::string::npos;
    EXPECT_EQ(may_stand, how == EndStatus::kGone) << failed.error()->message();
  }
}

TEST(AcquireFsmTest, AnErrorThatRetryingCannotMendEndsTheWait) {
  AcquireFsm fsm = queued();
  ASSERT_EQ(fsm.on_timer(at(1100ms)).step, Step::kSendHeartbeat);
  ASSERT_EQ(fsm.on_reply(at(1200ms), Error(Errc::kCorruptState, "damaged")).step,
            Step::kSendCancel);
  ASSERT_EQ(fsm.on_cancel_reply(at(1300ms), EndStatus::kCancelled).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kCorruptState);
  EXPECT_EQ(fsm.error()->message(), "damaged");
}

TEST(AcquireFsmTest, AWaitThatTheStoreWillNotTakeBackEitherSaysSoAtOnce) {
  AcquireFsm fsm = queued();
  ASSERT_EQ(fsm.on_timer(at(1100ms)).step, Step::kSendHeartbeat);
  const Error refused(Errc::kPermissionDenied, "no");
  ASSERT_EQ(fsm.on_reply(at(1200ms), refused).step, Step::kSendCancel);
  ASSERT_EQ(fsm.on_cancel_reply(at(1300ms), refused).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kPermissionDenied);
  // Perhaps because the client was closed: then no store refused it.
  EXPECT_NE(fsm.error()->message().find("could not be cancelled: we may stay queued"),
            std::string::npos);
}

TEST(AcquireFsmTest, AWaitThatFailedIsTakenBackForSoLongAndNoLonger) {
  AcquireFsm fsm = queued();
  ASSERT_EQ(fsm.on_timer(at(1100ms)).step, Step::kSendHeartbeat);
  ASSERT_EQ(fsm.on_reply(at(1200ms), Error(Errc::kPermissionDenied, "no")).step, Step::kSendCancel);
  ASSERT_EQ(fsm.on_cancel_reply(at(1300ms), unavailable()).step, Step::kWait);
  ASSERT_EQ(fsm.on_timer(fsm.wake_at()).step, Step::kSendCancel);
  ASSERT_EQ(fsm.on_timer(at(3200ms)).step, Step::kFailed);
  EXPECT_EQ(fsm.error()->code(), Errc::kOutcomeUnknown);
  EXPECT_EQ(fsm.error()->message().find("no; "), 0U) << fsm.error()->message();
}

TEST(AcquireFsmTest, AfterTheEndNothingMoreHappens) {
  AcquireFsm fsm(terms());
  fsm.start(at(0s));
  ASSERT_EQ(fsm.on_reply(at(1ms), ticket(AcquisitionStatus::kHeld, 0, 30s)).step, Step::kGranted);
  EXPECT_EQ(fsm.on_timer(at(1h)).step, Step::kWait);
  EXPECT_EQ(fsm.on_push(at(1h), hint()).step, Step::kWait);
  EXPECT_EQ(fsm.on_reply(at(1h), waiting()).step, Step::kWait);
  EXPECT_EQ(fsm.on_cancel_reply(at(1h), EndStatus::kGone).step, Step::kWait);
}

}  // namespace
}  // namespace holdfast::session
