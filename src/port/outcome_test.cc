#include "src/port/outcome.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::port {
namespace {

using machine::Instant;
using machine::LockImage;
using machine::Outcome;
using machine::Reply;
using namespace std::chrono_literals;

constexpr AcquisitionId kId{1, 2};
constexpr Instant at(Duration time) { return Instant(time); }

Reply reply(Outcome outcome) { return {.outcome = outcome}; }

std::optional<Errc> code_of(const Result<AcquisitionState>& result) {
  if (result) return std::nullopt;
  return result.error().code();
}

TEST(OutcomeTest, AHeldReplyTellsTheTermsOfTheGrant) {
  Reply held = reply(Outcome::kHeld);
  held.token = {3, 7};
  held.seq = 5;
  held.lease = 30s;
  const auto state = to_ticket_state(held, "a", at(1s));
  ASSERT_TRUE(state);
  EXPECT_EQ(state->status, AcquisitionStatus::kHeld);
  EXPECT_EQ(state->token, (Token{3, 7}));
  EXPECT_EQ(state->seq, 5U);
  EXPECT_EQ(state->lease, Duration(30s));
  EXPECT_FALSE(state->next_expiry);
}

TEST(OutcomeTest, AWaitingReplyTellsThePlaceAndTheHoldersEnd) {
  Reply waiting = reply(Outcome::kWaiting);
  waiting.position = 4;
  waiting.next_expiry = at(9s);
  waiting.seq = 2;
  waiting.lease = 5s;
  const auto state = to_ticket_state(waiting, "a", at(2s));
  ASSERT_TRUE(state);
  EXPECT_EQ(state->status, AcquisitionStatus::kWaiting);
  EXPECT_EQ(state->ahead, 4U);
  EXPECT_EQ(state->seq, 2U);
  EXPECT_EQ(state->lease, Duration(5s));
  EXPECT_EQ(state->next_expiry, Duration(7s));
  EXPECT_EQ(state->token, Token{});
}

TEST(OutcomeTest, AHoldersEndThatHasPassedIsNow) {
  Reply busy = reply(Outcome::kBusy);
  busy.next_expiry = at(1s);
  const auto state = to_ticket_state(busy, "a", at(2s));
  ASSERT_TRUE(state);
  EXPECT_EQ(state->status, AcquisitionStatus::kBusy);
  EXPECT_EQ(state->next_expiry, Duration(0));
}

TEST(OutcomeTest, EveryRefusalHasItsCodeAndNamesTheLock) {
  const std::vector<std::pair<Outcome, Errc>> table{
      {Outcome::kMismatch, Errc::kInvalidArgument},
      {Outcome::kTooLarge, Errc::kInvalidArgument},
      {Outcome::kInvalid, Errc::kInvalidArgument},
      {Outcome::kQueueFull, Errc::kQueueFull},
      {Outcome::kWouldDeadlock, Errc::kWouldDeadlock},
      {Outcome::kExhausted, Errc::kCorruptState},
      {Outcome::kNotHeld, Errc::kLost},
      {Outcome::kReleased, Errc::kCorruptState}};  // Not an answer to Acquire or Renew.
  for (const auto& [outcome, code] : table) {
    const auto result = to_ticket_state(reply(outcome), "orders/42", at(0s));
    EXPECT_EQ(code_of(result), code) << static_cast<int>(outcome);
    EXPECT_NE(result.error().message().find("orders/42"), std::string::npos);
  }
}

TEST(OutcomeTest, AMismatchSaysWhatWasAskedForAndWhatIsInUse) {
  AcquireRequest request;
  request.name = "pool";
  request.id = kId;
  LockImage current;
  const auto message = [&] {
    return to_acquire_result(reply(Outcome::kMismatch), request, &current, at(0s))
        .error()
        .message();
  };
  request.mode = Mode::of_permits(2, 5);
  EXPECT_NE(message().find("2 of 5 permits"), std::string::npos);
  EXPECT_NE(message().find("exclusive or shared"), std::string::npos);
  current.kind = machine::ModeKind::kPermits;
  current.capacity = 7;
  EXPECT_NE(message().find("with 7 permits"), std::string::npos);
  request.mode = Mode::shared();
  EXPECT_NE(message().find("asked for as shared"), std::string::npos);
}

TEST(OutcomeTest, AnUpgradeWithoutItsBaseIsLostAndOtherwiseInvalid) {
  AcquireRequest request;
  request.name = "doc";
  request.id = kId;
  request.upgrade_of = {9, 9};
  LockImage current;
  const auto code = [&](const LockImage* image) {
    return code_of(to_acquire_result(reply(Outcome::kInvalid), request, image, at(0s)));
  };
  EXPECT_EQ(code(nullptr), Errc::kLost);
  EXPECT_EQ(code(&current), Errc::kLost);
  machine::TicketImage base;
  base.id = request.upgrade_of;
  base.held = true;  // Held, but not shared: the request itself is wrong.
  current.tickets.push_back(base);
  EXPECT_EQ(code(&current), Errc::kInvalidArgument);
}

TEST(OutcomeTest, EndsAreToldApart) {
  EXPECT_EQ(*to_end_status(reply(Outcome::kReleased), "a"), EndStatus::kReleased);
  EXPECT_EQ(*to_end_status(reply(Outcome::kCancelled), "a"), EndStatus::kCancelled);
  EXPECT_EQ(*to_end_status(reply(Outcome::kGone), "a"), EndStatus::kGone);
  EXPECT_FALSE(to_end_status(reply(Outcome::kHeld), "a"));
}

TEST(OutcomeTest, ADowngradeShowsTheTicketAsItIsNow) {
  LockImage after;
  machine::TicketImage ticket;
  ticket.id = kId;
  ticket.held = true;
  ticket.token = {0, 4};
  ticket.seq = 3;
  ticket.lease = 8s;
  after.tickets.push_back(ticket);
  const auto state = to_downgrade_result(reply(Outcome::kDone), "a", kId, &after);
  ASSERT_TRUE(state);
  EXPECT_EQ(state->status, AcquisitionStatus::kHeld);
  EXPECT_EQ(state->token, (Token{0, 4}));
  EXPECT_EQ(state->seq, 3U);
  EXPECT_EQ(state->lease, Duration(8s));
  const auto no_holder = to_downgrade_result(reply(Outcome::kNotHeld), "a", kId, &after);
  EXPECT_EQ(no_holder->status, AcquisitionStatus::kGone);
  EXPECT_EQ(to_downgrade_result(reply(Outcome::kDone), "a", kId, nullptr)->status,
            AcquisitionStatus::kGone);
  EXPECT_EQ(code_of(to_downgrade_result(reply(Outcome::kMismatch), "a", kId, &after)),
            Errc::kInvalidArgument);
}

TEST(OutcomeTest, AQueuedResizeIsNotDoneYet) {
  EXPECT_EQ(*to_done(reply(Outcome::kDone), "a"), true);
  EXPECT_EQ(*to_done(reply(Outcome::kReleased), "a"), true);
  EXPECT_EQ(*to_done(reply(Outcome::kWaiting), "a"), false);
  EXPECT_EQ(to_done(reply(Outcome::kNotHeld), "a").error().code(), Errc::kLost);
}

TEST(OutcomeTest, LockInfoLeavesSystemTicketsOutAndNeverShowsNegativeTime) {
  LockImage image;
  image.name = "pool";
  image.kind = machine::ModeKind::kPermits;
  image.capacity = 3;
  image.last_token = {1, 2};
  machine::TicketImage holder;
  holder.held = true;
  holder.mode = Mode::of_permits(2, 3);
  holder.lease_end = at(1s);
  machine::TicketImage system;
  system.system = true;
  machine::TicketImage waiter;
  waiter.lease_end = at(5500us);
  image.tickets = {holder, system, waiter};
  const LockInfo info = to_lock_info(image, at(5ms), std::nullopt);
  EXPECT_TRUE(info.permits);
  EXPECT_EQ(info.capacity, 3U);
  EXPECT_EQ(info.last_token, (holdfast::Token{1, 2}));
  ASSERT_EQ(info.holders.size(), 1U);
  EXPECT_EQ(info.holders[0].mode, holdfast::Mode::permits(2, 3));
  EXPECT_EQ(info.holders[0].time_left, 995ms);
  ASSERT_EQ(info.waiters.size(), 1U);
  EXPECT_EQ(info.waiters[0].time_left, 0ms);
  EXPECT_EQ(to_lock_info(image, at(10s), std::nullopt).holders[0].time_left, 0ms);
}

TEST(OutcomeTest, OnlyWhatHappensToLocksIsAnEvent) {
  machine::Effect effect;
  effect.name = "a";
  effect.token = {0, 3};
  effect.lease_end = at(3s);
  effect.kind = machine::EffectKind::kGranted;
  const auto granted = to_event(effect, at(1s));
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->kind, LockEventKind::kGranted);
  EXPECT_EQ(granted->token, (holdfast::Token{0, 3}));
  EXPECT_EQ(granted->time_left, 2s);
  for (const auto kind : {machine::EffectKind::kExtended, machine::EffectKind::kTombstone,
                          machine::EffectKind::kForgotten}) {
    effect.kind = kind;
    EXPECT_FALSE(to_event(effect, at(1s)));
  }
  effect.kind = machine::EffectKind::kQueued;
  effect.system = true;
  EXPECT_FALSE(to_event(effect, at(1s)));
}

// Others can write to where these numbers come from.
TEST(OutcomeTest, TimesFromTheEdgeOfTheAxisAreCutToWhatCanBeShown) {
  auto owner = std::make_shared<machine::OwnerInfo>();
  for (const std::int64_t far : {INT64_MAX, INT64_MIN}) {
    owner->since_unix_ms = far;
    EXPECT_EQ(to_public(owner).since.time_since_epoch().count() > 0, far > 0);
  }
  machine::TicketImage ticket;
  ticket.held = true;
  ticket.lease_end = Instant::max();
  LockImage image;
  image.tickets = {ticket};
  EXPECT_GT(to_lock_info(image, Instant::min(), {}).holders[0].time_left.count(), 0);
  image.tickets[0].lease_end = Instant::min();
  EXPECT_EQ(to_lock_info(image, Instant::max(), {}).holders[0].time_left.count(), 0);
}

}  // namespace
}  // namespace holdfast::port
