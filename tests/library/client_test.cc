// Views of locks through a client, and namespaces.
#include <condition_variable>
#include <mutex>

#include "tests/library/fixture.h"

namespace holdfast::testing {

class ClientTest : public LibraryTest {};
HOLDFAST_ON_EVERY_STORE(ClientTest);

TEST_P(ClientTest, InspectTellsWhoHoldsAndWhy) {
  const Client alice = connect({.owner = "alice", .program = "billing"});
  const Lease lease = take(alice.mutex("orders"), {.ttl = 30s, .reason = "nightly run"});
  const auto info = connect().inspect("orders");
  ASSERT_TRUE(info && *info);
  ASSERT_EQ((*info)->holders.size(), 1U);
  const HolderInfo& holder = (*info)->holders[0];
  EXPECT_EQ(holder.who.owner, "alice");
  EXPECT_EQ(holder.who.program, "billing");
  EXPECT_EQ(holder.who.reason, "nightly run");
  EXPECT_EQ(holder.who.pid, ::getpid());
  EXPECT_FALSE(holder.who.host.empty());
  EXPECT_EQ(holder.token, lease.token());
  EXPECT_GT(holder.time_left, 20s);
  EXPECT_LE(holder.time_left, 30s);
  EXPECT_LT(std::chrono::abs(std::chrono::system_clock::now() - holder.who.since), 60s);
}

TEST_P(ClientTest, ATokenIsCurrentAsLongAsItsHold) {
  const Client alice = connect();
  const Client bob = connect();
  Lease lease = take(alice.mutex("orders"), {.ttl = 30s});
  const Token token = lease.token();
  if (!bob.guarantees().fenced) {
    EXPECT_TRUE(fails_with(bob.check("orders", {0, 1}), Errc::kUnsupported));
    return;
  }
  ASSERT_NE(token, Token{});
  EXPECT_TRUE(bob.check("orders", token).value());
  EXPECT_FALSE(bob.check("orders", {token.epoch, token.counter + 1}).value());
  EXPECT_FALSE(bob.check("orders", {token.epoch, token.counter - 1}).value());
  EXPECT_FALSE(bob.check("never/used", token).value());
  EXPECT_TRUE(fails_with(bob.check("orders", {}), Errc::kInvalidArgument));
  ASSERT_TRUE(lease.release());
  EXPECT_FALSE(bob.check("orders", token).value());
  const Lease next = take(bob.mutex("orders"), {.ttl = 30s});
  EXPECT_FALSE(alice.check("orders", token).value());
  EXPECT_TRUE(alice.check("orders", next.token()).value());
  ASSERT_TRUE(alice.break_lock("orders", next.token(), "maintenance"));
  EXPECT_FALSE(bob.check("orders", next.token()).value());
}

TEST_P(ClientTest, EachReadersTokenIsCurrent) {
  const Client client = connect();
  if (!client.guarantees().shared || !client.guarantees().fenced) {
    GTEST_SKIP() << "no shared locks with tokens";
  }
  const Lease first = client.acquire("doc", Mode::shared()).value();
  Lease second = connect().acquire("doc", Mode::shared()).value();
  EXPECT_TRUE(client.check("doc", first.token()).value());
  EXPECT_TRUE(client.check("doc", second.token()).value());
  ASSERT_TRUE(second.release());
  EXPECT_TRUE(client.check("doc", first.token()).value());
  if (second.token() == first.token()) return;
  EXPECT_FALSE(client.check("doc", second.token()).value());
}

TEST_P(ClientTest, ListIsSortedAndByPrefix) {
  const Client client = connect();
  const Lease b2 = take(client.mutex("b/2"));
  const Lease b1 = take(client.mutex("b/1"));
  const Lease a = take(client.mutex("a"));
  const auto locks = client.list("b/");
  ASSERT_TRUE(locks) << locks.error().message();
  ASSERT_EQ(locks->size(), 2U);
  EXPECT_EQ((*locks)[0].name, "b/1");
  EXPECT_EQ((*locks)[1].name, "b/2");
  EXPECT_EQ(client.list()->size(), 3U);
}

TEST_P(ClientTest, NamespacesDoNotMeet) {
  const Client app = connect_or_die(url("ns=app"));
  const Client other = connect_or_die(url("ns=other"));
  const Lease lease = take(app.mutex("orders"));
  EXPECT_EQ(lease.name(), "orders");
  EXPECT_TRUE(is_free(other.mutex("orders")));
  EXPECT_FALSE(is_free(connect_or_die(url("ns=app")).mutex("orders")));
  const auto listed = app.list();
  ASSERT_TRUE(listed);
  ASSERT_EQ(listed->size(), 1U);
  EXPECT_EQ(listed->front().name, "orders");
  const auto info = app.inspect("orders");
  ASSERT_TRUE(info && *info);
  EXPECT_EQ((*info)->name, "orders");
  EXPECT_TRUE(other.list()->empty());
}

// Collects what a watch has told, so that a test can wait for it.
class Told {
 public:
  std::function<void(const LockEvent&)> sink() {
    return [this](const LockEvent& event) {
      const std::lock_guard lock(mutex_);
      seen_.push_back(event);
      changed_.notify_all();
    };
  }
  bool has(LockEventKind kind) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] {
      return std::any_of(seen_.begin(), seen_.end(),
                         [&](const LockEvent& event) { return event.kind == kind; });
    });
  }
  std::vector<LockEvent> all() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<LockEvent> seen_;
};

