// A thousand threads of one client that wait for one lock: its connections stay three, and a
// release costs the server what it costs beside twenty.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "tests/support/eventually.h"
#include "tests/support/postgres_server.h"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;
using support::PostgresServer;

// Whoever gets the lock hands it to the test, which releases it.
class Crowd {
 public:
  explicit Crowd(Client client) : client_(std::move(client)) {}
  ~Crowd() {
    static_cast<void>(client_.close());  // Ends every wait.
    for (std::thread& thread : threads_) thread.join();
  }

  void add_waiter() {
    threads_.emplace_back([this] {
      auto lease = client_.mutex("orders").acquire({.wait = 1h, .ttl = 1h});
      if (!lease) return;
      const std::lock_guard lock(mutex_);
      held_ = *std::move(lease);
      changed_.notify_all();
    });
  }

  std::optional<Lease> next() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 60s, [this] { return held_.has_value(); });
    return std::exchange(held_, std::nullopt);
  }

 private:
  Client client_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Lease> held_;
  std::vector<std::thread> threads_;
};

// A sanitizer's host does not get through the heartbeats of more.
#if defined(HOLDFAST_SANITIZED)
constexpr int kCrowd = 100;
#else
constexpr int kCrowd = 1000;
#endif

class PostgresThreadsTest : public ::testing::Test {
 protected:
  // A release reads and writes, and this client tells itself. The rest is for heartbeats.
  static constexpr std::int64_t kFew = 10;

  static std::int64_t ask(const PostgresServer& server, const std::string& question) {
    return std::stoll(server.sql(question));
  }
  static std::int64_t statements(const PostgresServer& server) {
    return ask(server, "SELECT sum(calls) FROM pg_stat_statements WHERE query LIKE '%holdfast%'");
  }
};

TEST_F(PostgresThreadsTest, AThousandThreadsOfAClientShareItsConnectionsAndItsWakeUps) {
  HOLDFAST_NEEDS_POSTGRES();
  const PostgresServer server(
      {.tcp = true, .settings = {"shared_preload_libraries=pg_stat_statements"}});
  server.sql("CREATE EXTENSION pg_stat_statements");
  auto client = Client::connect("postgres://postgres@127.0.0.1:" + std::to_string(server.port()) +
                                "/postgres",
                                {.request_timeout = 30s});
  ASSERT_TRUE(client) << client.error().message();
  Crowd crowd(*client);
  crowd.add_waiter();
  auto held = crowd.next();
  ASSERT_TRUE(held);
  int waiters = 0;
  for (const int wanted : {20, kCrowd}) {
    for (; waiters < wanted; ++waiters) crowd.add_waiter();
    ASSERT_TRUE(support::eventually([&] {
      return ask(server, "SELECT count(*) FROM holdfast.tickets") == waiters + 1;
    }));
    // The least of some: heartbeats go on in between, more of them on a busy machine. Were all
    // waiters woken, each release would cost more.
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (int i = 0; i < 15 && least > kFew; ++i, --waiters) {
      const std::int64_t before = statements(server);
      const Result<void> released = held->release();
      ASSERT_TRUE(released) << released.error().message();
      held = crowd.next();
      ASSERT_TRUE(held);
      least = std::min(least, statements(server) - before);
    }
    RecordProperty("statements_beside_" + std::to_string(wanted), std::to_string(least));
    EXPECT_LE(least, kFew) << "beside " << wanted;
  }
  EXPECT_LE(ask(server, "SELECT count(*) FROM pg_stat_activity WHERE application_name = "
                        "'holdfast'"),
            3);
}

}  // namespace
}  // namespace holdfast::testing
