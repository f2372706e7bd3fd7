// Several entries or removals in one transaction, on a real server: each gets the answer that it
// would get alone.
#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "src/contend/record.h"
#include "src/stores/etcd/backend.h"
#include "src/stores/etcd/etcd_store.h"
#include "src/stores/etcd/test_clerk.h"
#include "src/stores/etcd/watched_read.h"
#include "tests/support/etcd_server.h"
#include "tests/support/eventually.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/loop_thread.h"

namespace holdfast::stores::etcd {
namespace {

using namespace std::chrono_literals;
using base::BootClock;
using contend::Details;
using contend::Entered;
using contend::Key;
using contend::QueueEntry;
using contend::Shape;
using support::EtcdCluster;
using support::Fault;
using support::FaultProxy;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::Le;

double transactions(const EtcdCluster& etcd) {
  return etcd.metric("grpc_server_handled_total", "grpc_method=\"Txn\"");
}

double reads(const EtcdCluster& etcd) {
  return etcd.metric("grpc_server_handled_total", "grpc_method=\"Range\"");
}

// --- Below the engine: what one transaction of several comes back with.

void rewrite_session(const EtcdCluster& etcd, const std::string& session) {
  etcd.etcdctl({"put", "hf1/s/" + session, "somebody", "--lease", session});
}

TEST(EtcdBatchTest, EntriesOfATurnShareARevision) {
  EtcdCluster etcd;
  Clerk clerk(etcd.url());
  const double before = transactions(etcd);
  const auto entered = clerk.enter({{"a", 1}, {"b", 2}, {"c", 3}});
  EXPECT_EQ(transactions(etcd) - before, 1);
  for (std::size_t i = 0; i < entered.size(); ++i) {
    ASSERT_TRUE(entered[i]) << entered[i].error().message();
    EXPECT_EQ(entered[i]->created, entered[0]->created);
    ASSERT_EQ(entered[i]->listing.queue.size(), 1U) << "of its own folder only";
    EXPECT_EQ(entered[i]->listing.queue[0].key.id.low, i + 1);
  }
}

TEST(EtcdBatchTest, EntriesOfOneLockDoNot) {
  EtcdCluster etcd;
  Clerk clerk(etcd.url());
  const auto entered = clerk.enter({{"a", 1}, {"b", 2}, {"a", 3}, {"a", 4}});
  for (const auto& each : entered) ASSERT_TRUE(each) << each.error().message();
  EXPECT_LT(entered[0]->created, entered[2]->created);
  EXPECT_LT(entered[2]->created, entered[3]->created);
}

TEST(EtcdBatchTest, OneThatIsThereAlreadyIsFoundAndTheOthersComeIn) {
  EtcdCluster etcd;
  Clerk clerk(etcd.url());
  const auto first = clerk.enter({{"b", 2}});
  ASSERT_TRUE(first[0]);
  const auto entered = clerk.enter({{"a", 1}, {"b", 2}, {"c", 3}});
  for (const auto& each : entered) ASSERT_TRUE(each) << each.error().message();
  EXPECT_EQ(entered[1]->created, first[0]->created);
  EXPECT_GT(entered[0]->created, first[0]->created);
  EXPECT_GT(entered[2]->created, first[0]->created);
}

TEST(EtcdBatchTest, ASessionKeyThatWasWrittenSinceIsMadeUpFor) {
  EtcdCluster etcd;
  Clerk clerk(etcd.url());
  rewrite_session(etcd, clerk.session());
  const double before = transactions(etcd);
  for (const auto& each : clerk.enter({{"a", 1}, {"b", 2}, {"c", 3}})) {
    EXPECT_TRUE(each) << each.error().message();
  }
  EXPECT_EQ(transactions(etcd) - before, 2) << "once more, together";
}

TEST(EtcdBatchTest, AnEndedSessionIsTheEndOfEach) {
  EtcdCluster etcd;
  Clerk clerk(etcd.url("?session=30s"));
  etcd.etcdctl({"lease", "revoke", clerk.session()});
  for (const auto& each : clerk.enter({{"a", 1}, {"b", 2}, {"c", 3}})) {
    ASSERT_FALSE(each);
    EXPECT_EQ(each.error().code(), Errc::kLost) << each.error().message();
  }
}

TEST(EtcdBatchTest, EachRemovalIsToldWhetherItsContenderWasThere) {
  EtcdCluster etcd;
  Clerk clerk(etcd.url());
  auto entered = clerk.enter({{"a", 1}, {"b", 2}, {"c", 3}, {"a", 4}});
  for (const auto& each : entered) ASSERT_TRUE(each);
  const auto place = [&](std::size_t i) { return Clerk::place(i + 1, entered[i]->created); };
  const auto other = Clerk::place(2, entered[1]->created - 1);
  const auto mixed = clerk.remove({{"a", place(0)}, {"b", other}, {"c", place(2)}});
  for (const auto& each : mixed) ASSERT_TRUE(each) << each.error().message();
  EXPECT_TRUE(*mixed[0]);
  EXPECT_FALSE(*mixed[1]) << "another creation of that key";
  EXPECT_TRUE(*mixed[2]);
  const double before = transactions(etcd);
  const auto again = clerk.remove({{"a", place(3)}, {"b", place(1)}});
  for (const auto& each : again) EXPECT_TRUE(each && *each);
  EXPECT_EQ(transactions(etcd) - before, 1);
}

TEST(EtcdBatchTest, ARightThatIsMissingForOneIsItsMatterAlone) {
  EtcdCluster etcd({.auth = true});
  etcd.etcdctl({"role", "add", "some"});
  for (const char* prefix : {"hf1/s/", "hf1/k/", "hf1/l/mine"}) {
    etcd.etcdctl({"role", "grant-permission", "some", "readwrite", prefix, "--prefix=true"});
  }
  etcd.etcdctl({"user", "add", "alice:the-secret"});
  etcd.etcdctl({"user", "grant-role", "alice", "some"});
  Clerk clerk(etcd.url("", "alice:the-secret@"));
  const auto entered = clerk.enter({{"mine1", 1}, {"theirs", 2}, {"mine2", 3}});
  EXPECT_TRUE(entered[0]) << entered[0].error().message();
  ASSERT_FALSE(entered[1]);
  EXPECT_EQ(entered[1].error().code(), Errc::kPermissionDenied) << entered[1].error().message();
  EXPECT_TRUE(entered[2]) << entered[2].error().message();
  const auto removed = clerk.remove({{"mine1", Clerk::place(1, entered[0]->created)},
                                     {"theirs", Clerk::place(2, 1)},
                                     {"mine2", Clerk::place(3, entered[2]->created)}});
  EXPECT_TRUE(removed[0] && *removed[0]);
  ASSERT_FALSE(removed[1]);
  EXPECT_EQ(removed[1].error().code(), Errc::kPermissionDenied);
  EXPECT_TRUE(removed[2] && *removed[2]);
}

TEST(EtcdBatchTest, AServerThatTakesFewerStepsGetsFewer) {
  EtcdCluster etcd({.arguments = {"--max-txn-ops", "8"}});
  Clerk clerk(etcd.url());
  std::vector<Clerk::Asked> asked;
  for (std::uint64_t i = 1; i <= 40; ++i) asked.emplace_back("l" + std::to_string(i), i);
  for (const auto& each : clerk.enter(asked)) EXPECT_TRUE(each) << each.error().message();
  std::vector<std::pair<std::string, QueueEntry>> removed;
  removed.reserve(asked.size());
  for (const auto& [lock, which] : asked) removed.emplace_back(lock, Clerk::place(which, 1));
  for (const auto& each : clerk.remove(removed)) EXPECT_TRUE(each) << each.error().message();
}

TEST(EtcdBatchTest, AHundredEntriesAreAFewTransactions) {
  EtcdCluster etcd;
  Clerk clerk(etcd.url());
  std::vector<Clerk::Asked> asked;
  for (std::uint64_t i = 1; i <= 100; ++i) asked.emplace_back("l" + std::to_string(i), i);
  const double before = transactions(etcd);
  const auto entered = clerk.enter(asked);
  for (const auto& each : entered) ASSERT_TRUE(each) << each.error().message();
  EXPECT_LE(transactions(etcd) - before, 4);
  std::vector<std::pair<std::string, QueueEntry>> removed;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    removed.emplace_back(asked[i].first, Clerk::place(asked[i].second, entered[i]->created));
  }
  const double then = transactions(etcd);
  for (const auto& each : clerk.remove(removed)) EXPECT_TRUE(each && *each);
  EXPECT_LE(transactions(etcd) - then, 4);
}

// --- Through the store.

class Listener final : public port::Listener {
 public:
  explicit Listener(std::function<void(const port::Push&)> told) : told_(std::move(told)) {}
  void on_push(const port::Push& push) override { told_(push); }

