// Faults around five real Redis servers, seen through the Redlock store.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/random.h"
#include "src/stores/redlock/redlock_store.h"
#include "tests/conformance/harness.h"
#include "tests/faults/process_harness.h"
#include "tests/support/clock_shift.h"
#include "tests/support/eventually.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/redlock_cluster.h"

namespace holdfast::testing {
namespace {

using support::ClockShift;
using support::eventually;
using support::Fault;
using support::FaultProxy;
using support::Memory;
using support::RedisServer;
using support::RedlockCluster;

class UrlSite final : public Site {
 public:
  explicit UrlSite(std::string url) : url_(std::move(url)) {}
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_redlock_store(*port::StoreUrl::parse(url_), context);
  }
  void pass(Duration time) override { std::this_thread::sleep_for(time); }

  // As `holdfast store init`, or a connection alone. Errors: those of both.
  Result<void> try_open(bool init) {
    TestLoop loop;
    Inbox inbox(loop);
    port::SchemaJob job;
    port::StoreContext context;
    context.loop = &loop;
    context.listener = &inbox;
    context.io = loop.io();
    context.owner = "operator";
    if (init) context.schema = &job;
    auto made = open(context);
    if (!made) return made.error();
    if (*made) (*made)->close(soon());
    return {};
  }

 private:
  const std::string url_;
};

// In each request for a lock, and in no other.
constexpr char kTakes[] = " 0000000000000000 ";
constexpr char kQuick[] = "node_timeout=300ms&timeout=600ms&longest_ttl=";

AcquisitionId fresh() {
  const auto random = base::random_128();
  return {random.high, random.low};
}

Request request(const std::string& name, AcquisitionId id, Duration ttl = 1s) {
  return Request(name, id).leases(ttl, ttl).no_wait();
}

bool holds(const Result<AcquisitionState>& state) {
  return state && state->status == AcquisitionStatus::kHeld;
}

std::string why(const Result<AcquisitionState>& state) {
  return state ? "status " + std::to_string(static_cast<int>(state->status))
               : state.error().message();
}

// Sets `id` to the one that holds. A release of before may be on its way to a minority still.
Result<AcquisitionState> take_next(Client& client, const std::string& name, AcquisitionId& id) {
  Result<AcquisitionState> told = AcquisitionState{};
  EXPECT_TRUE(eventually([&] {
    id = fresh();
    told = client.acquire(request(name, id));
    return !told || told->status != AcquisitionStatus::kBusy;
  }));
  return told;
}

// How many acquisitions a node has for the lock, over or not.
std::size_t entries(RedisServer& node, const std::string& name) {
  const std::string first = node.must({"GETRANGE", "hfr1:" + name, "0", "0"}).text;
  return first.empty() || first == "\n" ? 0 : 1;
}

// 'r': it takes part; 'q': it is in quarantine (node.lua).
char state_of(RedisServer& node) {
  const std::string state = node.must({"GETRANGE", "hfr1@node", "82", "82"}).text;
  return state.empty() ? '-' : state[0];
}

// The highest token that the node knows.
std::uint64_t floor_of(RedisServer& node) {
  return std::stoull("0" + node.must({"GETRANGE", "hfr1@node", "84", "99"}).text);
}

// Another client has the lock there.
void occupy(RedisServer& node, const std::string& name) {
  node.must({"SET", "hfr1:" + name,
             "9000000000000000 " + std::string(32, 'e') +
                 " 0000000000000007 0000000009000000 ee 1 0 {\"owner\":\"another\"}"});
}

// A lock that all nodes gave to `client`, which they learn of up to 5 ms after its majority. A node
// whose answer comes after the decision is left out; then the next acquisition may do.
AcquisitionId held_at_all(Client& client, const std::vector<RedisServer*>& nodes,
                          const std::string& name, Token& token) {
  AcquisitionId id{};
  EXPECT_TRUE(eventually([&] {
    if (id != AcquisitionId{}) static_cast<void>(client.release(name, id));
    id = fresh();
    const auto grant = client.acquire(request(name, id, 30s));
    if (!holds(grant)) return false;
    token = grant->token;
    const auto known = [&] {
      return std::all_of(nodes.begin(), nodes.end(),
                         [&](RedisServer* node) { return floor_of(*node) == token.counter; });
    };
    return eventually(known, 500ms);
  }));
  return id;
}

class RedlockFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_REDIS(); }

  // A cluster that may grant, as after `holdfast store init`.
  std::string start(const std::string& longest = "60s") {
    url_ = cluster_.url(kQuick + longest);
    const auto made = UrlSite(url_).try_open(/*init=*/true);
    EXPECT_TRUE(made) << made.error().message();
    return url_;
  }

  // The cluster behind a proxy for each node.
  std::string url_through(std::vector<std::unique_ptr<FaultProxy>>& proxies,
                          const std::string& longest) {
    std::string list;
    for (std::size_t at = 0; at < 5; ++at) {
      proxies.push_back(std::make_unique<FaultProxy>(
          support::ProxyOptions{.server_port = cluster_.node(at).port()}));
      list += (at > 0 ? "," : "") + ("127.0.0.1:" + std::to_string(proxies[at]->port()));
    }
    return "redlock://" + list + "/?" + kQuick + longest;
  }

  RedlockCluster cluster_{5};
  std::string url_;
};

