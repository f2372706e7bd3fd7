// Steps that the calling thread carries out on a connection of its own, under faults.
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "src/base/random.h"
#include "src/stores/memcached/memcached_store.h"
#include "src/stores/memcached/protocol/replies.h"
#include "tests/conformance/harness.h"
#include "tests/support/eventually.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/memcached_server.h"

namespace holdfast::testing {
namespace {

using support::eventually;
using support::Fault;
using support::FaultProxy;
using support::MemcachedServer;

class PortSite final : public Site {
 public:
  explicit PortSite(std::uint16_t port) : port_(port) {}
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    const std::string url =
        "memcached://127.0.0.1:" + std::to_string(port_) + "?connect_timeout=500ms";
    return stores::make_memcached_store(*port::StoreUrl::parse(url), context);
  }
  void pass(Duration time) override { std::this_thread::sleep_for(time); }

 private:
  const std::uint16_t port_;
};

class MemcachedInlineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_MEMCACHED();
    server_.emplace();
    proxy_.emplace(support::ProxyOptions{.server_port = server_->port()});
    slow_.emplace(proxy_->port());
    fast_.emplace(server_->port());
    alice_.emplace(*slow_, "alice");
    bob_.emplace(*fast_, "bob");
  }

  using Answer = std::optional<Result<AcquisitionState>>;

  static std::string the_key() { return stores::memcached::key_of("lock"); }
  static AcquisitionId fresh() {
    const auto random = base::random_128();
    return {random.high, random.low};
  }
  static bool is(const Answer& answer, AcquisitionStatus status) {
    return answer && *answer && (*answer)->status == status;
  }
  bool takes(Client& who, AcquisitionId id) {
    const auto state = who.acquire(Request("lock", id).no_wait());
    return state && state->status == AcquisitionStatus::kHeld;
  }
  bool is_free() const {
    return server_->command("mg " + the_key() + " c").find("EN\r") != std::string::npos;
  }
  std::uint64_t requests() const {
    return server_->stat("cmd_get") + server_->stat("cmd_set") + server_->stat("delete_hits") +
           server_->stat("delete_misses");
  }

  std::optional<MemcachedServer> server_;
  std::optional<FaultProxy> proxy_;
  std::optional<PortSite> slow_, fast_;
  std::optional<Client> alice_, bob_;
};

TEST_F(MemcachedInlineTest, APairIsTwoRequestsAndWhatTheMachineWouldWrite) {
  const AcquisitionId id = fresh();
  const std::uint64_t before = requests();
  ASSERT_TRUE(is(alice_->acquire_inline(Request("lock", id)), AcquisitionStatus::kHeld));
  EXPECT_EQ(requests(), before + 1);
  const auto seen = bob_->inspect("lock");
  ASSERT_TRUE(seen && *seen);
  ASSERT_EQ((*seen)->holders.size(), 1U);
  const auto ended = alice_->release_inline("lock", id);
  ASSERT_TRUE(ended && *ended);
  EXPECT_EQ(**ended, EndStatus::kReleased);
  EXPECT_EQ(requests(), before + 3);  // The one that looked is among them.
  EXPECT_TRUE(is_free());
}

TEST_F(MemcachedInlineTest, ALockInUseIsLeftToTheLoopWhichDoesNotGuessAgain) {
  const AcquisitionId first = fresh(), second = fresh();
  ASSERT_TRUE(takes(*bob_, first));
  const Request request = Request("lock", second).no_wait();
  EXPECT_FALSE(alice_->acquire_inline(request));
  const std::uint64_t writes = server_->stat("cmd_set");
  EXPECT_EQ(alice_->acquire(request)->status, AcquisitionStatus::kBusy);
  EXPECT_EQ(server_->stat("cmd_set"), writes);
}

TEST_F(MemcachedInlineTest, AReleaseWhereAnotherWaitsHandsTheLockOn) {
  const AcquisitionId first = fresh(), second = fresh();
  ASSERT_TRUE(is(alice_->acquire_inline(Request("lock", first)), AcquisitionStatus::kHeld));
  ASSERT_EQ(bob_->acquire(Request("lock", second))->status, AcquisitionStatus::kWaiting);
  EXPECT_FALSE(alice_->release_inline("lock", first));
  EXPECT_EQ(*alice_->release("lock", first), EndStatus::kReleased);
  const auto told = bob_->inbox().next(second);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->kind, Push::Kind::kGranted);
}

// The lease that the renewal wrote goes with the release, too.
TEST_F(MemcachedInlineTest, ARenewedLockIsReleasedByTheLoop) {
  const AcquisitionId id = fresh();
  ASSERT_TRUE(is(alice_->acquire_inline(Request("lock", id)), AcquisitionStatus::kHeld));
  ASSERT_EQ(alice_->renew("lock", id, 1)->status, AcquisitionStatus::kHeld);
  EXPECT_FALSE(alice_->release_inline("lock", id));
  EXPECT_EQ(*alice_->release("lock", id), EndStatus::kReleased);
  EXPECT_TRUE(is_free());
}

