#include "src/session/reports/watch_sampler.h"

#include <algorithm>

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
  for (const HolderInfo& one : holders) out.last_token = std::max(out.last_token, one.token);
  out.holders = std::move(holders);
  out.waiters = std::move(waiters);
  return out;
}

TEST(WatchDifferencesTest, NothingChangedIsNothingTold) {
  const std::vector<LockInfo> same = {lock({holder("a", 1)}, {waiter("b")})};
  EXPECT_TRUE(differences(same, same, 200ms).empty());
}

TEST(WatchDifferencesTest, AHandoffIsAReleaseThenAGrant) {
  const auto events =
      differences({lock({holder("a", 1)}, {waiter("b")})}, {lock({holder("b", 2)})}, 200ms);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].kind, LockEventKind::kReleased);
  EXPECT_EQ(events[0].token, (Token{0, 1}));
  EXPECT_EQ(events[1].kind, LockEventKind::kGranted);
  EXPECT_EQ(events[1].who.owner, "b");
}

TEST(WatchDifferencesTest, TheSameOwnerAgainIsANewGrant) {
  const auto events = differences({lock({holder("a", 1)})}, {lock({holder("a", 5)})}, 200ms);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].token, (Token{0, 5}));
}

TEST(WatchDifferencesTest, ALeaseThatWasAboutToEndExpired) {
  const auto events = differences({lock({holder("a", 1, 100ms)})}, {}, 200ms);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, LockEventKind::kExpired);
}

TEST(WatchDifferencesTest, ALeaseThatEndedWhileNobodyCouldLookExpired) {
  const std::vector<LockInfo> before = {lock({holder("a", 1, 2s)})};
  LockInfo after = lock({});
  after.last_token = {0, 1};
  const auto kind = [&](std::chrono::milliseconds since) {
    return differences(before, {after}, since).at(0).kind;
  };
  EXPECT_EQ(kind(3500ms), LockEventKind::kExpired);
  EXPECT_EQ(kind(1s), LockEventKind::kReleased);
}

TEST(WatchDifferencesTest, WhereNothingIsLeftOfAFreeLockItWasReleased) {
  const auto events = differences({lock({holder("a", 7)})}, {}, 200ms, /*keeps_last_token=*/false);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, LockEventKind::kReleased);
}

TEST(WatchDifferencesTest, WhatTheStoreForgotWasNotReleased) {
  const std::vector<LockInfo> before = {lock({holder("a", 7)})};
  LockInfo anew = lock({});
  anew.last_token = {0, 3};
  for (const std::vector<LockInfo>& after : {std::vector<LockInfo>(), {anew}}) {
    const auto events = differences(before, after, 200ms);
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0].kind, LockEventKind::kForgotten);
  }
}

TEST(WatchDifferencesTest, ABreakIsKnownByItsTrace) {
  LockInfo after = lock({});
  after.last_break = BreakInfo{{0, 1}, {}};
  const auto events = differences({lock({holder("a", 1)})}, {after}, 200ms);
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
      differences({lock({holder("a", 1)})}, {lock({holder("a", 1)}, {waiter("b")})}, 200ms);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, LockEventKind::kQueued);
}

}  // namespace
}  // namespace holdfast::session