TEST_F(RedlockFaultsTest, OneAndTwoOfFiveDownChangeNothingAndThreeStopAll) {
  UrlSite site(start());
  Client alice(site, "alice");
  Token last{};
  for (std::size_t down = 0; down <= 2; ++down) {
    if (down > 0) cluster_.node(down - 1).kill9();
    AcquisitionId id{};
    const auto grant = take_next(alice, "a", id);
    ASSERT_TRUE(holds(grant)) << down << " down: " << why(grant);
    EXPECT_GT(grant->token, last);
    last = grant->token;
    EXPECT_TRUE(holds(alice.renew("a", id, 1, 1s)));
    EXPECT_EQ(*alice.release("a", id), EndStatus::kReleased);
  }
  cluster_.node(2).kill9();
  const auto refused = alice.acquire(request("a", fresh()));
  ASSERT_FALSE(refused) << why(refused);
  EXPECT_NE(refused.error().message().find("3 of 5 nodes must grant it"), std::string::npos);
  for (std::size_t at = 0; at < 5; ++at) {
    const std::string name = "127.0.0.1:" + std::to_string(cluster_.node(at).port());
    EXPECT_NE(refused.error().message().find(name + (at < 3 ? ": " : ": granted it")),
              std::string::npos)
        << refused.error().message();
  }
}

TEST_F(RedlockFaultsTest, PausedNodesDelayNobodyAndKeepNothingOfWhatCameLate) {
  UrlSite site(start());
  Client alice(site, "alice");
  cluster_.node(0).pause();
  cluster_.node(1).pause();
  const AcquisitionId id = fresh();
  const auto grant = alice.acquire(request("a", id));
  EXPECT_TRUE(holds(grant)) << why(grant);
  EXPECT_TRUE(holds(alice.renew("a", id, 1, 30s)));
  EXPECT_EQ(*alice.release("a", id), EndStatus::kReleased);
  cluster_.node(0).resume();
  cluster_.node(1).resume();
  for (std::size_t at = 0; at < 5; ++at) {
    EXPECT_TRUE(eventually([&] { return entries(cluster_.node(at), "a") == 0; })) << at;
  }
  const auto next = alice.acquire(request("a", fresh()));
  EXPECT_TRUE(holds(next)) << why(next);
}