TEST_P(ClientTest, AWatchTellsOfGrantAndRelease) {
  const Client client = connect();
  Told told;
  auto watch = client.watch("w/", told.sink());
  ASSERT_TRUE(watch) << watch.error().message();
  Lease lease = take(connect().mutex("w/1"));
  const Lease elsewhere = take(connect().mutex("x/1"));
  EXPECT_TRUE(told.has(LockEventKind::kGranted));
  ASSERT_TRUE(lease.release());
  EXPECT_TRUE(told.has(LockEventKind::kReleased));
  *watch = Watch();
  for (const LockEvent& event : told.all()) EXPECT_EQ(event.name, "w/1");
}

TEST_P(ClientTest, AWatchTellsABreakFromAReleaseThoughNobodyWaits) {
  const Client client = connect();
  Told told;
  const Lease lease = take(connect().mutex("w/1"));
  const auto watch = client.watch("w/", told.sink());
  ASSERT_TRUE(watch) << watch.error().message();
  ASSERT_TRUE(client.break_lock("w/1", lease.token(), "a test"));
  ASSERT_TRUE(told.has(LockEventKind::kBroken));
  ASSERT_EQ(told.all().size(), 1U);
  EXPECT_EQ(told.all().front().token, lease.token());

  // The trace stays, and the next holder's release is told as one all the same.
  Lease next = take(connect().mutex("w/1"));
  ASSERT_TRUE(told.has(LockEventKind::kGranted));
  ASSERT_TRUE(next.release());
  ASSERT_TRUE(told.has(LockEventKind::kReleased));
  int broken = 0;
  for (const LockEvent& event : told.all()) broken += event.kind == LockEventKind::kBroken ? 1 : 0;
  EXPECT_EQ(broken, 1);
}

TEST_P(ClientTest, TheDoctorFindsAFreshStoreHealthy) {
  const auto report = connect().doctor();
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_FALSE(report->findings.empty());
  for (const Finding& finding : report->findings) {
    EXPECT_NE(finding.severity, Severity::kProblem) << finding.what;
  }
  EXPECT_EQ(report->guarantees.store, GetParam());
}

TEST_P(ClientTest, UnknownUrlsAndOptionsAreRefused) {
  EXPECT_TRUE(fails_with(Client::connect(url("colour=red")), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(Client::connect(url("open_timeout=0")), Errc::kInvalidArgument));
  EXPECT_TRUE(Client::connect(url("open_timeout=1h")));
  EXPECT_TRUE(Client::connect(url("open_timeout=1h"), {.open_timeout = 2h}));
  EXPECT_TRUE(fails_with(Client::connect(url(), {.open_timeout = -1s}), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(Client::connect("nonsense"), Errc::kInvalidArgument));
  EXPECT_FALSE(Client::connect("carrier-pigeon:coop"));
  const auto ttl = Client::connect(url("ttl=soon"));
  EXPECT_TRUE(fails_with(ttl, Errc::kInvalidArgument));
}

TEST_P(ClientTest, TheUrlsTtlIsTheDefault) {
  const Client client = connect_or_die(url("ttl=7s"));
  const Lease lease = take(client.mutex("orders"));
  EXPECT_GT(lease.remaining(), 5s);
  EXPECT_LE(lease.remaining(), 7s);
}

TEST_P(ClientTest, NamesHaveTheirLeasesByTheLongestPrefix) {
  ClientOptions options;
  options.names = {{"batch/", 300s, {}}, {"pay", 60s, 0ms}, {"payment/", 40s, 0ms}};
  const Client client = connect_or_die(url("ttl=10s"), options);
  const auto left = [&](const char* name, AcquireOptions wanted = {}) {
    Lease lease = take(client.mutex(name), std::move(wanted));
    const auto remaining = lease.remaining();
    EXPECT_TRUE(lease.release());  // At once: the next request for the name may not wait.
    return remaining;
  };
  // A lease that is part of a session lasts no longer than that.
  if (!client.guarantees().bound_to_client) {
    EXPECT_GT(left("batch/1"), 200s);
    EXPECT_GT(left("pay-roll"), 50s);
    EXPECT_GT(left("payment/1"), 30s);
  }
  EXPECT_LE(left("payment/1"), 40s);
  EXPECT_LE(left("payment/1", {.ttl = 5s}), 5s);
  EXPECT_LE(left("other"), 10s);
  const Lease held = take(client.mutex("payment/1"));
  EXPECT_TRUE(fails_with(client.mutex("payment/1").acquire(), Errc::kTimedOut));
  options.names = {{"payment/", 50ms, {}}};
  const auto bad = Client::connect(url(""), options);
  ASSERT_TRUE(fails_with(bad, Errc::kInvalidArgument));
  EXPECT_NE(bad.error().message().find("payment/"), std::string::npos);
}

}  // namespace holdfast::testing
