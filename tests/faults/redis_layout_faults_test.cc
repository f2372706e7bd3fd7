// A later version on the same server, with a layout of its own.
#include "tests/faults/redis_harness.h"

namespace holdfast::faults {
namespace {

class RedisLayoutFaultsTest : public RedisFaults {
 protected:
  using Dump = std::map<std::string, std::string>;

  // Each key of a layout, with its value and whether it expires.
  static Dump dump(RedisServer& server, const std::string& prefix) {
    Dump all;
    for (const Reply& key : server.must({"KEYS", prefix + ":*"}).elements) {
      all[key.text] = server.must({"DUMP", key.text}).text;
      if (server.must({"PTTL", key.text}).integer >= 0) all[key.text] += " expires";
    }
    return all;
  }

  // A later version may have written these beside ours, under the same names.
  static void write_later_layout(RedisServer& server) {
    for (const std::string name : {"a", "b"}) {
      const std::string key = "hf2:{" + name + "}";
      server.must({"SET", key, "2 held 0000000000000001 by somebody", "PX", "600000"});
      server.must({"HSET", key + ":t", "ticket", "1"});
      server.must({"ZADD", key + ":h", "1", "ticket"});
      server.must({"ZADD", key + ":q", "1", "ticket"});
    }
  }
};

TEST_F(RedisLayoutFaultsTest, TwoVersionsOnOneServerDoNotDisturbEachOther) {
  RedisServer server;
  write_later_layout(server);
  const Dump later = dump(server, "hf2");
  ASSERT_EQ(later.size(), 8U);
  RedisConnection later_client = server.connect();
  later_client.command({"SUBSCRIBE", "hf2:@client"});
  Peer one(server.url());
  Peer other(server.url());

  Lease lease = one.hold("a", 10s);
  Waiter waiter(other, "a", 10s);
  waiter.await_queued();
  // The later version works on: nothing that we hold changes by it.
  const Dump ours = dump(server, "hf1");
  EXPECT_GE(ours.size(), 4U);
  server.must({"SET", "hf2:{a}", "2 free 0000000000000002"});
  server.must({"DEL", "hf2:{a}:t", "hf2:{a}:h", "hf2:{a}:q"});
  server.must({"PUBLISH", "hf2:@client", "2 granted"});
  EXPECT_EQ(dump(server, "hf1").size(), ours.size());
  EXPECT_TRUE(lease.renew());
  write_later_layout(server);
  EXPECT_TRUE(lease.release());
  Lease next = waiter.grant();
  EXPECT_GT(next.token(), lease.token());

  // Nor does it see what is done here, and is not seen.
  EXPECT_EQ(one.client().list("").value().size(), 1U);
  EXPECT_TRUE(one.client().doctor().value().healthy());
  EXPECT_TRUE(one.client().break_lock("a", next.token(), "a test"));
  EXPECT_TRUE(one.hold("b", 5s).release());
  EXPECT_EQ(dump(server, "hf2"), later);
  const auto all = static_cast<std::size_t>(server.must({"DBSIZE"}).integer);
  EXPECT_EQ(all, later.size() + dump(server, "hf1").size()) << "a key without a layout";
}

// A record of ours in a form that is not known is another matter.
TEST_F(RedisLayoutFaultsTest, ARecordOfALaterFormIsRefusedAndLeftAsItIs) {
  RedisServer server;
  Peer one(server.url());
  server.must({"SET", key_of("a"), "2 held what is not known"});
  const Dump before = dump(server, "hf1");
  EXPECT_EQ(one.refusal("a").code(), Errc::kVersionMismatch);
  EXPECT_EQ(dump(server, "hf1"), before);
}

// Early versions knew locks whose queue could be overtaken.
TEST_F(RedisLayoutFaultsTest, ALockWithTheOldBargingPolicyIsServedInOrder) {
  RedisServer server;
  Peer one(server.url());
  Peer other(server.url());
  Lease lease = one.hold("a", 10s);
  Waiter waiter(other, "a", 10s);
  waiter.await_queued();
  std::string record = server.must({"GET", key_of("a")}).text;
  const auto policy = record.find(" e f ");
  ASSERT_NE(policy, std::string::npos) << record;
  record[policy + 3] = 'b';
  server.must({"SET", key_of("a"), record});
  EXPECT_EQ(one.look("a").waiters.size(), 1U);
  EXPECT_TRUE(lease.renew());
  EXPECT_FALSE(one.try_hold("a", 5s)) << "the queue was overtaken";
  EXPECT_TRUE(lease.release());
  EXPECT_TRUE(waiter.grant().release());
  EXPECT_TRUE(one.hold("a", 5s).release());
}

}  // namespace
}  // namespace holdfast::faults