TEST_F(MemcachedInlineTest, AGrantWhoseReplyIsLostIsUnknownAndFoundAgain) {
  const AcquisitionId id = fresh();
  const int lost =
      proxy_->add({.kind = Fault::Kind::kDropReplies, .containing = "ms " + the_key(), .times = 1});
  const Answer answer = alice_->acquire_inline(Request("lock", id));
  ASSERT_TRUE(proxy_->wait_for_hits(lost));
  ASSERT_TRUE(answer && !*answer);
  EXPECT_EQ(answer->error().code(), Errc::kOutcomeUnknown);
  EXPECT_EQ(alice_->acquire(Request("lock", id))->status, AcquisitionStatus::kHeld);
  EXPECT_EQ(*alice_->release("lock", id), EndStatus::kReleased);
  EXPECT_TRUE(takes(*bob_, fresh()));
}

// The request that was given up arrives when the acquisition has long ended.
TEST_F(MemcachedInlineTest, AGrantThatArrivesAfterTheReleaseChangesNothing) {
  const AcquisitionId id = fresh();
  const int held =
      proxy_->add({.kind = Fault::Kind::kHold, .containing = "ms " + the_key(), .times = 1});
  const Answer answer = alice_->acquire_inline(Request("lock", id));
  ASSERT_TRUE(answer && !*answer);
  EXPECT_EQ(answer->error().code(), Errc::kOutcomeUnknown);
  EXPECT_EQ(alice_->acquire(Request("lock", id))->status, AcquisitionStatus::kHeld);
  EXPECT_EQ(*alice_->release("lock", id), EndStatus::kReleased);
  const auto before = proxy_->stats().replies_to_the_gone;
  proxy_->remove(held);
  ASSERT_TRUE(proxy_->wait_for(
      [&](const support::ProxyStats& stats) { return stats.replies_to_the_gone > before; }));
  EXPECT_TRUE(takes(*bob_, fresh()));
}

TEST_F(MemcachedInlineTest, AnAcquireThatIsCancelledOnItsWayHoldsNothing) {
  const AcquisitionId id = fresh();
  const int held =
      proxy_->add({.kind = Fault::Kind::kHold, .containing = "ms " + the_key(), .times = 1});
  // The request ends by itself only long after the cancel.
  Request request("lock", id);
  request.deadline = base::BootClock::now() + 10s;
  auto answer =
      std::async(std::launch::async, [&] { return alice_->store().acquire_inline(request); });
  ASSERT_TRUE(proxy_->wait_for_hits(held));
  EXPECT_EQ(*alice_->cancel("lock", id), EndStatus::kGone);
  proxy_->remove(held);
  EXPECT_FALSE(answer.get());
  EXPECT_TRUE(eventually([&] { return takes(*bob_, fresh()); }));
}

TEST_F(MemcachedInlineTest, AReleaseWhoseReplyIsLostIsDoneByTheLoop) {
  const AcquisitionId id = fresh();
  ASSERT_TRUE(is(alice_->acquire_inline(Request("lock", id)), AcquisitionStatus::kHeld));
  proxy_->add({.kind = Fault::Kind::kDropReplies, .containing = "md " + the_key(), .times = 1});
  EXPECT_FALSE(alice_->release_inline("lock", id));
  EXPECT_TRUE(alice_->release("lock", id));
  EXPECT_TRUE(takes(*bob_, fresh()));
}

// Both servers give their first document the same number.
TEST_F(MemcachedInlineTest, ANumberFromBeforeARestartReleasesNobodyElsesLock) {
  const AcquisitionId old = fresh(), own = fresh();
  ASSERT_TRUE(is(alice_->acquire_inline(Request("lock", old)), AcquisitionStatus::kHeld));
  server_->kill9();
  server_->start();
  ASSERT_TRUE(eventually([&] { return takes(*bob_, own); }));
  EXPECT_FALSE(alice_->release_inline("lock", old));
  EXPECT_EQ(bob_->renew("lock", own, 1)->status, AcquisitionStatus::kHeld);
}

TEST_F(MemcachedInlineTest, ClosingEndsACallThatIsUnderWay) {
  const int held = proxy_->add({.kind = Fault::Kind::kHold, .containing = "ms " + the_key()});
  Request request("lock", fresh());
  request.deadline = base::BootClock::now() + 60s;
  auto answer =
      std::async(std::launch::async, [&] { return alice_->store().acquire_inline(request); });
  ASSERT_TRUE(proxy_->wait_for_hits(held));
  const auto begin = base::BootClock::now();
  alice_->close(0ms);
  const Answer ended = answer.get();
  EXPECT_LT(base::BootClock::now() - begin, 5s);
  ASSERT_TRUE(ended && !*ended);
  EXPECT_EQ(ended->error().code(), Errc::kOutcomeUnknown);
}

}  // namespace
}  // namespace holdfast::testing
