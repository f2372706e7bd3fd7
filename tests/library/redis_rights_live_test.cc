// The rights that docs/stores/redis.md names suffice, and no more than those.
#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/holdfast.h"
#include "tests/support/redis_server.h"

namespace holdfast {
namespace {

using support::RedisServer;

// The words of the page's line behind "ACL SETUSER".
std::vector<std::string> documented_rights() {
  std::ifstream page(HOLDFAST_SOURCE_DIR "/docs/stores/redis.md");
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("ACL SETUSER ")) continue;
    std::istringstream words(line);
    std::vector<std::string> rights;
    for (std::string word; words >> word;) rights.push_back(word == ">SECRET" ? ">pass" : word);
    return rights;
  }
  return {};
}

class RedisRightsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_REDIS();
    server_ = std::make_unique<RedisServer>();
    const auto rights = documented_rights();
    ASSERT_GT(rights.size(), 10U) << "docs/stores/redis.md has no line that sets up a user";
    server_->must(rights);
    server_->must({"CONFIG", "SET", "requirepass", "admin"});
  }
  std::string url() const { return server_->url({.user = "holdfast", .password = "pass"}); }

  std::unique_ptr<RedisServer> server_;
};

TEST_F(RedisRightsTest, TheDocumentedUserCanDoAllThatLocksNeed) {
  auto client = Client::connect(url());
  ASSERT_TRUE(client) << client.error().message();
  auto mutex = client->mutex("orders/{42}");
  auto first = mutex.acquire();
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_TRUE(first->renew());

  auto other = Client::connect(url());
  ASSERT_TRUE(other);
  std::optional<Result<Lease>> second;
  std::thread waiter(
      [&] { second = other->mutex("orders/{42}").acquire({.wait = std::chrono::seconds(10)}); });
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::size_t waiting = 0;
  while (waiting == 0 && std::chrono::steady_clock::now() < until) {
    const auto lock = client->inspect("orders/{42}");
    ASSERT_TRUE(lock) << lock.error().message();
    waiting = *lock ? (*lock)->waiters.size() : 0;
  }
  EXPECT_TRUE(first->release());
  waiter.join();
  ASSERT_TRUE(*second) << second->error().message();
  EXPECT_GT((*second)->token(), first->token());

  const auto locks = client->list();
  ASSERT_TRUE(locks) << locks.error().message();
  EXPECT_EQ(locks->size(), 1U);
  EXPECT_TRUE(client->break_lock("orders/{42}", (*second)->token(), "test"));
  const auto report = client->doctor();
  ASSERT_TRUE(report) << report.error().message();
}

TEST_F(RedisRightsTest, TheDocumentedUserCanReadNothingElse) {
  server_->must({"ACL", "SETUSER", "default", "on", "nopass"});
  auto connection = server_->connect();
  ASSERT_FALSE(connection.command({"AUTH", "holdfast", "pass"}).is_error());
  EXPECT_EQ(connection.command({"GET", "accounts"}).error_code(), "NOPERM");
  EXPECT_EQ(connection.command({"FLUSHALL"}).error_code(), "NOPERM");
  EXPECT_EQ(connection.command({"EVAL", "return redis.call('GET', 'accounts')", "0"}).is_error(),
            true);
}

}  // namespace
}  // namespace holdfast
