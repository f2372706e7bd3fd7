#include "src/stores/redlock/quorum.h"

#include <array>

#include <gtest/gtest.h>

namespace holdfast::stores::redlock {
namespace {

using State = Attempt::State;

TEST(AttemptTest, AMajorityGrantsAndAcknowledgesTheToken) {
  Attempt attempt(5, true);
  attempt.on_granted(0, 7);
  attempt.on_granted(3, 9);
  EXPECT_EQ(attempt.state(), State::kAsking);
  EXPECT_FALSE(attempt.next_to_confirm(false));
  attempt.on_granted(4, 8);
  EXPECT_EQ(attempt.state(), State::kConfirming);
  EXPECT_EQ(attempt.token(), 10U);
  for (const std::size_t node : {0U, 3U, 4U}) EXPECT_EQ(attempt.next_to_confirm(false), node);
  EXPECT_FALSE(attempt.next_to_confirm(false));
  attempt.on_confirmed(0);
  attempt.on_confirmed(4);
  EXPECT_EQ(attempt.state(), State::kConfirming);
  attempt.on_confirmed(3);
  EXPECT_TRUE(attempt.held());
}

TEST(AttemptTest, ALateGrantIsConfirmedWithTheChosenToken) {
  Attempt attempt(3, true);
  attempt.on_granted(0, 1);
  attempt.on_granted(1, 1);
  attempt.on_granted(2, 0);
  EXPECT_EQ(attempt.token(), 2U) << "it was sent already";
  EXPECT_EQ(attempt.next_to_confirm(false), 0U);
  EXPECT_EQ(attempt.next_to_confirm(false), 1U);
  EXPECT_FALSE(attempt.next_to_confirm(false)) << "a majority is on its way";
  attempt.on_unknown(0);
  EXPECT_EQ(attempt.next_to_confirm(false), 2U);
  attempt.on_confirmed(1);
  EXPECT_FALSE(attempt.decided());
  attempt.on_confirmed(2);
  EXPECT_TRUE(attempt.held());
  EXPECT_FALSE(attempt.is_member(0));
}

TEST(AttemptTest, TheOtherNodesAreToldTheTokenAfterwardsAndBecomeMembers) {
  Attempt attempt(3, true);
  for (const std::size_t node : {0U, 1U, 2U}) attempt.on_granted(node, 1);
  while (const auto node = attempt.next_to_confirm(false)) attempt.on_confirmed(*node);
  ASSERT_TRUE(attempt.held());
  EXPECT_FALSE(attempt.is_member(2));
  EXPECT_EQ(attempt.next_to_confirm(true), 2U);
  EXPECT_FALSE(attempt.next_to_confirm(true));
  attempt.on_confirmed(2);
  EXPECT_TRUE(attempt.is_member(2));

  Attempt one_phase(3, false);
  for (const std::size_t node : {0U, 1U, 2U}) one_phase.on_granted(node, 1);
  EXPECT_FALSE(one_phase.next_to_confirm(true));
}

// Another one held there in between, and has that token.
TEST(AttemptTest, ALateGrantOfANodeThatKnowsTheTokenIsGivenBack) {
  Attempt attempt(3, true);
  attempt.on_granted(0, 1);
  attempt.on_granted(1, 1);
  attempt.on_granted(2, 2);
  EXPECT_EQ(attempt.vote(2), Vote::kUnknown);
  EXPECT_EQ(attempt.token(), 2U);
}

TEST(AttemptTest, WhoeverGrantsAfterTheDecisionIsNoMember) {
  for (const bool tokens : {true, false}) {
    Attempt attempt(3, tokens);
    attempt.on_granted(0, 1);
    attempt.on_granted(1, 1);
    while (const auto node = attempt.next_to_confirm(false)) attempt.on_confirmed(*node);
    ASSERT_TRUE(attempt.held());
    attempt.on_granted(2, 1);
    EXPECT_FALSE(attempt.is_member(2));
    EXPECT_EQ(attempt.vote(2), Vote::kUnknown) << "a release must reach it";
  }
}

TEST(AttemptTest, IsOverAsSoonAsNoMajorityIsLeft) {
  Attempt busy(5, true);
  busy.on_busy(0);
  busy.on_unknown(1);
  EXPECT_FALSE(busy.decided());
  busy.on_refused(2);
  EXPECT_EQ(busy.state(), State::kBusy);

  Attempt failed(3, true);
  failed.on_unknown(0);
  failed.on_refused(1);
  EXPECT_EQ(failed.state(), State::kFailed);
}

TEST(AttemptTest, AFailedWriteBackEndsIt) {
  Attempt attempt(3, true);
  attempt.on_granted(0, 1);
  attempt.on_granted(1, 1);
  attempt.on_refused(2);
  while (const auto node = attempt.next_to_confirm(false)) attempt.on_unknown(*node);
  EXPECT_EQ(attempt.state(), State::kFailed);
}

TEST(AttemptTest, AForeignNodeForbidsTheGrant) {
  Attempt attempt(3, false);
  attempt.on_granted(0, 1);
  attempt.forbid();
  EXPECT_EQ(attempt.state(), State::kFailed);
  attempt.on_granted(1, 1);
  EXPECT_EQ(attempt.state(), State::kFailed);
}

TEST(RenewalTest, EqualTermsOfAMajorityCount) {
  Renewal<int> renewal(5);
  renewal.on_held(7);
  renewal.on_held(8);
  renewal.on_held(7);
  EXPECT_FALSE(renewal.renewed());
  renewal.on_silent();
  EXPECT_FALSE(renewal.complete());
  renewal.on_held(7);
  EXPECT_EQ(renewal.renewed(), 7);
  EXPECT_TRUE(renewal.complete());
  EXPECT_FALSE(renewal.gone());
}

TEST(RenewalTest, IsGoneOnceNoMajorityCanHold) {
  Renewal<int> renewal(3);
  renewal.on_gone();
  EXPECT_FALSE(renewal.gone());
  renewal.on_gone();
  EXPECT_TRUE(renewal.gone());
}

NodeView ready(std::uint64_t floor) { return {true, true, false, floor, 1000}; }
NodeView lost(bool waited, std::uint64_t clock = 1000) { return {true, false, waited, 0, clock}; }

TEST(CatchUpTest, NeedsAsManyIntactNodesOfAllThatAreConfigured) {
  EXPECT_EQ(catch_up(std::array{ready(5), ready(9), ready(4), lost(true), NodeView{}}), 9U);
  // A token on {lost, lost, a} would be missed by {b, c}.
  EXPECT_FALSE(catch_up(std::array{ready(5), ready(9), lost(true), lost(true), NodeView{}}));
  EXPECT_FALSE(catch_up(std::array{ready(5), ready(9), lost(true), lost(true), lost(false)}));
}

TEST(CatchUpTest, WhereTooFewAreIntactAllWaitAndTheMedianClockGoesOn) {
  EXPECT_EQ(catch_up(std::array{lost(true, 10), lost(true, 1'000'000), lost(true, 12)}), 12U);
  EXPECT_EQ(catch_up(std::array{ready(77), lost(true, 10), lost(true, 12)}), 77U);
  EXPECT_FALSE(catch_up(std::array{lost(true), lost(false), lost(true)}));
}

TEST(PlausibleTest, OneNodesClockOrCounterDoesNotMoveTheLimit) {
  constexpr std::uint64_t kDay = 86'400'000'000;
  std::array nodes{ready(5), ready(6), ready(~std::uint64_t{0} / 2)};
  nodes[1].clock = ~std::uint64_t{0} / 2;
  EXPECT_EQ(most_plausible(nodes), 1000 + kDay);
}

}  // namespace
}  // namespace holdfast::stores::redlock