 private:
  std::function<void(const port::Push&)> told_;
};

class Shop {
 public:
  explicit Shop(
      const std::string& url, std::function<void(const port::Push&)> told = [](auto&) {})
      : listener_(std::move(told)) {
    port::StoreContext context;
    context.loop = &loop_;
    context.io = &loop_.io;
    context.listener = &listener_;
    context.owner = "tester";
    auto store = make_etcd_store(*port::StoreUrl::parse(url), context);
    if (!store) throw std::runtime_error(store.error().message());
    store_ = *std::move(store);
  }
  ~Shop() { store_->close(BootClock::now() + 1s); }

  port::Store& operator*() { return *store_; }

  // Its requests reach the store in one turn of the loop.
  void in_one_turn(const std::function<void()>& ask) {
    std::promise<void> holding, go_on;
    loop_.post([&holding, wait = go_on.get_future().share()] {
      holding.set_value();
      wait.wait();
    });
    holding.get_future().wait();
    ask();
    go_on.set_value();
  }
  void on_loop(std::function<void()> task) { loop_.post(std::move(task)); }

  static port::AcquireRequest asking_for(const std::string& name, std::uint64_t number,
                                         bool may_wait = false,
                                         std::chrono::seconds patience = 20s) {
    port::AcquireRequest request;
    request.name = name;
    request.id = {9, number};
    request.issue = number;
    request.ttl = 60s;
    request.waiter_ttl = 60s;
    request.may_wait = may_wait;
    request.deadline = BootClock::now() + patience;
    return request;
  }
  static port::AcquisitionRequest ticket_of(const std::string& name, std::uint64_t number) {
    return {name, {9, number}, BootClock::now() + 20s, number};
  }