TEST_F(RedlockFaultsTest, AMajorityThatIsPausedIsToldAsUnknown) {
  UrlSite site(start());
  Client alice(site, "alice");
  for (std::size_t at = 0; at < 3; ++at) cluster_.node(at).pause();
  const auto asked = alice.acquire(request("a", fresh()));
  for (std::size_t at = 0; at < 3; ++at) cluster_.node(at).resume();
  ASSERT_FALSE(asked) << why(asked);
  EXPECT_EQ(asked.error().code(), Errc::kOutcomeUnknown) << asked.error().message();
  EXPECT_TRUE(eventually([&] { return holds(alice.acquire(request("a", fresh()))); }));
}

// The classic hole: the holder has three of five, one or two of those restart empty, and the others
// are free.
class RedlockEmptyNodesTest : public RedlockFaultsTest,
                              public ::testing::WithParamInterface<std::size_t> {};

INSTANTIATE_TEST_SUITE_P(RestartEmpty, RedlockEmptyNodesTest, ::testing::Values(1, 2));

TEST_P(RedlockEmptyNodesTest, NodesThatRestartEmptyGiveNoSecondMajority) {
  std::vector<std::unique_ptr<FaultProxy>> proxies;
  UrlSite site(url_through(proxies, "3s"));
  ASSERT_TRUE(site.try_open(/*init=*/true));
  Client alice(site, "alice");
  Client bob(site, "bob");
  const int lost[] = {proxies[0]->add({.kind = Fault::Kind::kBlackhole, .containing = kTakes}),
                      proxies[1]->add({.kind = Fault::Kind::kBlackhole, .containing = kTakes})};
  const AcquisitionId id = fresh();
  const auto before = std::chrono::steady_clock::now();
  const auto grant = alice.acquire(request("a", id, 2500ms));
  ASSERT_TRUE(holds(grant)) << why(grant);
  proxies[0]->remove(lost[0]);
  proxies[1]->remove(lost[1]);
  ASSERT_EQ(entries(cluster_.node(0), "a") + entries(cluster_.node(1), "a"), 0U);
  for (std::size_t at = 0; at < GetParam(); ++at) cluster_.node(2 + at).restart(Memory::kLost);
  Result<AcquisitionState> next = bob.acquire(request("a", fresh()));
  int tries = 1;
  while (!holds(next)) {
    ASSERT_LT(++tries, 2000);
    std::this_thread::sleep_for(10ms);
    next = bob.acquire(request("a", fresh()));
  }
  EXPECT_GE(std::chrono::steady_clock::now() - before, 2400ms) << "while alice held";
  EXPECT_GT(tries, 10);
  EXPECT_GT(next->token, grant->token);
  for (std::size_t at = 0; at < GetParam(); ++at) {
    EXPECT_TRUE(eventually([&] { return state_of(cluster_.node(2 + at)) == 'r'; }))
        << "it comes back by itself";
  }
}

TEST_F(RedlockFaultsTest, ANodeThatRestartsWithItsDataOrIsAReplicaTakesNoPart) {
  UrlSite site(start());
  Client alice(site, "alice");
  ASSERT_TRUE(holds(alice.acquire(request("a", fresh()))));
  cluster_.node(0).restart(Memory::kKept);
  // (A primary that gets its first replica takes another replication id, so it is left out, too.)
  RedisServer primary;
  cluster_.node(1).must({"REPLICAOF", "127.0.0.1", std::to_string(primary.port())});
  const AcquisitionId id = fresh();
  const auto grant = alice.acquire(request("b", id));
  EXPECT_TRUE(holds(grant)) << why(grant);
  EXPECT_EQ(entries(cluster_.node(0), "b"), 0U);
  EXPECT_TRUE(eventually([&] { return state_of(cluster_.node(0)) == 'q'; }));
  // Promoted within one process: its run id is the same.
  cluster_.node(1).must({"REPLICAOF", "NO", "ONE"});
  EXPECT_TRUE(eventually([&] {
    static_cast<void>(alice.renew("b", id, 1, 1s));
    static_cast<void>(alice.acquire(request("c", fresh())));
    return state_of(cluster_.node(1)) == 'q';
  }));
}

