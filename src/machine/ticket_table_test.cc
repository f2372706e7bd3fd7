#include "src/machine/ticket_table.h"

#include <vector>

#include <gtest/gtest.h>

#include "src/machine/machine_test_support.h"

namespace holdfast::machine {
namespace {

class TicketTableTest : public ::testing::Test {
 protected:
  TicketIndex add(LockIndex to, std::uint64_t low, Mode mode = Mode::shared()) {
    const TicketIndex added = table.add_ticket(to, {0, low}, mode);
    table.wait(added);
    return added;
  }
  std::vector<std::uint64_t> ids(const List& list) const {
    std::vector<std::uint64_t> ids;
    for (TicketIndex i = list.head; i != kNone; i = table.ticket(i).links.next) {
      ids.push_back(table.ticket(i).id.low);
    }
    return ids;
  }
  using Ids = std::vector<std::uint64_t>;

  TicketTable table{0, 8};
  LockIndex lock = table.add_lock("orders/42");
};

TEST_F(TicketTableTest, ALockIsFoundByItsWholeName) {
  EXPECT_EQ(table.find_lock("orders/42"), lock);
  EXPECT_EQ(table.find_lock("orders/4"), kNone);
  EXPECT_EQ(table.find_lock(std::string_view("orders/42\0", 10)), kNone);
}

TEST_F(TicketTableTest, ARemovedLockLeavesNothingToTheNextInItsSlot) {
  table.lock(lock).make_extras().value = "v";
  table.lock(lock).last_token = {1, 9};
  table.set_pending(lock, true);
  table.set_exhausted(lock, true);
  table.remove_lock(lock);
  EXPECT_EQ(table.find_lock("orders/42"), kNone);
  EXPECT_TRUE(table.pending().empty());
  EXPECT_TRUE(table.exhausted().empty());
  const LockIndex next = table.add_lock("other");
  EXPECT_EQ(next, lock);
  EXPECT_TRUE(table.lock(next).idle());
  EXPECT_EQ(table.lock(next).last_token, Token{});
  EXPECT_EQ(table.lock_count(), 1U);
}

TEST_F(TicketTableTest, TicketsLineUpInOrder) {
  add(lock, 5);
  add(lock, 3);
  add(lock, 4);
  EXPECT_EQ(ids(table.lock(lock).extras().waiters), (Ids{5, 3, 4}));
  EXPECT_EQ(table.ticket(table.find_ticket(lock, {0, 4})).order, 3U);
}

TEST_F(TicketTableTest, TicketsLeaveFromTheHeadTheMiddleAndTheTail) {
  const TicketIndex a = add(lock, 1);
  const TicketIndex b = add(lock, 2);
  const TicketIndex c = add(lock, 3);
  const TicketIndex d = add(lock, 4);
  table.remove_ticket(b);
  EXPECT_EQ(ids(table.lock(lock).extras().waiters), (Ids{1, 3, 4}));
  table.remove_ticket(a);
  EXPECT_EQ(ids(table.lock(lock).extras().waiters), (Ids{3, 4}));
  table.remove_ticket(d);
  EXPECT_EQ(ids(table.lock(lock).extras().waiters), Ids{3});
  table.remove_ticket(c);
  EXPECT_EQ(table.lock(lock).extras().waiters.tail, kNone);
  EXPECT_EQ(table.lock(lock).extras().waiters.count, 0U);
  EXPECT_EQ(table.ticket_count(), 0U);
}

TEST_F(TicketTableTest, HoldersAreCountedAndStandInOrderOfGrant) {
  const TicketIndex a = add(lock, 1);
  const TicketIndex b = add(lock, 2);
  table.hold(b);
  table.hold(a);
  EXPECT_EQ(ids(table.lock(lock).holders), (Ids{2, 1}));
  EXPECT_EQ(table.lock(lock).held.shared, 2U);
  table.remove_ticket(b);
  EXPECT_EQ(table.lock(lock).held.shared, 1U);
  EXPECT_EQ(ids(table.lock(lock).holders), Ids{1});
}

TEST_F(TicketTableTest, AWeakenedHolderCountsAsShared) {
  const TicketIndex a = add(lock, 1, Mode::exclusive());
  table.hold(a);
  table.weaken(a);
  EXPECT_EQ(table.lock(lock).held.exclusive, 0U);
  EXPECT_EQ(table.lock(lock).held.shared, 1U);
  EXPECT_EQ(table.mode_of(table.ticket(a)), Mode::shared());
}

TEST_F(TicketTableTest, ATicketCarriesItsLocksCapacity) {
  table.lock(lock).capacity = 7;
  const TicketIndex a = add(lock, 1, Mode::of_permits(2, 7));
  table.lock(lock).capacity = 9;
  EXPECT_EQ(table.mode_of(table.ticket(a)), Mode::of_permits(2, 9));
}

TEST_F(TicketTableTest, RemovingAnUpgradeOrAShrinkUnlinksIt) {
  const TicketIndex base = add(lock, 1);
  const TicketIndex upgrade = add(lock, 2, Mode::exclusive());
  table.hold(base);
  table.link_upgrade(upgrade, base);
  EXPECT_EQ(table.lock(lock).extras().upgrade, upgrade);
  table.remove_ticket(upgrade);
  EXPECT_EQ(table.lock(lock).extras().upgrade, kNone);
  const TicketIndex shrink = add(lock, 3);
  table.mark_system(shrink);
  EXPECT_EQ(table.lock(lock).extras().shrink, shrink);
  table.remove_ticket(shrink);
  EXPECT_EQ(table.lock(lock).extras().shrink, kNone);
}

TEST_F(TicketTableTest, TheEarliestLeaseIsOnTopAndGoesWithItsTicket) {
  const TicketIndex a = add(lock, 1);
  const TicketIndex b = add(lock, 2);
  table.set_end(a, at(10));
  table.set_end(b, at(20));
  EXPECT_EQ(table.ticket_ends().top(), a);
  table.set_end(a, at(30));
  EXPECT_EQ(table.ticket_ends().top(), b);
  table.remove_ticket(b);
  EXPECT_EQ(table.ticket_ends().top(), a);
  EXPECT_EQ(table.end_of(a), at(30));
  table.remove_ticket(a);
  EXPECT_TRUE(table.ticket_ends().empty());
}

TEST_F(TicketTableTest, OneIdInTwoLocksIsTwoTickets) {
  const LockIndex other = table.add_lock("other");
  const TicketIndex a = add(lock, 1);
  const TicketIndex b = add(other, 1);
  EXPECT_EQ(table.find_ticket(lock, {0, 1}), a);
  EXPECT_EQ(table.find_ticket(other, {0, 1}), b);
  table.remove_ticket(a);
  EXPECT_EQ(table.find_ticket(lock, {0, 1}), kNone);
  EXPECT_EQ(table.find_ticket(other, {0, 1}), b);
}

// Few tickets are found by a walk, many by the index; the change is at the fifth.
TEST_F(TicketTableTest, TicketsAreFoundWhileTheirNumberGrowsAndFalls) {
  constexpr std::uint64_t kTickets = 12;
  const auto expect_found = [&](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t low = 1; low <= kTickets; ++low) {
      const TicketIndex found = table.find_ticket(lock, {0, low});
      ASSERT_EQ(found != kNone, first <= low && low <= last) << low;
      if (found != kNone) {
        ASSERT_EQ(table.ticket(found).id.low, low);
      }
    }
  };
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t low = 1; low <= kTickets; ++low) {
      const TicketIndex added = add(lock, low);
      if (low % 2 == 0) table.hold(added);
      expect_found(1, low);
    }
    for (std::uint64_t low = 1; low <= kTickets; ++low) {
      table.remove_ticket(table.find_ticket(lock, {0, low}));
      expect_found(low + 1, kTickets);
    }
    EXPECT_EQ(table.indexed_count(), 0U);
  }
}

