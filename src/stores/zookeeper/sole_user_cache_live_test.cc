// A client's knowledge of a folder does not outlive the folder, on a real server.
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <zookeeper/zookeeper.h>

#include "holdfast/client.h"
#include "tests/support/zookeeper_server.h"

namespace holdfast::stores::zookeeper {
namespace {

using namespace std::chrono_literals;

constexpr char kFolder[] = "/hf1/locks/orders";

// Once: gets the contender's number 0, and so on.
void take_and_give_back(Mutex& mutex) {
  auto lease = mutex.acquire({.wait = 60s});
  ASSERT_TRUE(lease) << lease.error().message();
  ASSERT_TRUE(lease->release());
}

TEST(ZookeeperLonelyLiveTest, AFolderMadeAnewIsListedAgain) {
  HOLDFAST_NEEDS_ZOOKEEPER();
  support::ZookeeperServer server;
  zhandle_t* const raw =
      zookeeper_init(server.servers().c_str(), nullptr, 10'000, nullptr, nullptr, 0);
  auto one = Client::connect(server.url("/?session=10s"));
  auto other = Client::connect(server.url("/?session=10s"));
  ASSERT_TRUE(one && other);
  Mutex ours = one->mutex("orders"), theirs = other->mutex("orders");

  // One expects number 3 next, and to be alone then.
  for (int i = 0; i < 3; ++i) take_and_give_back(ours);
  // As the server does with a folder that is empty.
  int rc = ZCONNECTIONLOSS;
  while (rc == ZCONNECTIONLOSS) rc = zoo_delete(raw, kFolder, -1);
  ASSERT_EQ(rc, ZOK);
  // 0, 1 and 2 in the new folder.
  for (int i = 0; i < 2; ++i) take_and_give_back(theirs);
  auto held = theirs.acquire({.wait = 60s});
  ASSERT_TRUE(held) << held.error().message();

  auto refused = ours.try_acquire();
  ASSERT_TRUE(refused) << refused.error().message();
  EXPECT_FALSE(refused->has_value());
  zookeeper_close(raw);
}

TEST(ZookeeperLonelyLiveTest, WhoeverComesBetweenIsSeen) {
  HOLDFAST_NEEDS_ZOOKEEPER();
  support::ZookeeperServer server;
  auto one = Client::connect(server.url("/?session=10s"));
  auto other = Client::connect(server.url("/?session=10s"));
  ASSERT_TRUE(one && other);
  Mutex ours = one->mutex("orders"), theirs = other->mutex("orders");
  std::uint64_t last = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 3; ++i) take_and_give_back(ours);
    auto held = theirs.acquire({.wait = 60s});
    ASSERT_TRUE(held) << held.error().message();
    auto refused = ours.try_acquire();
    ASSERT_TRUE(refused) << refused.error().message();
    EXPECT_FALSE(refused->has_value());
    EXPECT_GT(held->token().counter, last);
    last = held->token().counter;
    ASSERT_TRUE(held->release());
  }
}

// One pair is a creation and a removal: nothing is listed.
TEST(ZookeeperLonelyLiveTest, AnUncontendedPairIsTwoRequests) {
  HOLDFAST_NEEDS_ZOOKEEPER();
  support::ZookeeperServer server;
  auto client = Client::connect(server.url("/?session=30s"));
  ASSERT_TRUE(client);
  Mutex mutex = client->mutex("orders");
  for (int i = 0; i < 3; ++i) take_and_give_back(mutex);
  const std::int64_t before = server.figure("zk_packets_received");
  for (int i = 0; i < 100; ++i) take_and_give_back(mutex);
  // And the session's beats.
  EXPECT_LT(server.figure("zk_packets_received") - before, 250);
}

// Its folder, its creation and its removal: nothing is looked for, nothing is listed.
TEST(ZookeeperLonelyLiveTest, APairOnANewNameIsThreeRequests) {
  HOLDFAST_NEEDS_ZOOKEEPER();
  support::ZookeeperServer server;
  auto client = Client::connect(server.url("/?session=30s"));
  ASSERT_TRUE(client);
  const auto pairs = [&client](const std::string& names, int count) {
    for (int i = 0; i < count; ++i) {
      Mutex mutex = client->mutex(names + std::to_string(i));
      take_and_give_back(mutex);
    }
  };
  pairs("first", 2);  // Nothing is known of new names before.
  const std::int64_t before = server.figure("zk_packets_received");
  pairs("new", 100);
  // And the session's beats.
  EXPECT_LT(server.figure("zk_packets_received") - before, 350);
}

// A client that makes folders ahead meets one that is there, and somebody in it.
TEST(ZookeeperLonelyLiveTest, AFolderThatWasMadeByAnotherIsListed) {
  HOLDFAST_NEEDS_ZOOKEEPER();
  support::ZookeeperServer server;
  auto one = Client::connect(server.url("/?session=10s"));
  auto other = Client::connect(server.url("/?session=10s"));
  ASSERT_TRUE(one && other);
  for (const char* name : {"a", "b", "c"}) {
    Mutex fresh = one->mutex(name);
    take_and_give_back(fresh);
  }
  Mutex ours = one->mutex("orders"), theirs = other->mutex("orders");
  auto held = theirs.acquire({.wait = 60s});
  ASSERT_TRUE(held) << held.error().message();
  auto refused = ours.try_acquire();
  ASSERT_TRUE(refused) << refused.error().message();
  EXPECT_FALSE(refused->has_value());
  ASSERT_TRUE(held->release());
  // Empty by now, but not made by this client: its number is not 0.
  Mutex again = one->mutex("orders");
  take_and_give_back(again);
}

}  // namespace
}  // namespace holdfast::stores::zookeeper
