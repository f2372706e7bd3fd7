// The server answers, but not what was asked for: it cannot, or may not, do it now.
#include <filesystem>

#include "holdfast/job_lock.h"
#include "tests/faults/redis_harness.h"

namespace holdfast::faults {
namespace {

class RedisRefusalFaultsTest : public RedisFaults {
 protected:
  void start(support::RedisOptions options = {}) {
    server_.emplace(std::move(options));
    one_.emplace(server_->url());
    other_.emplace(server_->url());
    // Their connections and scripts are there.
    EXPECT_TRUE(one_->hold("warm", 5s).release());
    EXPECT_TRUE(other_->hold("warm", 5s).release());
  }

  void expect_refusal(Peer& peer, const std::string& word) {
    const Error refused = peer.refusal("new");
    EXPECT_EQ(refused.code(), Errc::kUnavailable) << refused.message();
    EXPECT_NE(refused.message().find(word), std::string::npos) << refused.message();
  }

  // The holder goes on, is released, and the next one gets the lock with a higher token.
  void expect_all_is_well(Lease& lease) {
    EXPECT_TRUE(server_->eventually([&](RedisServer&) { return lease.renew().has_value(); }, 3s));
    EXPECT_TRUE(lease.held());
    EXPECT_TRUE(lease.release());
    Lease next = other_->hold(lease.name(), 5s);
    EXPECT_GT(next.token(), lease.token());
  }

