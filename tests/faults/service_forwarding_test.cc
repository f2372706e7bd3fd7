// Lock libraries at servers that do not lead: `holdfast serve` as three processes on one journal in
// etcd, with one shard and with several (docs/design/0075-forwarding.md).
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/stores.h"
#include "src/base/clock.h"
#include "src/port/service/shards.h"
#include "src/server/testing/plain_client.h"
#include "tests/faults/client_side.h"
#include "tests/faults/recipe_scenes.h"
#include "tests/faults/redis_peer.h"
#include "tests/faults/service_cluster.h"

namespace holdfast::faults {
namespace {

using base::BootClock;
using server::testing::request;
using server::testing::Socket;
using support::HoldfastServer;

constexpr std::uint32_t kManyShards = 4;

std::string set(const std::string& name, const std::string& value, milliseconds lease) {
  return request({"SET", name, value, "NX", "PX", std::to_string(lease.count())});
}

// redis-py's.
std::string release(const std::string& name, const std::string& value) {
  return request({"EVALSHA", "c3f8721cbb97f72bc19e972846bd7aaf91901658", "1", name, value});
}

// The server that leads the shard of a name, as a server says; empty: it does not know.
std::string leader_of(const std::string& url, const std::string& name) {
  const auto seen = service_status(url);
  if (!seen) return {};
  for (const ServerStatus& each : *seen) {
    if (!each.trouble.empty()) continue;
    if (each.shards == 1) return each.leads ? each.address : each.leader;
    std::string list = each.leader + ",";
    for (std::uint32_t i = port::shard_of(name, each.shards); i > 0; --i) {
      list.erase(0, list.find(',') + 1);
    }
    return list.substr(0, list.find(','));
  }
  return {};
}

// All servers know the leaders of all shards, and share them evenly: nothing moves any more.
void await_leaders(const std::string& url) {
  EXPECT_TRUE(eventually(
      [&] {
        const auto seen = service_status(url);
        const auto counts = [](const ServerStatus& one, const ServerStatus& other) {
          return one.leading < other.leading;
        };
        if (!seen) return false;
        const auto [fewest, most] = std::minmax_element(seen->begin(), seen->end(), counts);
        return most->leading < fewest->leading + 2 &&
               std::all_of(seen->begin(), seen->end(), [](const ServerStatus& each) {
                 const bool leads_the_one = each.shards == 1 && each.leads;
                 const std::string list = "," + each.leader + ",";
                 return each.trouble.empty() &&
                        (leads_the_one || list.find(",,") == std::string::npos);
               });
      },
      kLong));
}

// A name whose shard another server leads than that of the address.
std::string distant_name(const std::string& url, const std::string& word,
                         const std::string& address) {
  for (int i = 0;; ++i) {
    const std::string name = word + "-" + std::to_string(i);
    const std::string leader = leader_of(url, name);
    if (!leader.empty() && leader != address) return name;
  }
}

// --- The real libraries, at a server that does not lead their locks.

struct Site {
  explicit Site(std::uint32_t shards) : cluster({}, 3, "10s", shards) {
    await_leaders(cluster.url());
    if (shards == 1) at = cluster.leader() == 0 ? 1 : 0;
  }
  ServiceCluster cluster;
  std::size_t at = 0;  // The server that the libraries know.
  std::map<std::string, std::unique_ptr<RedisPeer>> peers{};
};

Site& site(std::uint32_t shards) {
  static std::map<std::uint32_t, std::unique_ptr<Site>> all;
  auto& one = all[shards];
  if (one == nullptr) one = std::make_unique<Site>(shards);
  return *one;
}

class LibraryElsewhereTest
    : public ::testing::TestWithParam<std::tuple<const char*, std::uint32_t>> {
 protected:
  void SetUp() override {
    if (const auto why = HoldfastServer::unavailable()) GTEST_SKIP() << *why;
    if (const std::string why = no_peer(library()); !why.empty()) GTEST_SKIP() << why;
  }
  static std::string library() { return std::get<0>(GetParam()); }
  static Site& here() { return site(std::get<1>(GetParam())); }
  static std::string url() { return here().cluster.url(); }
  static RedisPeer& other() {
    auto& one = here().peers[library()];
    if (one == nullptr || !one->running()) {
      const milliseconds lease = library() == "redisson" ? 6s : 60s;
      one = std::make_unique<RedisPeer>(library(), here().cluster[here().at].port(), lease);
    }
    return *one;
  }
  static std::string name(const std::string& word) {
    return distant_name(url(), library() + "/" + word, here().cluster.address(here().at));
  }
};

TEST_P(LibraryElsewhereTest, ItAndOurClientsExcludeEachOther) {
  exclude_each_other({url(), 30s, [] { return std::make_unique<PeerProgram>(other()); }},
                     name("orders/42"));
}

TEST_P(LibraryElsewhereTest, ItWaitsForOurRelease) {
  const Client client = connect(url());
  const std::string lock = name("ours");
  Lease lease = hold(client, lock);
  const int asked = other().tell("take", lock);
  let_pass(200ms);
  EXPECT_FALSE(other().answered(asked));
  expect_released(lease);
  // Redisson would look again when the lease ends, after 30 s: it was woken.
  EXPECT_TRUE(other().answer(asked, 20s));
  EXPECT_TRUE(other().ask("give", lock));
}

TEST_P(LibraryElsewhereTest, ItExtendsWhileWeWait) {
  const Client client = connect(url());
  const std::string lock = name("extended");
  ASSERT_TRUE(other().ask("take", lock));
  auto waiting = wait_for(client, lock);
  if (library() != "redisson") {  // Which does so by itself.
    EXPECT_TRUE(other().ask("extend", lock));
  }
  EXPECT_TRUE(other().ask("give", lock));
  EXPECT_TRUE(waiting.get());
}

INSTANTIATE_TEST_SUITE_P(Libraries, LibraryElsewhereTest,
                         ::testing::Combine(::testing::Values("redisson", "redis-py", "redsync",
                                                              "redislock", "node-redlock"),
                                            ::testing::Values(1U, kManyShards)),
                         [](const auto& one) {
                           std::string name = std::get<0>(one.param);
                           std::erase(name, '-');
                           return name + (std::get<1>(one.param) == 1 ? "" : "InShards");
                         });

// --- Plain connections, while leaders end.

// Holders of one lock, by lock libraries and by clients of ours: never two at once.
class MixedCrowd {
 public:
  MixedCrowd(const std::vector<std::string>& addresses, const std::string& url) {
    for (const std::string& each : addresses) {
      threads_.emplace_back([this, each] {
        while (!stop_) ask_as_library(each);
      });
    }
    threads_.emplace_back([this, url] {
      const Client client = connect(url);
      while (!stop_) hold_as_client(client);
    });
  }
  ~MixedCrowd() {
    stop_ = true;
    for (auto& each : threads_) each.join();
  }
  void await_grants(int more) const {
    const int libraries = by_libraries_ + more;
    const int clients = by_clients_ + 1;
    EXPECT_TRUE(eventually([&] { return by_libraries_ >= libraries && by_clients_ >= clients; }))
        << by_libraries_ << " of " << libraries << ", " << by_clients_ << " of " << clients;
  }

