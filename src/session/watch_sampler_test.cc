#include "src/session/watch_sampler.h"

#include <gtest/gtest.h>

namespace holdfast::session {
namespace {

using namespace std::chrono_literals;

HolderInfo holder(const std::string& owner, std::uint64_t token,
                  std::chrono::milliseconds left = 10s) {
  HolderInfo out;
  out.who.owner = owner;
  out.token = {0, token};
  out.time_left = left;
  return out;
}

WaiterInfo waiter(const std::string& owner) {
  WaiterInfo out;
  out.who.owner = owner;
  return out;
}

LockInfo lock(std::vector<HolderInfo> holders, std::vector<WaiterInfo> waiters = {}) {
  LockInfo out;
  out.name = "n";
  out.holders = std::move(holders);
  out.waiters = std::move(waiters);
  return out;
}

TEST(WatchDifferencesTest, NothingChangedIsNothingTold) {
  const std::vector<LockInfo> same = {lock({holder("a", 1)}, {waiter("b")})};
  EXPECT_TRUE(differences(same, same).empty());
}

TEST(WatchDifferencesTest, AHandOffIsAReleaseThenAGrant) {
  const auto events =
      differences({lock({holder("a", 1)}, {waiter("b")})}, {lock({holder("b", 2)})});
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].kind, LockEventKind::kReleased);
  EXPECT_EQ(events[0].token, (Token{0, 1}));
  EXPECT_EQ(events[1].kind, LockEventKind::kGranted);
  EXPECT_EQ(events[1].who.owner, "b");
}

TEST(WatchDifferencesTest, TheSameOwnerAgainIsANewGrant) {
  const auto events = differences({lock({holder("a", 1)})}, {lock({holder("a", 5)})});
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].token, (Token{0, 5}));
}

TEST(WatchDifferencesTest, ALeaseThatWasAboutToEndExpired) {
  const auto events = differences({lock({holder("a", 1, 100ms)})}, {});
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, LockEventKind::kExpired);
}

TEST(WatchDifferencesTest, ABreakIsKnownByItsTrace) {
  LockInfo after = lock({});
  after.last_break = BreakInfo{{0, 1}, {}};
  const auto events = differences({lock({holder("a", 1)})}, {after});
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, LockEventKind::kBroken);
}

TEST(WatchDifferencesTest, OnlyHoldersThatVanishedWithTheirLockNeedItsTrace) {
  LockInfo gone = lock({holder("a", 1)});
  gone.name = "gone";
  LockInfo left = lock({}, {waiter("b")});
  left.name = "left";
  const std::vector<LockInfo> before = {gone, left, lock({holder("c", 2)})};
  EXPECT_EQ(without_trace(before, {lock({holder("d", 3)})}), std::vector<std::string>{"gone"});
}

TEST(WatchDifferencesTest, ANewWaiterIsTold) {
  const auto events =
      differences({lock({holder("a", 1)})}, {lock({holder("a", 1)}, {waiter("b")})});
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, LockEventKind::kQueued);
}

}  // namespace
}  // namespace holdfast::session
