// Sequential nodes of a ZooKeeper in whose folder other programs make theirs.
#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zookeeper/zookeeper.h>

#include "holdfast/ids/store_counter.h"
#include "tests/counters/counters.h"
#include "tests/support/eventually.h"
#include "tests/support/zookeeper_server.h"

namespace holdfast::testing {
namespace {

using ids::StoreCounter;
using ::testing::HasSubstr;

support::ZookeeperServer& server() {
  static support::ZookeeperServer one;
  return one;
}

// Another program, with the packaged client.
class Other {
 public:
  Other()
      : handle_(zookeeper_init(server().servers().c_str(), nullptr, 10'000, nullptr, nullptr, 0)) {}
  ~Other() { zookeeper_close(handle_); }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;

  // The path; it is tried until there is a connection.
  std::string create(const std::string& path, int flags) const {
    std::array<char, 200> made{};
    EXPECT_TRUE(support::eventually([&] {
      return zoo_create(handle_, path.c_str(), "", 0, &ZOO_OPEN_ACL_UNSAFE, flags, made.data(),
                        made.size()) == ZOK;
    })) << path;
    return made.data();
  }
  bool remove(const std::string& path) const {
    return support::eventually([&] { return zoo_delete(handle_, path.c_str(), -1) == ZOK; });
  }
  int children(const std::string& path) const {
    Stat stat{};
    return zoo_exists(handle_, path.c_str(), 0, &stat) == ZOK ? stat.numChildren : -1;
  }

 private:
  zhandle_t* handle_;
};

class ZookeeperCountersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_ZOOKEEPER();
    prefix_ = "/test" + std::to_string(++places_);
    url_ = server().url(prefix_);
  }

  static inline int places_ = 0;
  std::string prefix_;
  std::string url_;
};

TEST_F(ZookeeperCountersTest, OnlyCreateMakesAFolder) {
  EXPECT_EQ(refusal(url_, "orders").code(), Errc::kInvalidArgument);
  ASSERT_TRUE(StoreCounter::create(url_, "app/orders"));
  EXPECT_EQ(StoreCounter::create(url_, "app/orders").error().code(), Errc::kStoreInUse);
  EXPECT_EQ(StoreCounter::create(url_, "far", 5).error().code(), Errc::kUnsupported);
  for (const std::string& root : {url_, server().url()}) {
    for (const char* none : {"/", "a/"}) {
      EXPECT_THAT(refusal(root, none).message(), HasSubstr("name a folder")) << root << none;
      EXPECT_EQ(StoreCounter::create(root, none).error().code(), Errc::kInvalidArgument);
    }
  }
  for (const char* bad : {"a//b", "a/../b"}) {
    EXPECT_EQ(refusal(url_, bad).code(), Errc::kInvalidArgument) << bad;
  }
  EXPECT_EQ(number(*open_counter(url_, "/app/orders", 3)), 1U);
  EXPECT_EQ(number(*open_counter(url_, "app/orders", 1)), 4U);
  ASSERT_TRUE(StoreCounter::create(url_, "zero", 0));
  const auto ids = open_counter(url_, "zero", 1);
  EXPECT_EQ(number(*ids), 0U);
  EXPECT_EQ(number(*ids), 1U);
  EXPECT_EQ(ids->guarantees().forgets, "");
  EXPECT_EQ(ids->guarantees().order, ids::IdOrder::kCounter);
}

TEST_F(ZookeeperCountersTest, OtherProgramsMakeNodesBesideAndNothingOfOursStays) {
  const Other other;
  other.create(prefix_, 0);
  other.create(prefix_ + "/orders", 0);
  const auto ids = open_counter(url_, "orders", 2);
  EXPECT_EQ(number(*ids), 0U);
  EXPECT_EQ(other.create(prefix_ + "/orders/n-", ZOO_SEQUENCE), prefix_ + "/orders/n-0000000002");
  EXPECT_EQ(number(*ids), 1U);
  EXPECT_EQ(number(*ids), 3U);
  EXPECT_TRUE(support::eventually([&] { return other.children(prefix_ + "/orders") == 1; }));
}

TEST_F(ZookeeperCountersTest, AFolderThatIsGoneOrNewEndsTheObject) {
  const Other other;
  for (const bool again : {false, true}) {
    other.create(again ? prefix_ + "/orders" : prefix_, 0);
    if (!again) other.create(prefix_ + "/orders", 0);
    const auto ids = open_counter(url_, "orders", 1);
    EXPECT_EQ(number(*ids), 0U);
    ASSERT_TRUE(other.remove(prefix_ + "/orders"));
    if (again) other.create(prefix_ + "/orders", 0);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(ids->next().error().code(), Errc::kCorruptState) << again;
    }
  }
}

TEST_F(ZookeeperCountersTest, ALargeBatchComesInParts) {
  ASSERT_TRUE(StoreCounter::create(url_, "orders", 0));
  const auto ids = open_counter(url_, "orders", 2'500);
  for (std::uint64_t i = 0; i < 3'000; ++i) ASSERT_EQ(number(*ids), i);
}

TEST_F(ZookeeperCountersTest, ALostReplyIsAGap) {
  ASSERT_TRUE(StoreCounter::create(url_, "orders"));
  const auto ids = open_counter(url_, "orders", 1, std::chrono::milliseconds(300));
  EXPECT_EQ(number(*ids), 1U);
  server().pause();
  EXPECT_EQ(ids->next().error().code(), Errc::kUnavailable);
  server().resume();
  EXPECT_GE(number_in_the_end(*ids), 2U);
}

TEST_F(ZookeeperCountersTest, AKilledServerAndKilledProcessesRepeatNothing) {
  ASSERT_TRUE(StoreCounter::create(url_, "orders"));
  killed_processes_repeat_nothing(url_, "orders");
  const std::uint64_t before = number(*open_counter(url_, "orders", 1));
  server().kill9();
  server().start();
  server().await_serving();
  EXPECT_GT(number(*open_counter(url_, "orders", 1)), before);
}

}  // namespace
}  // namespace holdfast::testing
