#include "src/contend/queue.h"

#include <gtest/gtest.h>

namespace holdfast::contend {
namespace {

machine::AcquisitionId id(std::uint64_t n) { return {0, n}; }

QueueEntry place(std::uint64_t n, Shape shape) {
  QueueEntry made;
  made.key.id = id(n);
  made.key.shape = shape;
  made.order = n;
  made.created = n;
  return made;
}
QueueEntry exclusive(std::uint64_t n) { return place(n, Shape::kExclusive); }
QueueEntry shared(std::uint64_t n) { return place(n, Shape::kShared); }
QueueEntry weakened(std::uint64_t n) {
  QueueEntry made = exclusive(n);
  made.details.emplace().weakened = true;
  return made;
}
QueueEntry read(std::uint64_t n) {
  QueueEntry made = exclusive(n);
  made.details.emplace();
  return made;
}
QueueEntry upgrade(std::uint64_t n, std::uint64_t of) {
  QueueEntry made = place(n, Shape::kUpgrade);
  made.key.upgrade_of = id(of);
  return made;
}
QueueEntry permits(std::uint64_t n, std::uint32_t count, std::uint32_t capacity) {
  QueueEntry made = place(n, Shape::kPermits);
  made.key.permits = count;
  made.key.capacity = capacity;
  return made;
}

using Queue = std::vector<QueueEntry>;

Decision ask(const Queue& queue, std::uint64_t me, const Record& record = {},
             std::uint64_t record_rev = 0) {
  return decide(queue, id(me), record, record_rev);
}

TEST(QueueTest, TheFirstHoldsAndEachOtherWaitsForTheOneBeforeIt) {
  const Queue queue{exclusive(1), exclusive(2), exclusive(3)};
  EXPECT_EQ(ask(queue, 1).verdict, Verdict::kHolds);
  EXPECT_EQ(ask(queue, 2).verdict, Verdict::kWaits);
  EXPECT_EQ(ask(queue, 2).ahead, 0U);
  EXPECT_EQ(ask(queue, 3).blocker, 1U);
  EXPECT_EQ(ask(queue, 3).ahead, 1U);
  EXPECT_EQ(ask(queue, 4).verdict, Verdict::kGone);
}

TEST(QueueTest, ReadersBehindAWriterAllWaitForIt) {
  const Queue queue{shared(1), shared(2), exclusive(3), shared(4), shared(5)};
  EXPECT_EQ(ask(queue, 2).verdict, Verdict::kHolds);
  EXPECT_EQ(ask(queue, 3).blocker, 1U);
  EXPECT_EQ(ask(queue, 4).blocker, 2U);
  EXPECT_EQ(ask(queue, 5).blocker, 2U);
  EXPECT_EQ(ask(queue, 5).ahead, 2U);
}

TEST(QueueTest, AReaderLooksWhetherTheHeadWasWeakened) {
  EXPECT_EQ(ask({exclusive(1), shared(2)}, 2).verdict, Verdict::kLook);
  EXPECT_EQ(ask({read(1), shared(2)}, 2).verdict, Verdict::kWaits);
  EXPECT_EQ(ask({weakened(1), shared(2)}, 2).verdict, Verdict::kHolds);
  EXPECT_EQ(ask({weakened(1), exclusive(2)}, 2).verdict, Verdict::kWaits);
}

TEST(QueueTest, AnUnreadHeadMattersToWhoCountsTheReadersNextToIt) {
  EXPECT_EQ(unread_head(Queue{exclusive(1), shared(2), exclusive(3)}, id(3)), 0U);
  EXPECT_EQ(unread_head(Queue{upgrade(9, 8), exclusive(1), shared(2), shared(3)}, id(3)), 1U);
  EXPECT_FALSE(unread_head(Queue{weakened(1), shared(2), exclusive(3)}, id(3)));
  EXPECT_FALSE(unread_head(Queue{read(1), shared(2), exclusive(3)}, id(3)));
  EXPECT_FALSE(unread_head(Queue{exclusive(1), exclusive(2), shared(3)}, id(3)));
  EXPECT_FALSE(unread_head(Queue{exclusive(1), exclusive(3), shared(4)}, id(3)));
  EXPECT_FALSE(unread_head(Queue{shared(1), shared(2), exclusive(3)}, id(3)));
  EXPECT_FALSE(unread_head(Queue{exclusive(1), shared(2)}, id(1)));
  EXPECT_EQ(waiting_before(Queue{weakened(1), shared(2), exclusive(3)}, id(3), {}, 0), 0U);
}

TEST(QueueTest, PermitsAreAdmittedWithinTheirSum) {
  const Queue queue{permits(1, 2, 5), permits(2, 3, 5), permits(3, 1, 5), permits(4, 1, 5)};
  EXPECT_EQ(ask(queue, 2).verdict, Verdict::kHolds);
  EXPECT_EQ(ask(queue, 3).verdict, Verdict::kWaitsForAny);
  EXPECT_EQ(ask(queue, 4).verdict, Verdict::kWaits);
  EXPECT_EQ(ask(queue, 4).blocker, 2U);
}

TEST(QueueTest, ALargeRequestIsNotOvertakenBySmallOnes) {
  const Queue queue{permits(1, 1, 3), permits(2, 3, 3), permits(3, 1, 3)};
  EXPECT_EQ(ask(queue, 2).verdict, Verdict::kWaitsForAny);
  EXPECT_EQ(ask(queue, 3).verdict, Verdict::kWaits);
}

// Each of `tries` said that it would not wait; the others wait, or hold, in earnest.
std::optional<std::size_t> doubt(Queue queue, std::uint64_t me,
                                 const std::vector<std::size_t>& tries) {
  for (QueueEntry& each : queue) each.details.emplace();
  for (const std::size_t i : tries) queue[i].details->attempt = true;
  return in_doubt(queue, id(me), {}, 0, ask(queue, me));
}

TEST(QueueTest, ATryOfPermitsIsBusyOnlyBecauseOfThoseWhoHoldOrWaitInEarnest) {
  const Queue queue{permits(1, 2, 3), permits(2, 2, 3), permits(3, 1, 3)};
  EXPECT_EQ(doubt(queue, 3, {}), std::nullopt) << "the second waits for the first";
  EXPECT_EQ(doubt(queue, 3, {0}), 0U) << "the second waits for a try, and both may hold soon";
  EXPECT_EQ(doubt({permits(1, 3, 3), permits(2, 1, 3)}, 2, {0}), 0U);
  EXPECT_EQ(doubt({permits(1, 1, 3), permits(2, 3, 3), permits(3, 1, 3)}, 3, {0}), std::nullopt)
      << "the second takes all, whatever becomes of the first";
}

TEST(QueueTest, AnotherKindOrAnotherNumberIsAMismatch) {
  EXPECT_EQ(ask({exclusive(1), permits(2, 1, 2)}, 2).verdict, Verdict::kMismatch);
  EXPECT_EQ(ask({permits(1, 1, 2), shared(2)}, 2).verdict, Verdict::kMismatch);
  EXPECT_EQ(ask({permits(1, 1, 2), permits(2, 1, 3)}, 2).verdict, Verdict::kMismatch);
  EXPECT_EQ(ask({permits(1, 4, 3)}, 1).verdict, Verdict::kTooLarge);
}

TEST(QueueTest, AChangedNumberGoesWhileSomebodyOfBeforeIsTheHead) {
  Record record;
  record.capacity = 2;
  EXPECT_EQ(ask({permits(1, 1, 5), permits(7, 1, 2)}, 7, record, 6).verdict, Verdict::kHolds);
  EXPECT_EQ(ask({permits(1, 1, 5), permits(7, 1, 5)}, 7, record, 6).verdict, Verdict::kMismatch);
  EXPECT_EQ(ask({permits(7, 1, 5), permits(8, 1, 5)}, 8, record, 6).verdict, Verdict::kHolds);
  // An entry from before the change asks for the old number, and stays.
  EXPECT_EQ(ask({permits(1, 2, 5), permits(2, 1, 5)}, 2, record, 6).verdict, Verdict::kWaitsForAny);
  Queue unread{permits(1, 1, 5), permits(7, 1, 2)};
  unread[0].created = 0;
  EXPECT_EQ(ask(unread, 7, record, 6).verdict, Verdict::kLook);
}

TEST(QueueTest, AnUpgradePassesTheWaitersAndWaitsForTheReaders) {
  const Queue queue{shared(1), shared(2), exclusive(3), upgrade(4, 1)};
  EXPECT_EQ(ask(queue, 4).verdict, Verdict::kWaits);
  EXPECT_EQ(ask(queue, 4).blocker, 1U);
  EXPECT_EQ(ask({shared(1), exclusive(3), upgrade(4, 1)}, 4).verdict, Verdict::kHoldsIfSettled);
}

TEST(QueueTest, AnUpgradeThatTheRecordNamesHoldsWithItsReaderAlone) {
  Record record;
  record.upgrade = id(4);
  const Queue queue{shared(1), shared(3), upgrade(4, 1)};
  EXPECT_EQ(ask(queue, 4, record, 5).verdict, Verdict::kHolds);
  EXPECT_EQ(ask(queue, 3, record, 5).verdict, Verdict::kWaits);
  EXPECT_EQ(ask(queue, 3, record, 5).blocker, 2U);
  EXPECT_EQ(holders(queue, record, 5), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(ask({shared(3), upgrade(4, 1)}, 3, record, 5).verdict, Verdict::kHolds);
}

TEST(QueueTest, AReaderBesideAnUpgradeThatWaitsWritesTheRecordFirst) {
  const Queue queue{shared(1), shared(3), upgrade(4, 1)};
  EXPECT_EQ(ask(queue, 3).verdict, Verdict::kHoldsIfSettled);
  EXPECT_EQ(ask(queue, 4).verdict, Verdict::kWaits);
}

TEST(QueueTest, TheSecondUpgradeWouldDeadlockAndAnOrphanIsGone) {
  EXPECT_EQ(ask({shared(1), shared(2), upgrade(3, 1), upgrade(4, 2)}, 4).verdict,
            Verdict::kWouldDeadlock);
  EXPECT_EQ(ask({shared(2), upgrade(3, 1)}, 3).verdict, Verdict::kGone);
  EXPECT_EQ(ask({upgrade(3, 1), exclusive(4)}, 4).verdict, Verdict::kHolds);
}

TEST(QueueTest, NewReadersWaitBehindAnUpgrade) {
  const Decision decision = ask({shared(1), shared(2), upgrade(3, 1), shared(4)}, 4);
  EXPECT_EQ(decision.verdict, Verdict::kWaits);
  EXPECT_EQ(decision.blocker, 2U);
}

TEST(QueueTest, AnUpgradeThatHoldsIsNotAheadOfOthersThatWait) {
  Record record;
  record.upgrade = id(3);
  const Queue queue{shared(1), exclusive(2), upgrade(3, 1), exclusive(4), shared(5)};
  EXPECT_EQ(ask(queue, 4, record, 5).ahead, 1U);
  EXPECT_EQ(ask(queue, 5, record, 5).ahead, 2U);
}

TEST(QueueTest, AnUpgradeCountsThoseWhomItPasses) {
  const Queue queue{shared(1), shared(2), exclusive(3), upgrade(4, 1)};
  EXPECT_EQ(ask(queue, 4).ahead, 0U);
  EXPECT_EQ(waiting_before(queue, id(4), {}, 0), 1U);
  EXPECT_EQ(waiting_before(queue, id(5), {}, 0), 0U);
}

TEST(QueueTest, ATokenOfBeforeTheRecordsLastWriteNeedsAMark) {
  Details details;
  EXPECT_EQ(token_at_grant(details, 5, 5, 3), (machine::Token{0, 5}));
  EXPECT_FALSE(token_at_grant(details, 5, 5, 7));
  details.marked = true;
  EXPECT_EQ(token_at_grant(details, 5, 9, 7), (machine::Token{0, 9}));
  details.token = 9;
  EXPECT_EQ(token_of(details, 5, 12), (machine::Token{0, 9}));
}

TEST(QueueTest, WhatIsVoidIsNotCarriedOn) {
  Record record;
  record.upgrade = id(4);
  record.capacity = 2;
  const Record kept = still_valid(Queue{permits(7, 1, 5)}, record, 6);
  EXPECT_FALSE(kept.upgrade);
  EXPECT_FALSE(kept.capacity);
  EXPECT_TRUE(still_valid(Queue{permits(5, 1, 5)}, record, 6).capacity);
}

}  // namespace
}  // namespace holdfast::contend