 private:
  support::LoopThread loop_;
  Listener listener_;
  std::unique_ptr<port::Store> store_;
};

std::string all_contenders(const EtcdCluster& etcd) {
  return etcd.etcdctl({"get", "hf1/l/", "--prefix", "--keys-only"});
}

TEST(EtcdBatchTest, ACancelStaysBehindItsEntry) {
  EtcdCluster etcd;
  Shop shop(etcd.url());
  std::vector<Awaited<port::AcquisitionState>> asked(20);
  std::vector<Awaited<port::EndStatus>> cancelled(20);
  shop.in_one_turn([&] {
    for (std::uint64_t i = 0; i < asked.size(); ++i) {
      const std::string name = "l" + std::to_string(i);
      (*shop).acquire(Shop::asking_for(name, i + 1), asked[i].done());
      if (i % 2 == 0) (*shop).cancel(Shop::ticket_of(name, i + 1), cancelled[i].done());
    }
  });
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto state = asked[i].wait();
    ASSERT_TRUE(state) << state.error().message();
    EXPECT_TRUE(i % 2 == 1 || cancelled[i].wait());
    EXPECT_EQ(state->status,
              i % 2 == 0 ? port::AcquisitionStatus::kGone : port::AcquisitionStatus::kHeld);
  }
  const std::string left = all_contenders(etcd);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    EXPECT_EQ(left.find("hf1/l/l" + std::to_string(i) + "/") != std::string::npos, i % 2 == 1) << i;
  }
}

