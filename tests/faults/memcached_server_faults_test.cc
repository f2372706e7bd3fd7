// Faults of a real memcached and of its clients' processes, seen through the public library.
#include <chrono>
#include <future>
#include <string>

#include <gtest/gtest.h>

#include "src/stores/memcached/protocol/replies.h"
#include "tests/faults/dead_waiters.h"
#include "tests/faults/server_cases.h"
#include "tests/support/clock_shift.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/memcached_server.h"

namespace holdfast::faults {
namespace {

using support::Direction;
using support::Fault;
using support::FaultProxy;
using support::MemcachedServer;

class MemcachedServerFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_MEMCACHED(); }
};

TEST_F(MemcachedServerFaultsTest, AHolderThatIsCutOffIsToldBeforeAnotherHolds) {
  const MemcachedServer server;
  FaultProxy proxy({.server_port = server.port()});
  const Client one = connect("memcached://127.0.0.1:" + std::to_string(proxy.port()));
  const Client two = connect(server.url());
  expect_told_before_another_holds(
      one, two,
      [&] {
        proxy.add({.kind = Fault::Kind::kBlackhole});
        proxy.add({.kind = Fault::Kind::kBlackhole, .direction = Direction::kToClient});
      },
      [&] { proxy.remove_all(); });
}

TEST_F(MemcachedServerFaultsTest, WhenTheHolderIsKilledTenWaitersFollowInOrder) {
  const MemcachedServer server;
  expect_ten_waiters_to_follow_a_killed_holder(server.url());
}

TEST_F(MemcachedServerFaultsTest, ThirtyTwoProcessesOnOneNameSeeNoError) {
  const MemcachedServer server;
  expect_32_processes_to_see_no_error(server.url("connect_timeout=30s"));
}

TEST_F(MemcachedServerFaultsTest, AJumpOfTheClientsClockChangesNothing) {
  const MemcachedServer server;
  expect_a_clients_clock_to_change_nothing(server.url());
}

TEST_F(MemcachedServerFaultsTest, AJumpOfTheServersClockChangesNothing) {
  support::ClockShift clock;
  clock.set(10h);
  const MemcachedServer server({}, clock.path());
  // It looks at that clock when it starts, and shows it for as long as it runs.
  const auto shown = std::chrono::seconds(server.stat("time"));
  EXPECT_GT(shown, std::chrono::system_clock::now().time_since_epoch() + 9h);
  const Client one = connect(server.url());
  const Client two = connect(server.url());
  Lease lease = hold_for(one, "a", 1s);
  auto waiting = wait_for(two, "a");
  for (const auto jump : {20h, -20h}) {
    clock.set(jump);
    EXPECT_FALSE(fires(lease.lost(), 1500ms));
    EXPECT_TRUE(lease.renew());
    EXPECT_EQ(waiting.wait_for(0s), std::future_status::timeout) << "two hold it";
  }
  expect_released(lease);
  EXPECT_TRUE(waiting.get());
}

// A document of a later version is not taken for a free lock, nor written over.
TEST_F(MemcachedServerFaultsTest, ALaterFormatIsToldByName) {
  const MemcachedServer server;
  const Client client = connect(server.url());
  const std::string key = stores::memcached::key_of("a");
  const std::string later = "holdfast 2 a";
  server.command("set " + key + " 0 0 " + std::to_string(later.size()) + "\r\n" + later);
  const auto tried = client.mutex("a").try_acquire();
  const auto waited = client.mutex("a").acquire({.wait = kLong});
  for (const Error& error : {tried ? Error(Errc::kLost, "granted") : tried.error(),
                             waited ? Error(Errc::kLost, "granted") : waited.error()}) {
    EXPECT_EQ(error.code(), Errc::kVersionMismatch) << error.message();
  }
  EXPECT_NE(server.command("get " + key).find(later), std::string::npos);
}

class MemcachedDeaths : public ::testing::TestWithParam<Deaths> {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_MEMCACHED(); }
};
TEST_P(MemcachedDeaths, WaitersThatDieCostOneLease) {
  const MemcachedServer server;
  expect_that_dead_waiters_cost_one_lease(server.url(), GetParam().dead);
}
INSTANTIATE_TEST_SUITE_P(Queue, MemcachedDeaths, all_places_of_death(),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace holdfast::faults
