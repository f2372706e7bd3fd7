// Faults around a SQL server, seen through its store: the same demands on each of them.
//
// A test program instantiates SqlFaultsTest with its server:
//
//   struct Place {
//     using UrlSite = UrlSiteOf<&stores::make_postgres_store>;
//     static void need();  // Skips or fails the test where there is no server.
//     static std::uint16_t port();
//     static std::string url_at(std::uint16_t port);
//     static void end_connections();  // Of all clients, at the server.
//     static void kill_and_start();   // The server, with its data.
//   };
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/faults/url_site.h"
#include "tests/support/eventually.h"
#include "tests/support/fault_proxy.h"

namespace holdfast::testing {

using support::Fault;
using support::FaultProxy;

template <typename Place>
class SqlFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override { Place::need(); }
};
TYPED_TEST_SUITE_P(SqlFaultsTest);

inline void expect_free(Client& client, const std::string& name) {
  const auto next = client.acquire(Request(name, fresh()).no_wait());
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_EQ(next->status, AcquisitionStatus::kHeld);
}

TYPED_TEST_P(SqlFaultsTest, AGrantWhoseReplyIsLostIsFoundAgain) {
  FaultProxy proxy({.server_port = TypeParam::port()});
  typename TypeParam::UrlSite site(TypeParam::url_at(proxy.port()));
  Client alice(site, "alice");
  const AcquisitionId id = fresh();
  const int lost =
      proxy.add({.kind = Fault::Kind::kDropReplies, .containing = hex_of(id), .times = 1});
  const auto state = alice.acquire(Request("lost-grant", id));
  ASSERT_TRUE(state) << state.error().message();
  EXPECT_EQ(state->status, AcquisitionStatus::kHeld);
  EXPECT_TRUE(proxy.wait_for_hits(lost));
  EXPECT_EQ(*alice.release("lost-grant", id), EndStatus::kReleased);
}

TYPED_TEST_P(SqlFaultsTest, AReleaseWhoseReplyIsLostReleases) {
  FaultProxy proxy({.server_port = TypeParam::port()});
  typename TypeParam::UrlSite site(TypeParam::url_at(proxy.port()));
  Client alice(site, "alice");
  const AcquisitionId id = fresh();
  ASSERT_TRUE(alice.acquire(Request("lost-release", id)));
  proxy.add({.kind = Fault::Kind::kDropReplies, .containing = hex_of(id), .times = 1});
  const auto end = alice.release("lost-release", id);
  ASSERT_TRUE(end) << end.error().message();
  expect_free(alice, "lost-release");
}

// The waiter holds, although nobody heard that the handoff was committed.
TYPED_TEST_P(SqlFaultsTest, AHandoffWhoseReplyIsLostHandsOn) {
  FaultProxy proxy({.server_port = TypeParam::port()});
  typename TypeParam::UrlSite site(TypeParam::url_at(proxy.port()));
  typename TypeParam::UrlSite straight(TypeParam::url_at(TypeParam::port()));
  Client alice(site, "alice");
  Client bob(straight, "bob");
  const AcquisitionId held = fresh();
  const AcquisitionId waits = fresh();
  const auto before = alice.acquire(Request("lost-handoff", held));
  ASSERT_TRUE(before) << before.error().message();
  ASSERT_EQ(bob.acquire(Request("lost-handoff", waits))->status, AcquisitionStatus::kWaiting);
  proxy.add({.kind = Fault::Kind::kDropReplies, .containing = hex_of(held), .times = 1});
  const auto end = alice.release("lost-handoff", held, /*others_wait=*/true);
  ASSERT_TRUE(end) << end.error().message();
  const auto told = bob.inbox().next(waits);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->kind, Push::Kind::kGranted);
  EXPECT_GT(told->state.token, before->token);
  EXPECT_EQ(*bob.release("lost-handoff", waits), EndStatus::kReleased);
  expect_free(alice, "lost-handoff");
}