TEST(EtcdBatchTest, ALostReplyToAJoinedEntryLeavesNothingBehind) {
  EtcdCluster etcd;
  FaultProxy proxy({.server_port = etcd.port()});
  Shop shop("etcd://127.0.0.1:" + std::to_string(proxy.port()) + "?session=60s");
  Awaited<port::AcquisitionState> warm;
  (*shop).acquire(Shop::asking_for("warm", 1), warm.done());
  ASSERT_TRUE(warm.wait());
  const int fault =
      proxy.add({.kind = Fault::Kind::kDropReplies, .containing = "hf1/l/l7/c/", .times = 1});
  std::vector<Awaited<port::AcquisitionState>> asked(20);
  shop.in_one_turn([&] {
    for (std::uint64_t i = 0; i < asked.size(); ++i) {
      (*shop).acquire(Shop::asking_for("l" + std::to_string(i), i + 2, false, 2s), asked[i].done());
    }
  });
  ASSERT_TRUE(proxy.wait_for_hits(fault));
  proxy.remove(fault);
  for (std::uint64_t i = 0; i < asked.size(); ++i) {
    const auto state = asked[i].wait();
    if (!state) {
      EXPECT_THAT(state.error().code(),
                  testing::AnyOf(Errc::kOutcomeUnknown, Errc::kUnavailable, Errc::kTimedOut))
          << state.error().message();
    }
  }
  // Whoever was told otherwise gives up, as the session layer does.
  for (std::uint64_t i = 0; i < asked.size(); ++i) {
    Awaited<port::EndStatus> ended;
    (*shop).release(Shop::ticket_of("l" + std::to_string(i), i + 2), ended.done());
    static_cast<void>(ended.wait());
  }
  Shop other(etcd.url());
  for (std::uint64_t i = 0; i < asked.size(); ++i) {
    Awaited<port::AcquisitionState> got;
    (*other).acquire(Shop::asking_for("l" + std::to_string(i), i + 1), got.done());
    const auto state = got.wait();
    ASSERT_TRUE(state) << state.error().message();
    EXPECT_EQ(state->status, port::AcquisitionStatus::kHeld) << i;
  }
}

TEST(EtcdBatchTest, ALostReplyToAJoinedRemovalIsMadeUpFor) {
  EtcdCluster etcd;
  FaultProxy proxy({.server_port = etcd.port()});
  Shop shop("etcd://127.0.0.1:" + std::to_string(proxy.port()) + "?session=60s");
  std::vector<Awaited<port::AcquisitionState>> asked(20);
  for (std::uint64_t i = 0; i < asked.size(); ++i) {
    (*shop).acquire(Shop::asking_for("l" + std::to_string(i), i + 1), asked[i].done());
  }
  for (auto& each : asked) ASSERT_TRUE(each.wait());
  const int fault =
      proxy.add({.kind = Fault::Kind::kDropReplies, .containing = "hf1/l/l7/c/", .times = 1});
  std::vector<Awaited<port::EndStatus>> ended(asked.size());
  shop.in_one_turn([&] {
    for (std::uint64_t i = 0; i < asked.size(); ++i) {
      (*shop).release(Shop::ticket_of("l" + std::to_string(i), i + 1), ended[i].done());
    }
  });
  ASSERT_TRUE(proxy.wait_for_hits(fault));
  proxy.remove(fault);
  for (auto& each : ended) {
    const auto status = each.wait();
    ASSERT_TRUE(status) << status.error().message();
    EXPECT_EQ(*status, port::EndStatus::kReleased);
  }
  EXPECT_EQ(all_contenders(etcd).find("hf1/l/l"), std::string::npos);
}

// One transaction to take and one to give back: nothing is read before or after them.
TEST(EtcdBatchTest, AnUncontendedPairIsTwoRequests) {
  EtcdCluster etcd;
  auto client = Client::connect(etcd.url("?session=60s"));
  ASSERT_TRUE(client) << client.error();
  const auto pairs = [&client](int count) {
    for (int i = 0; i < count; ++i) {
      auto lease = client->mutex("orders").acquire({.wait = 60s});
      ASSERT_TRUE(lease) << lease.error();
      ASSERT_TRUE(lease->release());
    }
  };
  pairs(3);
  const double writes = transactions(etcd);
  const double read = reads(etcd);
  pairs(100);
  EXPECT_EQ(transactions(etcd) - writes, 200);
  EXPECT_EQ(reads(etcd), read);
}

