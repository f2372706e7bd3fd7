#include "src/machine/book.h"

#include <vector>

#include <gtest/gtest.h>

#include "src/machine/machine_test_support.h"

namespace holdfast::machine {
namespace {

class BookTest : public ::testing::Test {
 protected:
  TicketIndex add(LockIndex to, std::uint64_t low, Mode mode = Mode::shared()) {
    return book.add_ticket(to, {0, low}, mode);
  }
  std::vector<std::uint64_t> ids(const List& list) const {
    std::vector<std::uint64_t> ids;
    for (TicketIndex i = list.head; i != kNone; i = book.ticket(i).links.next) {
      ids.push_back(book.ticket(i).id.low);
    }
    return ids;
  }
  using Ids = std::vector<std::uint64_t>;

  Book book{0, 8};
  LockIndex lock = book.add_lock("orders/42");
};

TEST_F(BookTest, ALockIsFoundByItsWholeName) {
  EXPECT_EQ(book.find_lock("orders/42"), lock);
  EXPECT_EQ(book.find_lock("orders/4"), kNone);
  EXPECT_EQ(book.find_lock(std::string_view("orders/42\0", 10)), kNone);
}

TEST_F(BookTest, ARemovedLockLeavesNothingToTheNextInItsSlot) {
  book.lock(lock).value = "v";
  book.lock(lock).last_token = {1, 9};
  book.set_pending(lock, true);
  book.set_exhausted(lock, true);
  book.remove_lock(lock);
  EXPECT_EQ(book.find_lock("orders/42"), kNone);
  EXPECT_TRUE(book.pending().empty());
  EXPECT_TRUE(book.exhausted().empty());
  const LockIndex next = book.add_lock("other");
  EXPECT_EQ(next, lock);
  EXPECT_TRUE(book.lock(next).idle());
  EXPECT_EQ(book.lock(next).last_token, Token{});
  EXPECT_EQ(book.lock_count(), 1U);
}

TEST_F(BookTest, TicketsLineUpInOrder) {
  add(lock, 5);
  add(lock, 3);
  add(lock, 4);
  EXPECT_EQ(ids(book.lock(lock).waiters), (Ids{5, 3, 4}));
  EXPECT_EQ(book.ticket(book.find_ticket(lock, {0, 4})).order, 3U);
}

TEST_F(BookTest, TicketsLeaveFromTheHeadTheMiddleAndTheTail) {
  const TicketIndex a = add(lock, 1);
  const TicketIndex b = add(lock, 2);
  const TicketIndex c = add(lock, 3);
  const TicketIndex d = add(lock, 4);
  book.remove_ticket(b);
  EXPECT_EQ(ids(book.lock(lock).waiters), (Ids{1, 3, 4}));
  book.remove_ticket(a);
  EXPECT_EQ(ids(book.lock(lock).waiters), (Ids{3, 4}));
  book.remove_ticket(d);
  EXPECT_EQ(ids(book.lock(lock).waiters), Ids{3});
  book.remove_ticket(c);
  EXPECT_EQ(book.lock(lock).waiters.tail, kNone);
  EXPECT_EQ(book.lock(lock).waiters.count, 0U);
  EXPECT_EQ(book.ticket_count(), 0U);
}

TEST_F(BookTest, HoldersAreCountedAndStandInOrderOfGrant) {
  const TicketIndex a = add(lock, 1);
  const TicketIndex b = add(lock, 2);
  book.hold(b);
  book.hold(a);
  EXPECT_EQ(ids(book.lock(lock).holders), (Ids{2, 1}));
  EXPECT_EQ(book.lock(lock).held.shared, 2U);
  book.remove_ticket(b);
  EXPECT_EQ(book.lock(lock).held.shared, 1U);
  EXPECT_EQ(ids(book.lock(lock).holders), Ids{1});
}

TEST_F(BookTest, AWeakenedHolderCountsAsShared) {
  const TicketIndex a = add(lock, 1, Mode::exclusive());
  book.hold(a);
  book.weaken(a);
  EXPECT_EQ(book.lock(lock).held.exclusive, 0U);
  EXPECT_EQ(book.lock(lock).held.shared, 1U);
  EXPECT_EQ(book.mode_of(book.ticket(a)), Mode::shared());
}

TEST_F(BookTest, ATicketCarriesItsLocksCapacity) {
  book.lock(lock).capacity = 7;
  const TicketIndex a = add(lock, 1, Mode::of_permits(2, 7));
  book.lock(lock).capacity = 9;
  EXPECT_EQ(book.mode_of(book.ticket(a)), Mode::of_permits(2, 9));
}

TEST_F(BookTest, RemovingAnUpgradeOrAShrinkUnlinksIt) {
  const TicketIndex base = add(lock, 1);
  const TicketIndex upgrade = add(lock, 2, Mode::exclusive());
  book.hold(base);
  book.link_upgrade(upgrade, base);
  EXPECT_EQ(book.lock(lock).upgrade, upgrade);
  book.remove_ticket(upgrade);
  EXPECT_EQ(book.lock(lock).upgrade, kNone);
  const TicketIndex shrink = add(lock, 3);
  book.mark_system(shrink);
  EXPECT_EQ(book.lock(lock).shrink, shrink);
  book.remove_ticket(shrink);
  EXPECT_EQ(book.lock(lock).shrink, kNone);
}

TEST_F(BookTest, TheEarliestLeaseIsOnTopAndGoesWithItsTicket) {
  const TicketIndex a = add(lock, 1);
  const TicketIndex b = add(lock, 2);
  book.set_end(a, at(10));
  book.set_end(b, at(20));
  EXPECT_EQ(book.ticket_ends().top(), a);
  book.set_end(a, at(30));
  EXPECT_EQ(book.ticket_ends().top(), b);
  book.remove_ticket(b);
  EXPECT_EQ(book.ticket_ends().top(), a);
  EXPECT_EQ(book.ticket(a).lease_end, at(30));
  book.remove_ticket(a);
  EXPECT_TRUE(book.ticket_ends().empty());
}

TEST_F(BookTest, OneIdInTwoLocksIsTwoTickets) {
  const LockIndex other = book.add_lock("other");
  const TicketIndex a = add(lock, 1);
  const TicketIndex b = add(other, 1);
  EXPECT_EQ(book.find_ticket(lock, {0, 1}), a);
  EXPECT_EQ(book.find_ticket(other, {0, 1}), b);
  book.remove_ticket(a);
  EXPECT_EQ(book.find_ticket(lock, {0, 1}), kNone);
  EXPECT_EQ(book.find_ticket(other, {0, 1}), b);
}

TEST_F(BookTest, TombstonesAreFoundMovedAndRemoved) {
  EXPECT_EQ(book.find_tombstone(lock, {0, 1}), kNone);
  const TombstoneIndex a = book.add_tombstone(lock, {0, 1}, at(10));
  const TombstoneIndex b = book.add_tombstone(lock, {0, 2}, at(20));
  EXPECT_EQ(book.find_tombstone(lock, {0, 1}), a);
  EXPECT_EQ(book.tombstone_ends().top(), a);
  book.set_until(a, at(30));
  EXPECT_EQ(book.until_of(a), at(30));
  EXPECT_EQ(book.tombstone_ends().top(), b);
  book.remove_tombstone(b);
  EXPECT_EQ(book.lock(lock).tombstones.count, 1U);
  EXPECT_FALSE(book.lock(lock).idle());
  book.remove_tombstone(a);
  EXPECT_TRUE(book.lock(lock).idle());
  EXPECT_EQ(book.find_tombstone(lock, {0, 1}), kNone);
}

TEST_F(BookTest, PendingLocksAreOrderedByName) {
  for (const char* name : {"c", "a", "b"}) book.set_pending(book.add_lock(name), true);
  std::vector<std::string_view> order;
  for (const Book::Named& named : book.pending()) order.push_back(named.name);
  EXPECT_EQ(order, (std::vector<std::string_view>{"a", "b", "c"}));
  book.set_pending(book.find_lock("b"), false);
  book.set_pending(book.find_lock("b"), false);
  EXPECT_EQ(book.pending().size(), 2U);
}

}  // namespace
}  // namespace holdfast::machine
