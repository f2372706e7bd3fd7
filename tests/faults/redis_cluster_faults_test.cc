// Nodes of a cluster that a URL names as single servers: the store says so, and takes nothing for
// an answer that is none.
#include "src/stores/redis/protocol/errors.h"
#include "tests/faults/redis_harness.h"

namespace holdfast::faults {
namespace {

class ClusterNode {
 public:
  ClusterNode()
      : server_({.config = {"cluster-enabled yes", "cluster-require-full-coverage no",
                            "cluster-port " + std::to_string(bus_.number())}}) {}

  RedisServer& server() { return server_; }
  std::string url() const { return server_.url(); }
  Reply cluster(std::vector<std::string> words) {
    words.insert(words.begin(), "CLUSTER");
    return server_.must(words);
  }
  std::string id() { return cluster({"MYID"}).text; }
  std::string slot_of(const std::string& name) {
    return std::to_string(cluster({"KEYSLOT", key_of(name)}).integer);
  }
  void take_slots(int first, int last) {
    cluster({"ADDSLOTSRANGE", std::to_string(first), std::to_string(last)});
  }
  void meet(const ClusterNode& other) {
    cluster({"MEET", "127.0.0.1", std::to_string(other.server_.port()),
             std::to_string(other.bus_.number())});
  }
  // Until it knows who serves each slot.
  bool await_whole() {
    return server_.eventually([](RedisServer& asked) {
      const std::string told = asked.must({"CLUSTER", "INFO"}).text;
      return told.find("cluster_state:ok") != std::string::npos &&
             told.find("cluster_slots_assigned:16384") != std::string::npos;
    });
  }

 private:
  support::ReservedPort bus_;
  RedisServer server_;
};

void expect_refusal(const Error& refused, Errc code, const std::string& word) {
  EXPECT_EQ(refused.code(), code) << refused.message();
  EXPECT_NE(refused.message().find(word), std::string::npos) << refused.message();
  const bool redirected = code == Errc::kUnsupported;
  EXPECT_EQ(refused.message().find("redis+cluster://") != std::string::npos, redirected)
      << refused.message();
}

class RedisClusterFaultsTest : public RedisFaults {};

TEST_F(RedisClusterFaultsTest, ANodeWithoutSlotsRefusesUntilItServesThem) {
  ClusterNode node;
  Peer one(node.url());
  expect_refusal(one.refusal("a"), Errc::kUnavailable, "CLUSTERDOWN");
  node.take_slots(0, 16383);
  ASSERT_TRUE(node.await_whole());
  EXPECT_TRUE(one.hold("a", 5s).release());
  const auto report = one.client().doctor();
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_FALSE(report->healthy()) << "it is a node of a cluster";
}

TEST_F(RedisClusterFaultsTest, RedirectionsAreSaidNotFollowedAndHarmNoHolder) {
  ClusterNode here;
  ClusterNode there;
  here.take_slots(0, 8191);       // 'b': 3300, 'c': 7365.
  there.take_slots(8192, 16383);  // 'a': 15495.
  here.meet(there);
  ASSERT_TRUE(here.await_whole());
  ASSERT_TRUE(there.await_whole());
  Peer one(here.url());
  Lease lease = one.hold("c", 10s);
  expect_refusal(one.refusal("a"), Errc::kUnsupported, "MOVED");

  const auto migrate = [&](const std::string& name) {
    there.cluster({"SETSLOT", there.slot_of(name), "IMPORTING", here.id()});
    here.cluster({"SETSLOT", here.slot_of(name), "MIGRATING", there.id()});
  };
  migrate("b");
  expect_refusal(one.refusal("b"), Errc::kUnsupported, "ASK");
  // Its record is still here.
  migrate("c");
  EXPECT_TRUE(lease.renew());
  EXPECT_TRUE(lease.release());
}

// Said only to who follows a redirection: what the server says is read as it says it.
TEST_F(RedisClusterFaultsTest, ASlotOnTheMoveIsTriedAgain) {
  ClusterNode here;
  ClusterNode there;
  here.take_slots(0, 16383);
  here.meet(there);
  ASSERT_TRUE(there.await_whole());
  there.cluster({"SETSLOT", there.slot_of("b"), "IMPORTING", here.id()});
  RedisConnection connection = there.server().connect();
  EXPECT_FALSE(connection.command({"ASKING"}).is_error());
  const Reply told = connection.command({"EVAL", "return 1", "2", key_of("b"), key_of("b") + ":t"});
  ASSERT_EQ(told.error_code(), "TRYAGAIN") << told;
  const Error read =
      stores::redis::to_error({stores::redis::Reply::Kind::kError, 0, told.text, {}}, "a request");
  expect_refusal(read, Errc::kUnavailable, "TRYAGAIN");
}

}  // namespace
}  // namespace holdfast::faults