  std::optional<RedisServer> server_;
  std::optional<Peer> one_;
  std::optional<Peer> other_;
};

// --- READONLY

TEST_F(RedisRefusalFaultsTest, AServerThatBecomesAReplicaRefusesUntilItIsNoneAnyMore) {
  start();
  Lease lease = one_->hold("a", 5s);
  LossWatch loss(lease);
  // A replica of an absent primary keeps what it has.
  server_->must({"REPLICAOF", "127.0.0.1", "1"});
  expect_refusal(*other_, "replica");
  EXPECT_FALSE(lease.renew());
  EXPECT_TRUE(lease.held()) << "its lease has not ended";
  server_->must({"REPLICAOF", "NO", "ONE"});
  expect_all_is_well(lease);
  EXPECT_FALSE(loss.told());
}

TEST_F(RedisRefusalFaultsTest, AJobThatIsDroppedMeanwhileIsLetGoOfAfterwards) {
  start();
  auto job = one_->client().job_lock("job", {.at_least_for = 2s}).try_acquire({.ttl = 60s});
  ASSERT_TRUE(job && *job);
  server_->must({"REPLICAOF", "127.0.0.1", "1"});
  expect_refusal(*other_, "replica");
  EXPECT_EQ((*job)->release().error().code(), Errc::kUnavailable);
  EXPECT_TRUE((*job)->held());
  job->reset();
  for (int i = 0; i < 3; ++i) expect_refusal(*one_, "replica");  // So is what was sent for it.
  server_->must({"REPLICAOF", "NO", "ONE"});
  const auto next = other_->client().mutex("job").acquire({.wait = 20s, .ttl = 5s});
  EXPECT_TRUE(next) << next.error().message();
}

// --- MASTERDOWN

TEST_F(RedisRefusalFaultsTest, AReplicaThatMayNotServeStaleDataIsWaitedFor) {
  start();
  Lease lease = one_->hold("a", 10s);
  LossWatch loss(lease);
  server_->config_set("replica-serve-stale-data", "no");
  server_->must({"REPLICAOF", "127.0.0.1", "1"});
  expect_refusal(*other_, "MASTERDOWN");
  expect_refusal(*other_, "retry");
  EXPECT_FALSE(lease.renew());
  EXPECT_TRUE(lease.held());
  server_->must({"REPLICAOF", "NO", "ONE"});
  expect_all_is_well(lease);
  EXPECT_FALSE(loss.told());
}

// --- Room for clients

TEST_F(RedisRefusalFaultsTest, AThousandClientsAreRememberedPerLockAndThenAllAreForgotten) {
  start();
  const std::string marks = key_of("a") + ":m";
  std::vector<std::string> others{"HSET", marks};
  for (int i = 0; i < 999; ++i) {
    others.push_back("client" + std::to_string(i));
    others.emplace_back("0000000000000001");
  }
  EXPECT_TRUE(one_->hold("a", 5s).release());
  server_->must(others);
  EXPECT_TRUE(other_->hold("a", 5s).release());
  EXPECT_EQ(server_->must({"HLEN", marks}).integer, 1000);
  EXPECT_TRUE(one_->hold("a", 5s).release());
  EXPECT_EQ(server_->must({"HLEN", marks}).integer, 1) << "the one that used it last";
}

// --- LOADING

TEST_F(RedisRefusalFaultsTest, AServerThatLoadsItsDataIsWaitedForAndForgetsNothing) {
  start();
  // It looks for requests after every 1024 bytes that it has loaded, which do not compress.
  const std::string value = [] {
    std::string text;
    for (std::uint32_t i = 0, x = 1; i < 2048; ++i) {
      x = x * 1664525U + 1013904223U;
      text += static_cast<char>(x >> 24U);
    }
    return text;
  }();
  for (int i = 0; i < 100; ++i) server_->must({"SET", "other" + std::to_string(i), value});
  Lease lease = one_->hold("a", 10s);
  LossWatch loss(lease);
  Peer hasty(server_->url(), {.request_timeout = 300ms});
  server_->config_set("key-load-delay", "10000");  // Microseconds for each key.
  server_->config_set("loading-process-events-interval-bytes", "1024");
  RedisConnection debugger = server_->connect();
  debugger.send({"DEBUG", "RELOAD"});
  RedisConnection asker = server_->connect();
  while (asker.command({"GET", "x"}).error_code() != "LOADING") {
  }

  const Error refused = hasty.refusal("new");
  EXPECT_EQ(refused.code(), Errc::kUnavailable) << refused.message();
  EXPECT_NE(refused.message().find("load"), std::string::npos) << refused.message();
  EXPECT_TRUE(lease.held());
  // A client that connects now gets in when loading is done.
  Peer late(server_->url(), {.request_timeout = 5s});
  EXPECT_FALSE(late.try_hold("a", 5s));
  EXPECT_FALSE(debugger.read().is_error());
  expect_all_is_well(lease);
  EXPECT_FALSE(loss.told());
}

// --- OOM

TEST_F(RedisRefusalFaultsTest, AFullServerRefusesNewLocksButKeepsAndFreesThoseThatAreHeld) {
  start();
  Lease lease = one_->hold("a", 1500ms);
  LossWatch loss(lease);
  Lease queued_for = one_->hold("b", 1500ms);
  LossWatch no_loss(queued_for);
  Waiter waiter(*other_, "b", 1500ms);
  waiter.await_queued();
  Waiter leaver(*other_, "b", AcquireOptions{.wait = 2s, .ttl = 1500ms});
  leaver.await_queued();
  server_->config_set("maxmemory", "1");
  expect_refusal(*other_, "maxmemory");
  expect_refusal(*other_, "OOM");

  // Past the lease they had: they are renewed.
  EXPECT_EQ(leaver.take().error().code(), Errc::kTimedOut);
  EXPECT_EQ(other_->look("b").waiters.size(), 1U);
  EXPECT_TRUE(lease.renew()) << one_->journal().all();
  EXPECT_FALSE(loss.told());
  EXPECT_FALSE(no_loss.told());
  EXPECT_TRUE(lease.release());
  EXPECT_TRUE(queued_for.release());
  Lease next = waiter.grant();
  EXPECT_TRUE(next.renew());
  EXPECT_TRUE(other_->client().break_lock("b", next.token()));
  expect_refusal(*other_, "maxmemory");
  server_->config_set("maxmemory", "0");
  EXPECT_GT(other_->hold("a", 5s).token(), lease.token());
}

TEST_F(RedisRefusalFaultsTest, AFullServerLetsAJobGoForWhichOthersWait) {
  start();
  auto job = one_->client().job_lock("job", {.at_least_for = 500ms}).try_acquire({.ttl = 60s});
  ASSERT_TRUE(job && *job);
  Waiter waiter(*other_, "job", 5s);
  waiter.await_queued();
  server_->config_set("maxmemory", "1");
  const auto released = (*job)->release();
  EXPECT_TRUE(released) << released.error().message();
  EXPECT_GT(waiter.grant().token(), (*job)->token());
  server_->config_set("maxmemory", "0");
}

// --- MISCONF

TEST_F(RedisRefusalFaultsTest, AServerThatCannotSaveRefusesAndTheHolderIsToldInTime) {
  start({.save = "3600 1"});
  Lease lease = one_->hold("a", 1500ms);
  LossWatch loss(lease);
  Lease lasting = one_->hold("b", 30s);
  // A folder where the snapshot should be.
  const std::string snapshot = server_->data_folder() + "/dump.rdb";
  std::filesystem::remove(snapshot);
  std::filesystem::create_directory(snapshot);
  server_->must({"BGSAVE"});
  ASSERT_TRUE(server_->eventually([](RedisServer& asked) {
    return asked.info("persistence", "rdb_last_bgsave_status") == "err";
  }));
  expect_refusal(*other_, "MISCONF");
  EXPECT_NE(loss.await(), 0);
  EXPECT_GE(loss.await(), lease.deadline_boottime().count());
  EXPECT_TRUE(one_->journal().wait_for("MISCONF"));
  EXPECT_FALSE(lasting.renew());
  EXPECT_TRUE(lasting.held());

  std::filesystem::remove(snapshot);
  server_->must({"BGSAVE"});
  ASSERT_TRUE(server_->eventually([](RedisServer& asked) {
    return asked.info("persistence", "rdb_last_bgsave_status") == "ok";
  }));
  expect_all_is_well(lasting);
}

// --- BUSY

TEST_F(RedisRefusalFaultsTest, AScriptThatRunsForEverOnlyPutsOffWhatIsAsked) {
  start();
  Lease lease = one_->hold("a", 5s);
  LossWatch loss(lease);
  server_->config_set("busy-reply-threshold", "50");
  RedisConnection runaway = server_->connect();
  runaway.send({"EVAL", "while true do end", "0"});
  RedisConnection asker = server_->connect();
  while (asker.command({"GET", "x"}).error_code() != "BUSY") {
  }
  expect_refusal(*other_, "script");
  EXPECT_FALSE(lease.renew());
  EXPECT_TRUE(lease.held());
  EXPECT_FALSE(asker.command({"SCRIPT", "KILL"}).is_error());
  EXPECT_TRUE(runaway.read().is_error());
  expect_all_is_well(lease);
  EXPECT_FALSE(loss.told());
}

// --- Eviction: a declared cell.

TEST_F(RedisRefusalFaultsTest, AnEvictedLockIsLostToItsHolderAndTheDoctorWarnsOfThePolicy) {
  start();
  const auto good = one_->client().doctor();
  ASSERT_TRUE(good);
  EXPECT_TRUE(good->healthy());
  Lease lease = one_->hold("a", 1500ms);
  LossWatch loss(lease);
  server_->config_set("maxmemory-policy", "allkeys-random");
  const auto report = one_->client().doctor();
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->healthy());
  server_->config_set("maxmemory", "1");
  ASSERT_TRUE(server_->eventually([](RedisServer& asked) {
    return asked.command({"GET", key_of("a")}).is_nil();
  }));
  EXPECT_NE(loss.await(), 0);
  EXPECT_EQ(lease.loss()->code(), Errc::kLost);
  server_->config_set("maxmemory", "0");
  Lease next = other_->hold("a", 5s);
  EXPECT_GT(next.token(), lease.token());
  EXPECT_FALSE(lease.release());
  EXPECT_TRUE(next.renew());
}

}  // namespace
}  // namespace holdfast::faults