TEST_F(TicketTableTest, ATicketMayHoldWithoutHavingWaited) {
  std::vector<TicketIndex> added;
  for (std::uint64_t low = 1; low <= 9; ++low) {
    added.push_back(table.add_ticket(lock, {0, low}, Mode::shared()));
  }
  for (const TicketIndex index : added) table.hold(index);
  EXPECT_EQ(ids(table.lock(lock).holders), (Ids{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(table.lock(lock).ticket_count(), 9U);
  for (const TicketIndex index : added) {
    EXPECT_EQ(table.find_ticket(lock, table.ticket(index).id), index);
  }
}

TEST_F(TicketTableTest, EqualEndsAreOrderedByTheWholeIdThenByName) {
  const LockIndex other = table.add_lock("a name before the other");
  const std::uint64_t high = 7ULL << 32U;
  const std::vector<TicketIndex> expected = {
      table.add_ticket(lock, {6ULL << 32U, 9}, Mode::shared()),
      table.add_ticket(lock, {high, 5}, Mode::shared()),
      table.add_ticket(other, {high + 1, 2}, Mode::shared()),
      table.add_ticket(lock, {high + 1, 2}, Mode::shared()),
      table.add_ticket(lock, {high + 1, 3}, Mode::shared()),
  };
  for (auto at_end = expected.rbegin(); at_end != expected.rend(); ++at_end) {
    table.wait(*at_end);
    table.set_end(*at_end, at(10));
  }
  for (const TicketIndex index : expected) {
    EXPECT_EQ(table.ticket_ends().top(), index);
    table.remove_ticket(index);
  }
}

TEST_F(TicketTableTest, TombstonesLeaveFromAnyPlace) {
  for (const std::uint64_t leaves : {1U, 2U, 3U}) {
    for (const std::uint64_t low : {1U, 2U, 3U}) table.add_tombstone(lock, {0, low}, at(10));
    table.remove_tombstone(table.find_tombstone(lock, {0, leaves}));
    std::vector<std::uint64_t> left;
    for (TombstoneIndex i = table.lock(lock).tombstones; i != kNone;
         i = table.tombstone(i).links.next) {
      left.insert(left.begin(), table.tombstone(i).id.low);
    }
    Ids expected = {1, 2, 3};
    std::erase(expected, leaves);
    EXPECT_EQ(left, expected);
    while (table.lock(lock).tombstones != kNone) {
      table.remove_tombstone(table.lock(lock).tombstones);
    }
    EXPECT_TRUE(table.lock(lock).idle());
  }
}

TEST_F(TicketTableTest, TombstonesAreFoundMovedAndRemoved) {
  EXPECT_EQ(table.find_tombstone(lock, {0, 1}), kNone);
  const TombstoneIndex a = table.add_tombstone(lock, {0, 1}, at(10));
  const TombstoneIndex b = table.add_tombstone(lock, {0, 2}, at(20));
  EXPECT_EQ(table.find_tombstone(lock, {0, 1}), a);
  EXPECT_EQ(table.tombstone_ends().top(), a);
  table.set_until(a, at(30));
  EXPECT_EQ(table.until_of(a), at(30));
  EXPECT_EQ(table.tombstone_ends().top(), b);
  table.remove_tombstone(b);
  EXPECT_EQ(table.lock(lock).tombstones, a);
  EXPECT_FALSE(table.lock(lock).idle());
  table.remove_tombstone(a);
  EXPECT_TRUE(table.lock(lock).idle());
  EXPECT_EQ(table.find_tombstone(lock, {0, 1}), kNone);
}

TEST_F(TicketTableTest, PendingLocksAreOrderedByName) {
  for (const char* name : {"c", "a", "b"}) table.set_pending(table.add_lock(name), true);
  std::vector<std::string_view> order;
  for (const TicketTable::Named& named : table.pending()) order.push_back(named.name);
  EXPECT_EQ(order, (std::vector<std::string_view>{"a", "b", "c"}));
  table.set_pending(table.find_lock("b"), false);
  table.set_pending(table.find_lock("b"), false);
  EXPECT_EQ(table.pending().size(), 2U);
}

}  // namespace
}  // namespace holdfast::machine