TEST_F(RedlockFaultsTest, ANewClusterWaitsForTheLongestLeaseByItself) {
  url_ = cluster_.url(std::string(kQuick) + "1s");
  UrlSite site(url_);
  Client alice(site, "alice");
  const auto early = alice.acquire(request("a", fresh()));
  ASSERT_FALSE(early) << why(early);
  EXPECT_EQ(early.error().code(), Errc::kUnavailable);
  EXPECT_NE(early.error().message().find("takes no part"), std::string::npos)
      << early.error().message();
  EXPECT_TRUE(eventually([&] { return holds(alice.acquire(request("a", fresh()))); }));
}

TEST_F(RedlockFaultsTest, OneClockAheadMovesNeitherTheMajorityNorTheTokens) {
  ClockShift shift;
  std::vector<std::unique_ptr<RedisServer>> nodes;
  std::string list;
  for (int at = 0; at < 3; ++at) {
    support::RedisOptions options;
    if (at == 0) {
      options.clock_shift_file = shift.path();
    }
    nodes.push_back(std::make_unique<RedisServer>(options));
    list += (at > 0 ? "," : "") + ("127.0.0.1:" + std::to_string(nodes.back()->port()));
  }
  UrlSite site("redlock://" + list + "/?" + kQuick + "60s");
  ASSERT_TRUE(site.try_open(/*init=*/true));
  Client alice(site, "alice");
  Client bob(site, "bob");
  Token token{};
  const AcquisitionId id =
      held_at_all(alice, {nodes[0].get(), nodes[1].get(), nodes[2].get()}, "a", token);
  shift.set(std::chrono::hours(1000));
  const auto tried = bob.acquire(request("a", fresh()));
  ASSERT_TRUE(tried) << why(tried);
  EXPECT_EQ(tried->status, AcquisitionStatus::kBusy);
  EXPECT_TRUE(holds(alice.renew("a", id, 1, 30s)));
  EXPECT_EQ(*alice.release("a", id), EndStatus::kReleased);
  AcquisitionId bobs{};
  const auto next = take_next(bob, "a", bobs);
  ASSERT_TRUE(holds(next)) << why(next);
  EXPECT_GT(next->token, token);
  EXPECT_LT(next->token.counter, token.counter + 1000);
}

TEST_F(RedlockFaultsTest, ACounterThatCannotBeQuarantinesItsNode) {
  UrlSite site(start());
  Client alice(site, "alice");
  AcquisitionId id{};
  const auto grant = take_next(alice, "a", id);
  ASSERT_TRUE(holds(grant)) << why(grant);
  ASSERT_TRUE(alice.release("a", id));
  cluster_.node(0).must({"SETRANGE", "hfr1@node", "84", "9000000000000000"});
  const auto next = take_next(alice, "a", id);
  ASSERT_TRUE(holds(next)) << why(next);
  EXPECT_GT(next->token, grant->token);
  EXPECT_LT(next->token.counter, grant->token.counter + 1000);
  EXPECT_TRUE(eventually([&] {
    static_cast<void>(alice.acquire(request("b", fresh())));
    return state_of(cluster_.node(0)) == 'q';
  }));
}

TEST_F(RedlockFaultsTest, RepliesAfterTheTimeoutAreGivenBack) {
  std::vector<std::unique_ptr<FaultProxy>> proxies;
  UrlSite site(url_through(proxies, "60s"));
  ASSERT_TRUE(site.try_open(/*init=*/true));
  Client alice(site, "alice");
  int held[3];
  for (std::size_t at = 0; at < 3; ++at) {
    held[at] = proxies[at]->add({.kind = Fault::Kind::kHold,
                                 .direction = support::Direction::kToClient,
                                 .containing = "granted"});
  }
  const auto late = alice.acquire(request("a", fresh(), 30s));
  ASSERT_FALSE(late) << why(late);
  EXPECT_EQ(late.error().code(), Errc::kOutcomeUnknown);
  for (std::size_t at = 0; at < 3; ++at) proxies[at]->remove(held[at]);
  for (std::size_t at = 0; at < 5; ++at) {
    EXPECT_TRUE(eventually([&] { return entries(cluster_.node(at), "a") == 0; })) << at;
  }
}

