// The state machine of an acquisition that holds by a lease of its own, step by step.
#include <gtest/gtest.h>

#include "src/contend/acquisition.h"
#include "src/contend/acquisition_by_hand.h"

namespace holdfast::contend {
namespace {

ByHand kept_holder() {
  ByHand holder(Mode::exclusive(), /*may_wait=*/true, /*outlives=*/true);
  holder.created({});
  EXPECT_EQ(holder.state(), State::kKeeping) << "held before it is kept";
  holder.kept();
  EXPECT_EQ(holder.state(), State::kHeld);
  return holder;
}

TEST(KeptAcquisitionTest, ItHoldsWhateverBecomesOfItsSession) {
  ByHand holder = kept_holder();
  holder.step(SessionEnded{});
  EXPECT_EQ(holder.state(), State::kHeld);
  holder.epoch = 2;
  EXPECT_FALSE(holder.renew(1)) << "answered without asking the store";
  ASSERT_TRUE(holder.asks<KeepEntry>());
  EXPECT_EQ(holder.asks<KeepEntry>()->details->kept->seq, 1U);
  holder.kept(Slot::kKeep);
  const auto* answer = holder.acted<Answer>();
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ(answer->result->seq, 1U);
  EXPECT_EQ(answer->result->lease, kTtl);
}

TEST(KeptAcquisitionTest, BeforeItIsSureThatItIsKeptItGoesWithItsSession) {
  ByHand holder(Mode::exclusive(), /*may_wait=*/true, /*outlives=*/true);
  holder.created({});
  holder.step(SessionEnded{});
  EXPECT_TRUE(holder.asks<Remove>()) << "it may be kept, without an owner";
  holder.step(Replied{Slot::kMain, Result<bool>(Error(Errc::kLost, "no session yet")), false});
  EXPECT_EQ(holder.state(), State::kRemovePause);
}

TEST(KeptAcquisitionTest, ARenewalThatWasOvertakenSaysByWhich) {
  ByHand holder = kept_holder();
  EXPECT_FALSE(holder.renew(5));
  holder.answer(std::optional<Read>(), Slot::kKeep);
  ASSERT_TRUE(holder.asks<ReadEntry>());
  Details theirs;
  theirs.kept = std::make_shared<Kept>(Kept{{1, 1}, 1000, 9s, "lease", 100});
  holder.answer(std::optional(Read{theirs, 100, 300}), Slot::kKeep);
  const auto* answer = holder.acted<Answer>();
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ(answer->result->seq, 1000U);
  EXPECT_FALSE(holder.asks<KeepEntry>()) << "it took the lease back";
}

TEST(KeptAcquisitionTest, AnUnansweredRenewalIsFoundAndNotCountedOn) {
  ByHand holder = kept_holder();
  EXPECT_FALSE(holder.renew(1));
  holder.step(Replied{Slot::kKeep,
                      Result<std::optional<Read>>(Error(Errc::kOutcomeUnknown, "lost")), false});
  ASSERT_TRUE(holder.acted<Answer>());
  EXPECT_FALSE(holder.acted<Answer>()->result);
  EXPECT_FALSE(holder.renew(2));
  holder.answer(std::optional<Read>(), Slot::kKeep);
  Details mine;
  mine.kept = std::make_shared<Kept>(Kept{{1, 1}, 1, kTtl, "the second", 100});
  holder.answer(std::optional(Read{mine, 100, 300}), Slot::kKeep);
  ASSERT_TRUE(holder.asks<KeepEntry>());
  EXPECT_EQ(holder.asks<KeepEntry>()->details->kept->lease, "the second");
}

TEST(KeptAcquisitionTest, ARenewalShortensNoLease) {
  ByHand holder = kept_holder();
  holder.now += 1s;
  EXPECT_FALSE(holder.renew(1, 2s));
  ASSERT_TRUE(holder.asks<KeepEntry>());
  EXPECT_EQ(holder.asks<KeepEntry>()->details->kept->ttl, kTtl - 1s);
}

TEST(KeptAcquisitionTest, WhoeverLetsItGoLeavesItWithItsValue) {
  ByHand holder;
  holder.created({});
  ASSERT_EQ(holder.state(), State::kHeld);
  holder.step(LetGo{3, 1s, "done", holder.now + 1s});
  const auto* keep = holder.asks<KeepEntry>();
  ASSERT_NE(keep, nullptr);
  EXPECT_EQ(*keep->value, "done");
  EXPECT_EQ(keep->details->kept->ttl, machine::Duration(1s));
  holder.kept(Slot::kKeep);
  ASSERT_TRUE(holder.acted<AnswerKeeps>());
  EXPECT_TRUE(holder.acted<AnswerKeeps>()->result);
  EXPECT_EQ(holder.state(), State::kEnded);
  EXPECT_FALSE(holder.asks<Remove>());
}

TEST(KeptAcquisitionTest, AKeptLeaseThatRanOutIsNotRemovedByItsHolder) {
  ByHand holder = kept_holder();
  holder.pass(kTtl + 1s);
  EXPECT_EQ(holder.state(), State::kEnded);
  EXPECT_FALSE(holder.asks<Remove>()) << "another client may have adopted it";
}

TEST(KeptAcquisitionTest, AWaiterRemovesABlockerWhoseTimeIsOver) {
  ByHand waiter;
  waiter.created({other()});
  Details kept;
  kept.kept = std::make_shared<Kept>(Kept{{2, 2}, 1, kTtl, "node", 50});
  kept.left = 100ms;
  waiter.still_there(kept);
  ASSERT_EQ(waiter.state(), State::kWaiting);
  waiter.pass(100ms);
  ASSERT_TRUE(waiter.asks<ListQueue>());
  Listing listing;
  listing.queue = {other(), {{{1, 1}, Shape::kExclusive, 1, 1, {}}, ByHand::kMine}};
  waiter.answer(listing);
  kept.left = 0ms;
  waiter.still_there(kept);
  const auto* drop = waiter.asks<DropEntry>();
  ASSERT_NE(drop, nullptr);
  EXPECT_EQ(drop->entry->modified, 50U);
  waiter.answer(true);
  EXPECT_TRUE(waiter.asks<ListQueue>());
}

}  // namespace
}  // namespace holdfast::contend