// A request that a waiter sends ahead of its loop is not repeated.
TEST(EtcdHandoffTest, AWokenWaiterListsOnce) {
  EtcdCluster etcd;
  Awaited<machine::Token> granted;
  Shop one(etcd.url("?session=60s"));
  Shop two(etcd.url("?session=60s"), [done = granted.done()](const port::Push& push) {
    if (push.kind == port::Push::Kind::kGranted) done(push.state.token);
  });
  Awaited<port::AcquisitionState> held, waits;
  (*one).acquire(Shop::asking_for("a", 1, /*may_wait=*/true), held.done());
  const auto first = held.wait();
  ASSERT_TRUE(first) << first.error().message();
  const double asked = reads(etcd);
  (*two).acquire(Shop::asking_for("a", 2, /*may_wait=*/true), waits.done());
  const auto second = waits.wait();
  ASSERT_TRUE(second) << second.error().message();
  ASSERT_EQ(second->status, port::AcquisitionStatus::kWaiting);
  // The read beside the watch, again if it is older than the watch, and the two that look again.
  double before = asked;
  int unchanged = 0;
  ASSERT_TRUE(support::eventually([&] {
    const double now = reads(etcd);
    unchanged = now == before ? unchanged + 1 : 0;
    before = now;
    return now >= asked + 3 && unchanged >= 60;
  }));
  Awaited<port::EndStatus> released;
  (*one).release(Shop::ticket_of("a", 1), released.done());
  const auto token = granted.wait();
  ASSERT_TRUE(token);
  EXPECT_GT(token->counter, first->token.counter);
  EXPECT_EQ(reads(etcd) - before, 1);
}

// The answer to the removal before it is all that it needs.
TEST(EtcdHandoffTest, AWaiterBehindItsOwnClientNeitherWatchesNorReads) {
  EtcdCluster etcd;
  auto client = Client::connect(etcd.url("?session=60s"));
  ASSERT_TRUE(client) << client.error().message();
  const auto watches = [&] {
    return etcd.metric("grpc_server_msg_received_total", "grpc_method=\"Watch\"");
  };
  auto first = client->mutex("a").acquire();
  ASSERT_TRUE(first) << first.error().message();
  std::vector<std::future<Result<Lease>>> waiting;
  double before = 0;
  for (std::size_t i = 1; i <= 4; ++i) {
    waiting.push_back(std::async(std::launch::async, [mutex = client->mutex("a")]() mutable {
      return mutex.acquire({.wait = 60s});
    }));
    ASSERT_TRUE(support::eventually([&] {
      const auto info = client->inspect("a");
      return info && *info && (*info)->waiters.size() == i;
    }));
    if (i == 1) before = watches();  // The client's own, which it may have set up by now.
  }
  EXPECT_EQ(watches(), before);
  const double read = reads(etcd);
  auto lease = std::move(first);
  for (auto& each : waiting) {
    ASSERT_TRUE(lease->release());
    auto next = each.get();
    ASSERT_TRUE(next) << next.error().message();
    EXPECT_GT(next->token(), lease->token());
    lease = std::move(next);
  }
  EXPECT_EQ(reads(etcd), read);
  EXPECT_EQ(watches(), before);
}

