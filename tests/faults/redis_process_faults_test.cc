// Processes that use one Redis, each with a library of its own: killed, stopped, forked. And how
// much they ask while they wait.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/faults/dead_waiters.h"
#include "tests/faults/redis_harness.h"

namespace holdfast::faults {
namespace {

class RedisProcessFaultsTest : public RedisFaults {
 protected:
  void SetUp() override {
    RedisFaults::SetUp();
    if (IsSkipped()) return;
    server_.emplace();
  }

  std::string url() const { return server_->url(); }

  std::optional<RedisServer> server_;
};

TEST_F(RedisProcessFaultsTest, TwoProcessesCountWithoutLosingAStep) {
  const support::TempFolder folder;
  ActorProcess left(url());
  ActorProcess right(url());
  const std::string log = folder.file("log");
  const std::string end = folder.file("end");
  std::fclose(std::fopen(end.c_str(), "w"));
  const std::string order = "count " + folder.file("resource") + " " + log + " a 5000 100 " + end;
  left.send(order);
  right.send(order);
  EXPECT_EQ(left.answer(20s).number("done"), 100);
  EXPECT_EQ(right.answer(20s).number("done"), 100);
  ActorProcess last(url());
  ASSERT_EQ(last.ask("acquire a 5000").word, "granted");
}

TEST_F(RedisProcessFaultsTest, AKilledHoldersLockGoesOnAfterItsLeaseAndNotBefore) {
  ActorProcess holder(url());
  ActorProcess waiter(url());
  ASSERT_EQ(holder.ask("acquire a 1000").word, "granted");
  waiter.queue_up("a", 1s);
  ASSERT_EQ(holder.ask("renew").word, "ok");
  const Line last = holder.ask("state");
  const std::int64_t killed = holder.kill();
  const Line next = waiter.answer();
  ASSERT_EQ(next.word, "granted") << next.get("text");
  EXPECT_GE(next.number("at"), last.number("deadline")) << "while the dead one's lease ran";
  EXPECT_LE(next.number("at") - killed, ns(2s));
  EXPECT_GT(next.get("token"), last.get("token"));
}

TEST_F(RedisProcessFaultsTest, AStoppedHolderKnowsItsLossAndItsLateRequestsChangeNothing) {
  const support::TempFolder folder;
  const std::string file = folder.file("resource");
  ActorProcess first(url());
  ActorProcess second(url());
  ASSERT_EQ(first.ask("acquire a 1000").word, "granted");
  ASSERT_EQ(first.ask("write " + file + " 1").word, "written");
  second.queue_up("a", 1s);
  first.stop();
  const Line taken = second.answer();
  ASSERT_EQ(taken.word, "granted") << taken.get("text");
  ASSERT_EQ(second.ask("write " + file + " 2").word, "written");
  first.resume();
  const Line after = first.ask("state");
  EXPECT_EQ(after.get("held"), "no");
  EXPECT_GE(taken.number("at"), after.number("deadline")) << "two believed to hold";
  EXPECT_EQ(first.event("lost").get("code"), "kLost");
  EXPECT_EQ(first.ask("write " + file + " 3").word, "refused");
  EXPECT_EQ(first.ask("release").get("code"), "kLost");
  EXPECT_EQ(second.ask("state").get("held"), "yes");
  EXPECT_EQ(second.ask("release").word, "ok");
}

class RedisDeadWaiterTest : public RedisProcessFaultsTest,
                            public testing::WithParamInterface<Deaths> {};

INSTANTIATE_TEST_SUITE_P(Places, RedisDeadWaiterTest, all_places_of_death(),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(RedisDeadWaiterTest, TheOthersGetItInOrderWithinTheDeadOnesLease) {
  expect_that_dead_waiters_cost_one_lease(url(), GetParam().dead);
}

// --- fork()

TEST_F(RedisProcessFaultsTest, AForkedChildHoldsNothingAndConnectsAnew) {
  ActorProcess parent(url());
  ActorProcess other(url());
  ASSERT_EQ(parent.ask("acquire a 1000").word, "granted");
  other.queue_up("a", 1s);
  const Line child = parent.ask("fork-look exit");
  EXPECT_EQ(child.get("status"), "0");
  EXPECT_EQ(child.get("held"), "no");
  for (const char* call : {"renew", "release", "acquire", "inspect", "close"}) {
    EXPECT_EQ(child.get(call), "kClosed") << call;
  }
  EXPECT_EQ(child.get("connect"), "ok") << child.get("text");
  EXPECT_EQ(child.get("same"), "kTimedOut");
  EXPECT_EQ(child.get("own_release"), "ok");
  EXPECT_EQ(parent.ask("state").get("held"), "yes");
  EXPECT_EQ(parent.ask("renew").word, "ok");
  EXPECT_EQ(parent.ask("release").word, "ok");
  EXPECT_EQ(other.answer().word, "granted");
  EXPECT_EQ(parent.ask("exec-list").get("text"), "none");
}

TEST_F(RedisProcessFaultsTest, ChildrenMayBeMadeWhileOtherThreadsUseTheStore) {
  ActorProcess parent(url());
  const Line stormed = parent.ask("fork-storm 20", 30s);
  ASSERT_EQ(stormed.word, "stormed");
  EXPECT_EQ(stormed.number("failed"), 0);
}

std::map<std::string, std::int64_t> counts_but_the_harness(RedisServer& server) {
  auto counts = server.command_counts();
  counts.erase("info");
  counts.erase("client|list");
  return counts;
}

// The ids of the connections, in their order.
std::string connections(RedisServer& server) {
  std::istringstream lines(server.must({"CLIENT", "LIST"}).text);
  std::string ids;
  for (std::string line; std::getline(lines, line);) ids += line.substr(0, line.find(' ')) + " ";
  return ids;
}

TEST_F(RedisProcessFaultsTest, AForkedChildSendsNothingAndClosesNothing) {
  Peer one(url());
  auto lease = std::make_optional(one.hold("a", 60s));
  Lease queued_for = one.hold("b", 60s);
  ASSERT_TRUE(await_subscribers(*server_, 1));
  const auto before = counts_but_the_harness(*server_);
  const std::string connected = connections(*server_);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool held = lease->held();
    static_cast<void>(lease->renew());
    static_cast<void>(lease->release());
    static_cast<void>(one.client().mutex("c").try_acquire());
    static_cast<void>(one.client().inspect("a"));
    lease.reset();
    static_cast<void>(one.client().close());
    ::_exit(held ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(counts_but_the_harness(*server_), before);
  EXPECT_EQ(connections(*server_), connected);
  EXPECT_TRUE(lease->renew());
  EXPECT_TRUE(lease->release());
  EXPECT_TRUE(queued_for.release());
}

// --- How much is asked while all wait

TEST_F(RedisProcessFaultsTest, WhileSixteenWaitTheServerHearsHeartbeatsOnly) {
  constexpr int kWaiters = 16;
  constexpr auto kWatched = 2s;
  Peer holder(url());
  Lease lease = holder.hold("a", 30s);
  std::vector<std::unique_ptr<Peer>> peers;
  std::vector<std::unique_ptr<Waiter>> waiters;
  for (int i = 0; i < kWaiters; ++i) {
    peers.push_back(std::make_unique<Peer>(url()));
    waiters.push_back(std::make_unique<Waiter>(*peers.back(), "a", 30s));
    waiters.back()->await_queued();
  }
  ASSERT_TRUE(lease.renew()) << "the server knows the script";
  server_->reset_counts();
  let_pass(kWatched);
  std::int64_t calls_of_clients = 0;
  for (const auto& [command, calls] : counts_but_the_harness(*server_)) {
    // The server also counts the commands that scripts call.
    if (command == "evalsha" || command == "ping") calls_of_clients += calls;
    EXPECT_NE(command, "eval");
    EXPECT_NE(command, "publish");
    EXPECT_NE(command, "subscribe");
  }
  const std::int64_t beats = server_->command_count("evalsha");
  // One a second each, and the subscriptions' own sign of life every five seconds.
  EXPECT_GE(beats, kWaiters);
  EXPECT_LE(beats, kWaiters * 3);
  EXPECT_LE(calls_of_clients - beats, kWaiters);
  ASSERT_TRUE(lease.release());
  for (auto& waiter : waiters) EXPECT_TRUE(waiter->grant().release());
}

}  // namespace
}  // namespace holdfast::faults
