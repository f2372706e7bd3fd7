// Several creations and removals in one request, on a real server: each gets the answer that it
// would get alone.
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <zookeeper/zookeeper.h>

#include "src/stores/zookeeper/nodes.h"
#include "src/stores/zookeeper/test_rig.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/zookeeper_server.h"

namespace holdfast::stores::zookeeper::testing {
namespace {

using contend::Entered;
using contend::Key;
using contend::QueueEntry;
using support::Fault;
using support::FaultProxy;

constexpr std::size_t kMany = 20;

std::string name(std::size_t i) { return "orders-" + std::to_string(i); }
std::string folder(std::size_t i) { return "/hf1/locks/" + name(i); }

// Another client, with the library as it is.
class Raw {
 public:
  explicit Raw(const std::string& servers) {
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    handle_ = zookeeper_init(servers.c_str(), nullptr, 30'000, nullptr, nullptr, 0);
  }
  ~Raw() { zookeeper_close(handle_); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  std::vector<std::string> children(const std::string& path) {
    String_vector names{};
    EXPECT_EQ(patiently([&] { return zoo_get_children(handle_, path.c_str(), 0, &names); }), ZOK);
    std::vector<std::string> all(names.data, names.data + names.count);
    deallocate_String_vector(&names);
    return all;
  }
  std::uint64_t created(const std::string& path) {
    Stat stat{};
    EXPECT_EQ(patiently([&] { return zoo_exists(handle_, path.c_str(), 0, &stat); }), ZOK);
    return static_cast<std::uint64_t>(stat.czxid);
  }
  void remove(const std::string& path) {
    EXPECT_EQ(patiently([&] { return zoo_delete(handle_, path.c_str(), -1); }), ZOK) << path;
  }
  // Nothing may be created there any more.
  void make_read_only(const std::string& path) {
    ACL reads[] = {{ZOO_PERM_READ, ZOO_ANYONE_ID_UNSAFE}};
    const ACL_vector all{1, reads};
    EXPECT_EQ(patiently([&] { return zoo_set_acl(handle_, path.c_str(), -1, &all); }), ZOK);
  }

 private:
  template <typename Ask>
  static int patiently(Ask ask) {
    int rc = ZCONNECTIONLOSS;
    const BootInstant until = Rig::soon();
    while (rc == ZCONNECTIONLOSS && BootClock::now() < until) rc = ask();
    return rc;
  }
  zhandle_t* handle_ = nullptr;
};

class ZookeeperBatchLiveTest : public ::testing::Test {
 protected:
  using Entering = Rig::Answer<Entered>;
  using Leaving = Rig::Answer<bool>;

  void SetUp() override {
    HOLDFAST_NEEDS_ZOOKEEPER();
    server_.emplace();
    raw_.emplace(server_->servers());
  }
  void connect(const std::string& url) {
    rig_.emplace(url);
    // From then on this client knows that it is alone there.
    for (int i = 0; i < 3; ++i) {
      leave_all(enter_all());
    }
  }
  void connect() { connect(server_->url("/?session=30s")); }

  // All of them in one turn of the loop.
  std::vector<Entering> ask_all() {
    keys_.clear();
    std::vector<Entering> asked;
    for (std::size_t i = 0; i < kMany; ++i) {
      keys_.push_back(Rig::new_key());
      asked.push_back(rig_->enter(name(i), keys_.back()));
    }
    return asked;
  }
  std::vector<QueueEntry> enter_all() {
    const auto asked = ask_all();
    rig_->await(asked);
    std::vector<QueueEntry> places;
    for (std::size_t i = 0; i < kMany; ++i) {
      const auto& entered = asked[i].get();
      if (!entered) throw std::runtime_error(entered.error().message());
      EXPECT_EQ(entered->listing.queue.size(), 1U);
      QueueEntry place = entered->listing.queue.at(0);
      EXPECT_EQ(place.key, keys_[i]);
      place.created = entered->created;
      places.push_back(place);
    }
    return places;
  }
  std::vector<Leaving> ask_to_leave(const std::vector<QueueEntry>& places) {
    std::vector<Leaving> asked;
    for (std::size_t i = 0; i < kMany; ++i) asked.push_back(rig_->remove(name(i), places[i]));
    return asked;
  }
  void leave_all(const std::vector<QueueEntry>& places) {
    const auto asked = ask_to_leave(places);
    rig_->await(asked);
    for (const Leaving& each : asked) {
      ASSERT_TRUE(each.get()) << each.get().error().message();
      EXPECT_TRUE(*each.get());
    }
  }
  std::int64_t requests() { return server_->figure("zk_packets_received"); }

  std::optional<support::ZookeeperServer> server_;
  std::optional<Raw> raw_;
  std::optional<Rig> rig_;
  std::vector<Key> keys_;
};

TEST_F(ZookeeperBatchLiveTest, WhatIsAskedForTogetherIsOneRequest) {
  connect();
  const std::int64_t before = requests();
  leave_all(enter_all());
  // Two are ours; the rest are the session's, the other client's, and the questions for this
  // number.
  EXPECT_LT(requests() - before, 12);
}

TEST_F(ZookeeperBatchLiveTest, EachHasTheNumberOfItsOwnNode) {
  connect();
  std::uint64_t last = 0;
  for (int round = 0; round < 3; ++round) {
    const auto places = enter_all();
    for (std::size_t i = 0; i < kMany; ++i) {
      EXPECT_GT(places[i].created, last);
      EXPECT_EQ(raw_->created(folder(i) + "/" + node_of(places[i])), places[i].created);
    }
    last = places[0].created;
    leave_all(places);
    for (std::size_t i = 0; i < kMany; ++i) EXPECT_TRUE(raw_->children(folder(i)).empty());
  }
}

TEST_F(ZookeeperBatchLiveTest, WhoComesBehindAnotherInOneLockIsTold) {
  connect();
  const auto first = rig_->enter(name(0), Rig::new_key());
  const auto other = rig_->enter(name(1), Rig::new_key());
  const auto second = rig_->enter(name(0), Rig::new_key());
  rig_->await<Entered>({first, other, second});
  ASSERT_TRUE(first.get() && other.get() && second.get());
  EXPECT_EQ(first.get()->listing.queue.size(), 1U);
  EXPECT_EQ(other.get()->listing.queue.size(), 1U);
  ASSERT_EQ(second.get()->listing.queue.size(), 2U);
  EXPECT_EQ(second.get()->listing.queue[0].key, first.get()->listing.queue[0].key);
  EXPECT_GT(second.get()->created, first.get()->created) << "not in one request";
}

// The others are asked for again, each by itself.
TEST_F(ZookeeperBatchLiveTest, ARemovalOfWhatHasGoneHarmsNoOther) {
  connect();
  const auto places = enter_all();
  raw_->remove(folder(7) + "/" + node_of(places[7]));
  const auto asked = ask_to_leave(places);
  rig_->await(asked);
  for (std::size_t i = 0; i < kMany; ++i) {
    ASSERT_TRUE(asked[i].get()) << asked[i].get().error().message();
    EXPECT_EQ(*asked[i].get(), i != 7);
    EXPECT_TRUE(raw_->children(folder(i)).empty());
  }
}

TEST_F(ZookeeperBatchLiveTest, ALockThatMayNotBeTakenHarmsNoOther) {
  connect();
  raw_->make_read_only(folder(7));
  const auto asked = ask_all();
  rig_->await(asked);
  for (std::size_t i = 0; i < kMany; ++i) {
    if (i == 7) {
      ASSERT_FALSE(asked[i].get());
      EXPECT_EQ(asked[i].get().error().code(), Errc::kPermissionDenied);
      continue;
    }
    ASSERT_TRUE(asked[i].get()) << asked[i].get().error().message();
    EXPECT_EQ(raw_->children(folder(i)).size(), 1U);
  }
}

TEST_F(ZookeeperBatchLiveTest, AFolderThatHasGoneIsMadeAgain) {
  connect();
  raw_->remove(folder(7));
  leave_all(enter_all());
}

// Its number is then known from each reply.
TEST_F(ZookeeperBatchLiveTest, WithoutTheSessionsNodeEachGoesAlone) {
  connect();
  for (const std::string& each : raw_->children("/hf1/sessions")) {
    if (each.ends_with("-beat")) raw_->remove("/hf1/sessions/" + each);
  }
  const auto places = enter_all();
  for (std::size_t i = 0; i < kMany; ++i) {
    EXPECT_EQ(raw_->created(folder(i) + "/" + node_of(places[i])), places[i].created);
  }
}

TEST_F(ZookeeperBatchLiveTest, ALostReplyIsUnknownToEach) {
  FaultProxy proxy({.server_port = server_->port()});
  connect("zookeeper://127.0.0.1:" + std::to_string(proxy.port()) + "/?session=30s");
  const int lost =
      proxy.add({.kind = Fault::Kind::kDropReplies, .containing = folder(7) + "/", .times = 1});
  const auto asked = ask_all();
  ASSERT_TRUE(rig_->run_until([&] { return proxy.stats().hits[lost] != 0; }));
  // The server has applied it.
  ASSERT_TRUE(rig_->run_until([&] { return !raw_->children(folder(7)).empty(); }));
  proxy.reset_all();
  rig_->await(asked);
  for (std::size_t i = 0; i < kMany; ++i) {
    ASSERT_FALSE(asked[i].get());
    EXPECT_EQ(asked[i].get().error().code(), Errc::kOutcomeUnknown);
    EXPECT_EQ(raw_->children(folder(i)).size(), 1U);
  }
  // It is found by its key.
  const auto listed = rig_->wait<contend::Listing>([&](auto done) {
    rig_->backend().list(name(3), /*latest=*/true, nullptr, Rig::soon(), std::move(done));
  });
  ASSERT_TRUE(listed) << listed.error().message();
  ASSERT_EQ(listed->queue.size(), 1U);
  EXPECT_EQ(listed->queue[0].key, keys_[3]);
}

// Also what had not been sent yet.
TEST_F(ZookeeperBatchLiveTest, ASessionThatEndsIsLostToEach) {
  connect(server_->url("/?session=4s"));
  server_->pause();
  auto asked = ask_all();
  for (int round = 0; round < 5; ++round) {
    while (rig_->loop.run_one()) {
    }
    for (const Entering& each : ask_all()) asked.push_back(each);
  }
  const std::uint64_t epoch = rig_->epoch;
  ASSERT_TRUE(rig_->run_until([&] { return rig_->ended_epoch == epoch; }));
  server_->resume();
  rig_->await(asked);
  // Unknown: the library gave the silent connection up before the session ended.
  for (const Entering& each : asked) {
    ASSERT_FALSE(each.get());
    const Error& error = each.get().error();
    EXPECT_TRUE(error.code() == Errc::kLost || error.code() == Errc::kOutcomeUnknown)
        << error.message();
  }
  for (std::size_t i = 0; i < kMany; ++i) {
    EXPECT_TRUE(rig_->run_until([&] { return raw_->children(folder(i)).empty(); }));
  }
}

// A request on its own sees the earlier ones.
TEST_F(ZookeeperBatchLiveTest, AListingIsBehindARemovalThatWaits) {
  connect();
  const auto places = enter_all();
  const auto asked = ask_to_leave(places);
  const auto listed = rig_->wait<contend::Listing>([&](auto done) {
    rig_->backend().list(name(7), /*latest=*/false, nullptr, Rig::soon(), std::move(done));
  });
  ASSERT_TRUE(listed) << listed.error().message();
  EXPECT_TRUE(listed->queue.empty());
  rig_->await(asked);
}

}  // namespace
}  // namespace holdfast::stores::zookeeper::testing