// The watch is on another key, so it tells nothing: as one that the server has not come to yet. A
// slow host may miss both looks, but not every time.
TEST(EtcdHandoffTest, AChangeThatTheWatchDoesNotTellYetIsFound) {
  EtcdCluster etcd;
  auto url = *port::StoreUrl::parse(etcd.url());
  auto made = Rpc::make(*parse_etcd_url(url));
  ASSERT_TRUE(made) << made.error().message();
  Rpc& rpc = **made;
  bool found = false;
  for (int round = 0; round < 50 && !found; ++round) {
    etcd.etcdctl({"put", "contender", "there"});
    wire::TxnRequest removal;
    removal.add_success()->mutable_request_delete_range()->set_key("contender");
    auto removed = std::make_shared<Awaited<wire::TxnResponse>>();
    auto woken = std::make_shared<std::promise<void>>();
    auto wanted = std::make_shared<int>();
    wire::RangeRequest request;
    request.set_key("contender");
    const auto read = std::make_shared<WatchedRead>(
        rpc, request, 0, BootClock::now() + kSoon,
        [&rpc, removal, removed](const Result<wire::RangeResponse>& range) {
          EXPECT_TRUE(range && range->kvs_size() == 1);
          rpc.call(removal, How{BootClock::now() + kSoon}, removed->done());
        },
        [woken] { woken->set_value(); }, wanted);
    const std::uint64_t watch = read->start("another", {});
    ASSERT_TRUE(removed->wait());
    found = woken->get_future().wait_for(1s) == std::future_status::ready;
    rpc.end_watch(watch);
  }
  EXPECT_TRUE(found);
  rpc.close();
}

// 256 acquisitions in flight on eight names, of two clients.
TEST(EtcdBatchTest, TokensOfANameGrowStrictlyWithManyInFlight) {
  constexpr std::uint64_t kChains = 256, kNames = 8, kEach = 4;
  EtcdCluster etcd;
  std::mutex mutex;
  std::map<std::string, std::uint64_t> last;  // The token of each name.
  std::atomic<std::uint64_t> grants = 0;
  std::promise<void> over;

  struct Side {
    std::unique_ptr<Shop> shop;
    std::map<machine::AcquisitionId, std::string> waiting;  // On its loop.
    std::atomic<std::uint64_t> issue = 0;
  };
  Side sides[2];
  std::function<void(Side&, const std::string&, std::uint64_t)> next;
  const auto held = [&](Side& side, const std::string& name, std::uint64_t number,
                        machine::Token token, std::uint64_t left) {
    {
      const std::lock_guard lock(mutex);
      EXPECT_GT(token.counter, last[name]) << name;
      last[name] = token.counter;
    }
    (**side.shop).release(Shop::ticket_of(name, number), [&, name, left](auto ended) {
      EXPECT_TRUE(ended);
      if (++grants == kChains * kEach) return over.set_value();
      if (left > 1) next(side, name, left - 1);
    });
  };
  std::map<std::uint64_t, std::function<void(machine::Token)>> pushed[2];
  for (int i = 0; i < 2; ++i) {
    sides[i].shop =
        std::make_unique<Shop>(etcd.url("?session=60s"), [&, i](const port::Push& push) {
          const auto found = pushed[i].find(push.id.low);
          if (push.kind != port::Push::Kind::kGranted || found == pushed[i].end()) return;
          const auto grant = std::move(found->second);
          pushed[i].erase(found);
          grant(push.state.token);
        });
  }
  next = [&](Side& side, const std::string& name, std::uint64_t left) {
    const int at = &side == &sides[0] ? 0 : 1;
    const std::uint64_t number = ++side.issue;
    (**side.shop)
        .acquire(Shop::asking_for(name, number, /*may_wait=*/true, 30s),
                 [&, at, name, number, left](Result<port::AcquisitionState> state) {
                   ASSERT_TRUE(state) << state.error().message();
                   if (state->status == port::AcquisitionStatus::kHeld) {
                     return held(side, name, number, state->token, left);
                   }
                   ASSERT_EQ(state->status, port::AcquisitionStatus::kWaiting);
                   pushed[at][number] = [&, name, number, left](machine::Token token) {
                     held(side, name, number, token, left);
                   };
                 });
  };
  const double before = transactions(etcd);
  for (Side& side : sides) {
    side.shop->on_loop([&] {
      for (std::uint64_t i = 0; i < kChains / 2; ++i) {
        next(side, "hot" + std::to_string(i % kNames), kEach);
      }
    });
  }
  ASSERT_EQ(over.get_future().wait_for(120s), std::future_status::ready) << grants;
  EXPECT_LT(transactions(etcd) - before, 2.0 * kChains * kEach) << "some went together";
  for (Side& side : sides) side.shop.reset();
}

}  // namespace
}  // namespace holdfast::stores::etcd