// Two attempts with two nodes each would wait for the same paused one, and nobody gets the lock.
TEST_F(RedlockFaultsTest, AnAttemptThatLostSomewhereDoesNotWaitForAPausedNode) {
  UrlSite site(cluster_.url("node_timeout=60s&timeout=120s"));
  ASSERT_TRUE(site.try_open(/*init=*/true));
  Client alice(site, "alice");
  occupy(cluster_.node(0), "a");
  occupy(cluster_.node(1), "a");
  cluster_.node(4).pause();
  const auto before = std::chrono::steady_clock::now();
  const auto waits = alice.acquire(Request("a", fresh()).leases(50s, 50s));
  cluster_.node(4).resume();
  ASSERT_TRUE(waits) << why(waits);
  EXPECT_EQ(waits->status, AcquisitionStatus::kWaiting);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 15s);
}

// Else those who lost would wake each other for ever.
TEST_F(RedlockFaultsTest, AnAttemptThatLostWakesNobodyAndAReleaseDoes) {
  UrlSite site(start());
  Client alice(site, "alice");
  const AcquisitionId id = fresh();
  ASSERT_TRUE(holds(alice.acquire(request("a", id))));
  for (std::size_t at = 0; at < 3; ++at) occupy(cluster_.node(at), "b");
  for (std::size_t at = 0; at < 5; ++at) cluster_.node(at).reset_counts();
  EXPECT_EQ(alice.acquire(request("b", fresh()))->status, AcquisitionStatus::kBusy);
  EXPECT_EQ(alice.acquire(request("a", fresh()))->status, AcquisitionStatus::kBusy);
  EXPECT_TRUE(eventually([&] { return entries(cluster_.node(3), "b") == 0; }));
  EXPECT_EQ(cluster_.node(3).command_count("publish"), 0);
  EXPECT_EQ(*alice.release("a", id), EndStatus::kReleased);
  EXPECT_TRUE(eventually([&] { return cluster_.node(3).command_count("publish") == 1; }));
}

TEST_F(RedlockFaultsTest, AnotherListIsRefusedByTheNodesAndByTheClient) {
  start();
  RedisServer sixth;
  std::string list;
  for (std::size_t at = 0; at < 4; ++at) {
    list += "127.0.0.1:" + std::to_string(cluster_.node(at).port()) + ",";
  }
  const auto other = UrlSite("redlock://" + list + "127.0.0.1:" + std::to_string(sixth.port()) +
                             "/?" + kQuick + "60s")
                         .try_open(/*init=*/false);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), Errc::kInvalidArgument);
  EXPECT_NE(other.error().message().find("another Redlock cluster"), std::string::npos)
      << other.error().message();
  EXPECT_FALSE(UrlSite(cluster_.url(std::string(kQuick) + "30s")).try_open(false));

  // One foreign node is enough, though four others would grant.
  UrlSite site(url_);
  Client alice(site, "alice");
  cluster_.node(0).must({"SETRANGE", "hfr1@node", "0", "another"});
  EXPECT_TRUE(eventually([&] {
    const auto refused = alice.acquire(request("a", fresh()));
    return !refused && refused.error().code() == Errc::kInvalidArgument;
  }));
}

TEST_F(RedlockFaultsTest, OneProcessUnderTwoAddressesIsRefused) {
  const std::string port = std::to_string(cluster_.node(0).port());
  const std::string third = std::to_string(cluster_.node(1).port());
  const auto twice = UrlSite("redlock://127.0.0.1:" + port + ",localhost:" + port +
                             ",127.0.0.1:" + third + "/?" + kQuick + "60s")
                         .try_open(/*init=*/false);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code(), Errc::kInvalidArgument);
  EXPECT_NE(twice.error().message().find("name every node once"), std::string::npos)
      << twice.error().message();
}