// The first request arrives when the acquisition, which a second one got, has long ended.
TYPED_TEST_P(SqlFaultsTest, AGrantThatArrivesAfterTheReleaseChangesNothing) {
  FaultProxy proxy({.server_port = TypeParam::port()});
  typename TypeParam::UrlSite site(TypeParam::url_at(proxy.port()));
  Client alice(site, "alice");
  const AcquisitionId id = fresh();
  const int held = proxy.add({.kind = Fault::Kind::kHold, .containing = hex_of(id), .times = 1});
  const auto state = alice.acquire(Request("late", id));
  ASSERT_TRUE(state) << state.error().message();
  EXPECT_EQ(state->status, AcquisitionStatus::kHeld);
  EXPECT_EQ(*alice.release("late", id), EndStatus::kReleased);
  const auto before = proxy.stats().replies_to_the_gone;
  proxy.remove(held);
  ASSERT_TRUE(proxy.wait_for(
      [&](const support::ProxyStats& stats) { return stats.replies_to_the_gone > before; }));
  const auto seen = alice.inspect("late");
  ASSERT_TRUE(seen);
  EXPECT_TRUE(!*seen || (*seen)->holders.empty());
  expect_free(alice, "late");
}

TYPED_TEST_P(SqlFaultsTest, AnUnreachableServerIsUnavailableInTime) {
  FaultProxy proxy({.server_port = TypeParam::port()});
  typename TypeParam::UrlSite site(TypeParam::url_at(proxy.port()));
  Client alice(site, "alice");
  proxy.refuse(true);
  proxy.reset_all();
  Request request("unreachable", fresh());
  request.deadline = base::BootClock::now() + 1s;
  const auto state = alice.acquire(request);
  ASSERT_FALSE(state);
  EXPECT_TRUE(state.error().code() == Errc::kUnavailable ||
              state.error().code() == Errc::kOutcomeUnknown)
      << state.error().message();
  proxy.refuse(false);
  EXPECT_TRUE(support::eventually([&] {
    const auto again = alice.acquire(Request("reachable", fresh()));
    return again && again->status == AcquisitionStatus::kHeld;
  }));
}

// Nothing of it is the caller's problem, and no lock is left behind.
TYPED_TEST_P(SqlFaultsTest, ConnectionsThatTheServerEndsLoseNothing) {
  typename TypeParam::UrlSite site(TypeParam::url_at(TypeParam::port()));
  std::atomic<bool> over{false};
  std::atomic<int> count{0};
  Client alice(site, "alice");
  Client bob(site, "bob");
  Client carol(site, "carol");
  std::vector<std::thread> users;
  for (Client* each : {&alice, &bob, &carol}) {
    users.emplace_back([&, each] {
      Client& client = *each;
      while (!over) {
        const AcquisitionId id = fresh();
        const auto state = client.acquire(Request("terminated", id).no_wait());
        EXPECT_TRUE(state) << state.error().message();
        const auto end = client.release("terminated", id);
        EXPECT_TRUE(end) << end.error().message();
        if (state && state->status == AcquisitionStatus::kHeld) ++count;
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    const int before = count;
    TypeParam::end_connections();
    EXPECT_TRUE(support::eventually([&] { return count > before + 3; }));
  }
  over = true;
  for (std::thread& user : users) user.join();
  Client last(site, "last");
  expect_free(last, "terminated");
}

TYPED_TEST_P(SqlFaultsTest, AKilledServerForgetsNoGrant) {
  typename TypeParam::UrlSite site(TypeParam::url_at(TypeParam::port()));
  Client alice(site, "alice");
  Client bob(site, "bob");
  const AcquisitionId held = fresh();
  const AcquisitionId waits = fresh();
  const auto before = alice.acquire(Request("killed", held));
  ASSERT_TRUE(before);
  ASSERT_EQ(bob.acquire(Request("killed", waits))->status, AcquisitionStatus::kWaiting);
  TypeParam::kill_and_start();
  ASSERT_TRUE(support::eventually([&] { return alice.renew("killed", held, 1).has_value(); }));
  EXPECT_EQ(alice.renew("killed", held, 2)->status, AcquisitionStatus::kHeld);
  EXPECT_EQ(*alice.release("killed", held), EndStatus::kReleased);
  std::uint64_t seq = 0;
  Token token;
  EXPECT_TRUE(support::eventually([&] {
    const auto state = bob.renew("killed", waits, ++seq);
    if (state) token = state->token;
    return state && state->status == AcquisitionStatus::kHeld;
  }));
  EXPECT_GT(token, before->token);
}

REGISTER_TYPED_TEST_SUITE_P(SqlFaultsTest, AGrantWhoseReplyIsLostIsFoundAgain,
                            AReleaseWhoseReplyIsLostReleases, AHandoffWhoseReplyIsLostHandsOn,
                            AGrantThatArrivesAfterTheReleaseChangesNothing,
                            AnUnreachableServerIsUnavailableInTime,
                            ConnectionsThatTheServerEndsLoseNothing, AKilledServerForgetsNoGrant);

}  // namespace holdfast::testing