 private:
  static constexpr milliseconds kTtl = 5s;

  bool enter(base::BootInstant asked) {
    // The machine stood still: the lease may be over.
    if (BootClock::now() - asked > kTtl / 2) return false;
    EXPECT_EQ(inside_.fetch_add(1), 0) << "two are inside";
    std::this_thread::sleep_for(3ms);
    inside_.fetch_sub(1);
    return true;
  }
  // Until its connection is closed.
  void ask_as_library(const std::string& address) {
    const Socket socket(address);
    while (!stop_ && socket.connected()) {
      const std::string value = std::to_string(++drawn_);
      const auto asked = BootClock::now();
      const std::string told = socket.ask(set("mixed", value, kTtl));
      if (told.empty()) return;
      EXPECT_TRUE(told == "+OK\r\n" || told == "$-1\r\n" || told.starts_with("-")) << told;
      if (told == "+OK\r\n") {
        if (enter(asked)) ++by_libraries_;
        socket.ask(release("mixed", value));
      }
      std::this_thread::sleep_for(10ms);
    }
    std::this_thread::sleep_for(20ms);
  }
  void hold_as_client(const Client& client) {
    {
      const auto lease = client.mutex("mixed").acquire({.wait = 30s, .ttl = kTtl});
      if (lease && lease->held() && enter(BootClock::now())) ++by_clients_;
    }
    // Whoever waits goes first, so libraries get nothing from one that always waits.
    std::this_thread::sleep_for(50ms);
  }