TEST_F(RedlockFaultsTest, AGrantIsTwoParallelPhasesAndOneWithoutTokens) {
  for (const bool tokens : {true, false}) {
    cluster_.flush_all();
    UrlSite site(cluster_.url(std::string(kQuick) + "60s&tokens=" + (tokens ? "yes" : "no")));
    ASSERT_TRUE(site.try_open(/*init=*/true));
    Client alice(site, "alice");
    EXPECT_EQ(alice.store().guarantees().fenced, tokens);
    const auto pair = [&] {
      AcquisitionId id{};
      const auto grant = take_next(alice, "a", id);
      ASSERT_TRUE(holds(grant)) << why(grant);
      ASSERT_TRUE(holds(alice.renew("a", id, 1, 2s)));
      ASSERT_EQ(*alice.release("a", id), EndStatus::kReleased);
    };
    for (int warm = 0; warm < 3; ++warm) pair();
    for (std::size_t at = 0; at < 5; ++at) cluster_.node(at).reset_counts();
    for (int i = 0; i < 10; ++i) pair();
    const auto asked = [&] {
      std::int64_t sum = 0;
      for (std::size_t at = 0; at < 5; ++at) sum += cluster_.node(at).command_count("evalsha");
      return sum;
    };
    // Acquire and release at all nodes, write-back and renewal at a majority at least. The last
    // requests may be on their way.
    EXPECT_TRUE(eventually([&] { return asked() >= (tokens ? 150 : 120); })) << asked();
    EXPECT_LE(asked(), tokens ? 200 : 150);
  }
}

TEST_F(RedlockFaultsTest, ALockThatIsHeldALittleLongerIsKnownToAllNodesThatGranted) {
  UrlSite site(start());
  Client alice(site, "alice");
  std::vector<RedisServer*> nodes;
  for (std::size_t at = 0; at < 5; ++at) nodes.push_back(&cluster_.node(at));
  Token token{};
  const AcquisitionId id = held_at_all(alice, nodes, "a", token);
  for (std::size_t at = 0; at < 2; ++at) cluster_.node(at).kill9();
  EXPECT_TRUE(holds(alice.renew("a", id, 1, 20s))) << "whichever two are lost";
}

TEST_F(RedlockFaultsTest, AHolderThatLetsGoSaysWhenItsLeaseEnds) {
  UrlSite site(start());
  Client alice(site, "alice");
  Client bob(site, "bob");
  const AcquisitionId id = fresh();
  ASSERT_TRUE(holds(alice.acquire(request("a", id, 20s))));
  const auto kept = alice.keep("a", id, 1, 600ms);
  ASSERT_TRUE(kept) << kept.error().message();
  EXPECT_EQ(bob.acquire(request("a", fresh()))->status, AcquisitionStatus::kBusy);
  EXPECT_TRUE(eventually([&] { return holds(bob.acquire(request("a", fresh()))); }));
  const auto again = alice.keep("a", id, 2, 1s);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), Errc::kLost);
  EXPECT_EQ(alice.keep("a", id, 3, 1s, "value").error().code(), Errc::kUnsupported);
}

TEST_F(RedlockFaultsTest, AKilledHoldersLockGoesOnAfterItsLeaseAndNotBefore) {
  start();
  faults::ActorProcess holder(url_);
  faults::ActorProcess waiter(url_);
  ASSERT_EQ(holder.ask("acquire a 1000").word, "granted");
  waiter.queue_up("a", 1s);
  ASSERT_EQ(holder.ask("renew").word, "ok");
  const faults::Line last = holder.ask("state");
  holder.kill();
  const faults::Line next = waiter.answer();
  ASSERT_EQ(next.word, "granted") << next.get("text");
  EXPECT_GT(next.get("token"), last.get("token"));
  EXPECT_GE(next.number("at"), last.number("deadline"));
}

}  // namespace
}  // namespace holdfast::testing
