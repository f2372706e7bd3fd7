// The note of a holder to the next one, on a real Consul.
#include <future>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "src/stores/consul/test_party.h"
#include "tests/support/consul_server.h"
#include "tests/support/eventually.h"

namespace holdfast::stores::consul {
namespace {

using support::ConsulServer;
using support::eventually;

class ConsulHandoffTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_CONSUL();
    server_ = std::make_unique<ConsulServer>();
  }
  std::string url() const { return server_->url({{"session", "10s"}}); }
  std::string left() const { return server_->ask("GET", "/v1/kv/holdfast/l/?keys").body; }

  std::unique_ptr<ConsulServer> server_;
};

TEST_F(ConsulHandoffTest, WhoWatchesIsToldByTheOneAnswer) {
  Party alice(url());
  Party bob(url());
  const auto first = alice.enter("orders", 1);
  ASSERT_TRUE(first);
  int woken = 0;
  std::uint64_t token = 0;
  const auto waker = bob.waker(woken, token);
  ASSERT_TRUE(*bob.read("orders", 1, first->created, waker));
  EXPECT_EQ(*alice.handoff("orders", 1, first->created, 77), true);
  EXPECT_TRUE(bob.await([&](Party&) { return token == 77; }));
  EXPECT_EQ(woken, 0);
  EXPECT_EQ(*alice.handoff("orders", 1, first->created, 77), false) << "it is gone";
}

TEST_F(ConsulHandoffTest, WhoGaveUpHandsNothingOn) {
  Party alice(url());
  Party bob(url());
  const auto first = alice.enter("orders", 1);
  ASSERT_TRUE(first);
  ASSERT_TRUE(*alice.handoff("orders", 1, first->created, 77));
  // The name comes again, beside what its last bearer left.
  const auto again = alice.enter("orders", 1);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->listing.queue.size(), 1U);
  int woken = 0;
  std::uint64_t token = 0;
  const auto waker = bob.waker(woken, token);
  ASSERT_TRUE(*bob.read("orders", 1, again->created, waker));
  ASSERT_TRUE(*alice.remove("orders", 1));
  EXPECT_TRUE(bob.await([&](Party&) { return woken == 1; }));
  EXPECT_EQ(token, 0U);
  EXPECT_EQ(left().find("/out"), std::string::npos) << "the removal took it along";
}

TEST_F(ConsulHandoffTest, WhatIsWrittenMeanwhileWakesAsEver) {
  Party alice(url());
  Party bob(url());
  const auto first = alice.enter("orders", 1);
  ASSERT_TRUE(first);
  int woken = 0;
  std::uint64_t token = 0;
  const auto waker = bob.waker(woken, token);
  ASSERT_TRUE(*bob.read("orders", 1, first->created, waker));
  const auto epoch = alice.session().epoch;
  Details weakened;
  weakened.weakened = true;
  ASSERT_TRUE(alice.ask<std::optional<contend::Read>>([&](auto& backend, auto done) {
    backend.write(epoch, "orders", QueueEntry{Party::key(1), first->created}, weakened,
                  BootClock::now() + 20s, done);
  }));
  EXPECT_TRUE(bob.await([&](Party&) { return woken == 1; }));
}

TEST_F(ConsulHandoffTest, WhatIsLeftGoesSoonOrWithTheSession) {
  Party alice(url());
  const auto first = alice.enter("orders", 1);
  ASSERT_TRUE(first);
  {
    Party bob(url());
    const auto second = bob.enter("stock", 1);
    ASSERT_TRUE(second);
    ASSERT_TRUE(*bob.handoff("stock", 1, second->created, 1));
    ASSERT_TRUE(*alice.handoff("orders", 1, first->created, 1));
    EXPECT_NE(left().find("stock/c/"), std::string::npos) << left();
  }
  EXPECT_EQ(left().find("stock"), std::string::npos) << left();
  EXPECT_NE(left().find("/out"), std::string::npos) << left();
  EXPECT_TRUE(eventually([&] { return left().find("/out") == std::string::npos; }));
}

// Three who want the same: the third is served by the second's last word.
TEST_F(ConsulHandoffTest, ANextOneInLineDoesNotReadTheQueue) {
  ConsulServer telling({.log_level = "debug"});
  const auto requests = [&](const std::string& with) {
    const std::string log = telling.log();
    std::size_t count = 0;
    for (std::size_t at = 0; (at = log.find(with, at)) != std::string::npos; ++at) ++count;
    return count;
  };
  const auto queue_reads = [&] { return requests("/v1/kv/holdfast/l/hot/?recurse"); };
  std::vector<std::future<Result<Lease>>> waiting;
  const auto connected = [&] { return *Client::connect(telling.url()); };
  std::vector<Client> clients = {connected(), connected(), connected()};
  auto first = clients[0].mutex("hot").acquire();
  ASSERT_TRUE(first);
  for (std::size_t i = 1; i < 3; ++i) {
    waiting.push_back(std::async(std::launch::async, [mutex = clients[i].mutex("hot")]() mutable {
      return mutex.acquire({.wait = 60s});
    }));
    ASSERT_TRUE(eventually([&] {
      const auto info = clients[0].inspect("hot");
      return info && *info && (*info)->waiters.size() == i && requests("-x?recurse") == i;
    }));
  }
  ASSERT_TRUE(first->release());
  auto second = waiting[0].get();
  ASSERT_TRUE(second);
  const auto before = queue_reads();
  ASSERT_TRUE(second->release());
  auto third = waiting[1].get();
  ASSERT_TRUE(third);
  EXPECT_EQ(queue_reads(), before);
  EXPECT_GT(third->token(), second->token());
  EXPECT_TRUE(third->release());
}

// The answer to the removal before it is all that it needs.
TEST_F(ConsulHandoffTest, AWaiterBehindItsOwnClientAsksNothing) {
  ConsulServer telling({.log_level = "debug"});
  auto client = Client::connect(telling.url());
  ASSERT_TRUE(client) << client.error().message();
  auto lease = client->mutex("hot").acquire();
  ASSERT_TRUE(lease) << lease.error().message();
  std::vector<std::future<Result<Lease>>> waiting;
  for (std::size_t i = 1; i <= 3; ++i) {
    waiting.push_back(std::async(std::launch::async, [mutex = client->mutex("hot")]() mutable {
      return mutex.acquire({.wait = 60s});
    }));
    ASSERT_TRUE(eventually([&] {
      const auto info = client->inspect("hot");
      return info && *info && (*info)->waiters.size() == i;
    }));
  }
  for (auto& each : waiting) {
    ASSERT_TRUE(lease->release());
    auto next = each.get();
    ASSERT_TRUE(next) << next.error().message();
    EXPECT_GT(next->token(), lease->token());
    lease = std::move(next);
  }
  EXPECT_TRUE(lease->release());
  std::istringstream log(telling.log());
  for (std::string line; std::getline(log, line);) {
    const bool waits = line.find("&index=") != line.npos && line.find("/l/hot/") != line.npos;
    EXPECT_FALSE(waits) << line;
  }
}

}  // namespace
}  // namespace holdfast::stores::consul