  std::atomic<bool> stop_{false};
  std::atomic<int> inside_{0};
  std::atomic<int> drawn_{0};
  std::atomic<int> by_libraries_{0};
  std::atomic<int> by_clients_{0};
  std::vector<std::thread> threads_;
};

class ServiceForwardingTest : public ::testing::TestWithParam<std::uint32_t> {};

std::vector<std::string> addresses_of(const ServiceCluster& cluster) {
  return {cluster.address(0), cluster.address(1), cluster.address(2)};
}

std::size_t leader_of(ServiceCluster& cluster, const std::string& name) {
  std::size_t found = 0;
  EXPECT_TRUE(eventually([&] {
    const std::string leader = leader_of(cluster.url(), name);
    for (found = 0; found < 3; ++found) {
      if (cluster.address(found) == leader) return true;
    }
    return false;
  }));
  return found;
}

TEST_P(ServiceForwardingTest, EveryServerTakesEveryName) {
  ServiceCluster cluster({}, 3, "10s", GetParam());
  await_leaders(cluster.url());
  const Client client = connect(cluster.url());
  for (int i = 0; i < 8; ++i) {
    const std::string name = "name-" + std::to_string(i);
    for (const std::string& address : addresses_of(cluster)) {
      const Socket socket(address);
      ASSERT_EQ(socket.ask(set(name, "me", 60s)), "+OK\r\n");
      const auto tried = client.mutex(name).try_acquire();
      EXPECT_TRUE(tried && !*tried) << name;
      EXPECT_EQ(socket.ask(request({"GET", name})), "$2\r\nme\r\n");
      EXPECT_EQ(socket.ask(request({"EXISTS", name})), ":1\r\n");
      EXPECT_EQ(socket.ask(request({"PEXPIRE", name, "50000"})), ":1\r\n");
      EXPECT_EQ(socket.ask(release(name, "me")), ":1\r\n");
    }
  }
}

TEST_P(ServiceForwardingTest, NeverTwoAreInsideWhileLeadersAreKilled) {
  ServiceCluster cluster({.members = 3}, 3, "2s", GetParam());
  await_leaders(cluster.url());
  const MixedCrowd crowd(addresses_of(cluster), cluster.url());
  crowd.await_grants(10);
  for (int round = 0; round < 3; ++round) {
    const std::size_t leader = leader_of(cluster, "mixed");
    cluster[leader].kill9();
    crowd.await_grants(10);
    cluster[leader].start();
  }
}

// It cannot know what became of the request, and says nothing.
TEST_P(ServiceForwardingTest, ALeaderThatStandsStillEndsTheConnectionWithoutAnAnswer) {
  ServiceCluster cluster({}, 3, "2s", GetParam());
  await_leaders(cluster.url());
  const std::size_t leader = leader_of(cluster, "still");
  const std::size_t other = (leader + 1) % 3;
  const Socket socket(cluster.address(other));
  ASSERT_EQ(socket.ask(request({"EXISTS", "still"})), ":0\r\n");
  cluster[leader].pause();
  EXPECT_EQ(socket.ask(set("still", "me", 60s)), "");
  // The next leader serves what comes through the same server.
  EXPECT_TRUE(eventually(
      [&] { return Socket(cluster.address(other)).ask(set("free", "me", 60s)) == "+OK\r\n"; }));
  cluster[leader].resume();
}

TEST_P(ServiceForwardingTest, ALockOutlivesADrainOfItsLeader) {
  ServiceCluster cluster({}, 3, "60s", GetParam());
  await_leaders(cluster.url());
  const std::size_t leader = leader_of(cluster, "kept");
  const std::string other = cluster.address((leader + 1) % 3);
  const Socket socket(other);
  ASSERT_EQ(socket.ask(set("kept", "me", 60s)), "+OK\r\n");
  EXPECT_EQ(cluster[leader].terminate(), 0);
  EXPECT_EQ(socket.receive(), "") << "its term is over";
  std::string told;
  EXPECT_TRUE(eventually(
      [&] {
        told = Socket(other).ask(release("kept", "me"));
        return told == ":1\r\n";
      },
      30s))
      << told;
}

// Only the server that forwards knows the client.
TEST_P(ServiceForwardingTest, AServerThatStopsWaitsForTheAnswersOfOthers) {
  ServiceCluster cluster({}, 3, "60s", GetParam());
  await_leaders(cluster.url());
  const std::size_t leader = leader_of(cluster, "under-way");
  const std::size_t other = (leader + 1) % 3;
  const std::string address = cluster.address(other);
  const Socket socket(address);
  ASSERT_EQ(socket.ask(request({"EXISTS", "under-way"})), ":0\r\n");
  cluster[leader].pause();
  ASSERT_TRUE(socket.send(set("under-way", "me", 60s)));
  ASSERT_EQ(Socket(address).ask(request({"PING"})), "+PONG\r\n") << "it has read both";
  ASSERT_EQ(::kill(cluster[other].pid(), SIGTERM), 0);
  EXPECT_TRUE(eventually([&] { return !Socket(address).connected(); })) << "it has closed its port";
  EXPECT_TRUE(socket.silent());
  cluster[leader].resume();
  EXPECT_EQ(socket.receive(), "+OK\r\n");
  EXPECT_EQ(socket.receive(), "");
  EXPECT_TRUE(eventually([&] { return !cluster[other].running(); }));
}

INSTANTIATE_TEST_SUITE_P(Shards, ServiceForwardingTest, ::testing::Values(1U, kManyShards),
                         [](const auto& one) { return "Of" + std::to_string(one.param); });

// Each commit is on a majority of etcd's members.
TEST(ServiceWaitTest, WaitTellsTheMembersThatHaveEachCommitBesideTheFirst) {
  for (const std::size_t members : {std::size_t{1}, std::size_t{3}}) {
    const std::string copies = members == 1 ? ":0\r\n" : ":1\r\n";
    ServiceCluster cluster({.members = members}, 2);
    await_leaders(cluster.url());
    for (std::size_t server = 0; server < 2; ++server) {
      const Socket socket(cluster.address(server));
      ASSERT_EQ(socket.ask(set("a" + std::to_string(server), "me", 60s)), "+OK\r\n");
      std::string told;
      EXPECT_TRUE(eventually([&] {
        told = socket.ask(request({"WAIT", "9", "1000"}));
        return told == copies;
      })) << told;
    }
  }
}

}  // namespace
}  // namespace holdfast::faults
