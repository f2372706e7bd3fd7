// ?recipe=etcd: Holdfast and `etcdctl lock` exclude each other on the same name.
#include <fstream>
#include <string>

#include "tests/library/fixture.h"
#include "tests/support/etcd_server.h"

namespace holdfast::testing {
namespace {

using support::ChildProcess;
using support::Command;
using support::EtcdCluster;

class EtcdRecipeTest : public ::testing::Test {
 protected:
  Client connect() { return connect_or_die(etcd_.url("?recipe=etcd&session=2s")); }

  // Holds NAME, says so in a file, and gives it back when the other file is there.
  std::unique_ptr<ChildProcess> etcdctl_lock(const std::string& name) {
    std::filesystem::remove(held());
    std::filesystem::remove(go());
    const std::string script = folder_.path() + "/script";
    std::ofstream(script) << "touch " << held() << "\nwhile [ ! -e " << go()
                          << " ]; do sleep 0.02; done\n";
    return std::make_unique<ChildProcess>(
        Command{.arguments = etcd_.etcdctl_command({"lock", name, "sh", script}),
                .environment = {},
                .output = folder_.path() + "/etcdctl.log"});
  }
  std::string held() const { return folder_.path() + "/held"; }
  std::string go() const { return folder_.path() + "/go"; }
  void let_go() { std::ofstream(go()) << "go"; }
  bool comes_to_hold(std::chrono::milliseconds within) const {
    const auto until = base::BootClock::now() + within;
    while (!std::filesystem::exists(held())) {
      if (base::BootClock::now() > until) return false;
      std::this_thread::sleep_for(10ms);
    }
    return true;
  }

  EtcdCluster etcd_;
  TempDirectory folder_;
};

TEST_F(EtcdRecipeTest, WhatEtcdctlHoldsIsBusyUntilItLetsGo) {
  auto other = etcdctl_lock("jobs/nightly");
  ASSERT_TRUE(comes_to_hold(60s));
  Client client = connect();
  const auto tried = client.mutex("jobs/nightly").try_acquire();
  ASSERT_TRUE(tried) << tried.error().message();
  EXPECT_FALSE(*tried);
  const auto listed = client.list();
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code(), Errc::kUnsupported);
  EXPECT_NE(listed.error().message().find("'holdfast inspect NAME'"), std::string::npos);
  auto waiting = std::async(std::launch::async,
                            [&] { return client.mutex("jobs/nightly").acquire({.wait = 60s}); });
  EXPECT_EQ(waiting.wait_for(300ms), std::future_status::timeout);
  let_go();
  const auto lease = waiting.get();
  ASSERT_TRUE(lease) << lease.error().message();
  EXPECT_TRUE(lease->held());
  EXPECT_EQ(other->wait(60s), 0);
}

TEST_F(EtcdRecipeTest, EtcdctlWaitsForWhatWeHold) {
  Client client = connect();
  auto lease = client.mutex("jobs/nightly").acquire();
  ASSERT_TRUE(lease) << lease.error().message();
  auto other = etcdctl_lock("jobs/nightly");
  EXPECT_FALSE(comes_to_hold(1s));
  EXPECT_TRUE(lease->held());
  ASSERT_TRUE(lease->release());
  EXPECT_TRUE(comes_to_hold(60s));
  let_go();
  EXPECT_EQ(other->wait(60s), 0);
}

TEST_F(EtcdRecipeTest, TwoOfOneClientExcludeEachOther) {
  Client client = connect();
  auto lease = client.mutex("a").acquire();
  ASSERT_TRUE(lease) << lease.error().message();
  const auto tried = client.mutex("a").try_acquire();
  ASSERT_TRUE(tried) << tried.error().message();
  EXPECT_FALSE(*tried) << "the session must not be the owner";
}

TEST_F(EtcdRecipeTest, TheQueueIsSharedAndFair) {
  Client client = connect();
  auto first = client.mutex("q").acquire();
  ASSERT_TRUE(first) << first.error().message();
  auto other = etcdctl_lock("q");
  const auto in_queue = [&](int many) {
    const auto until = base::BootClock::now() + 60s;
    while (true) {
      const std::string keys = etcd_.etcdctl({"get", "q/", "--prefix", "--keys-only"});
      if (std::count(keys.begin(), keys.end(), '/') >= many) return true;
      if (base::BootClock::now() > until) return false;
      std::this_thread::sleep_for(20ms);
    }
  };
  ASSERT_TRUE(in_queue(2));
  auto waiting =
      std::async(std::launch::async, [&] { return client.mutex("q").acquire({.wait = 60s}); });
  ASSERT_TRUE(in_queue(3));
  ASSERT_TRUE(first->release());
  ASSERT_TRUE(comes_to_hold(60s)) << "it came before us";
  EXPECT_EQ(waiting.wait_for(300ms), std::future_status::timeout);
  let_go();
  const auto last = waiting.get();
  ASSERT_TRUE(last) << last.error().message();
  EXPECT_GT(last->token(), first->token());
}

// The program does not look after its key, so it goes on with what it runs.
TEST_F(EtcdRecipeTest, ABreakTakesTheLockOfEtcdctl) {
  auto other = etcdctl_lock("jobs/nightly");
  ASSERT_TRUE(comes_to_hold(60s));
  Client client = connect();
  const auto shown = client.inspect("jobs/nightly");
  ASSERT_TRUE(shown && *shown);
  const Token token = (*shown)->holders.at(0).token;
  auto waiting = std::async(std::launch::async,
                            [&] { return client.mutex("jobs/nightly").acquire({.wait = 60s}); });
  EXPECT_TRUE(
      fails_with(client.break_lock("jobs/nightly", Token{0, token.counter + 1}), Errc::kLost));
  const auto broken = client.break_lock("jobs/nightly", token, "fire");
  ASSERT_TRUE(broken) << broken.error().message();
  const auto lease = waiting.get();
  ASSERT_TRUE(lease) << lease.error().message();
  EXPECT_GT(lease->token(), token);
  EXPECT_TRUE(other->running());
  let_go();
  EXPECT_EQ(other->wait(60s), 0);
  EXPECT_TRUE(lease->held()) << "its end took what was ours";
}

TEST_F(EtcdRecipeTest, ABreakOfOursTellsItsHolder) {
  Client client = connect();
  Client another = connect();
  const auto lease = client.mutex("a").acquire();
  ASSERT_TRUE(lease) << lease.error().message();
  ASSERT_TRUE(another.break_lock("a", lease->token()));
  EXPECT_TRUE(fires(lease->lost()));
  EXPECT_TRUE(another.mutex("a").acquire({.wait = 60s}));
}

// Sessions stand below it, for ever: each would be a contender that came before.
TEST_F(EtcdRecipeTest, ALockAmongHoldfastsOwnKeysIsRefused) {
  Client client = connect();
  for (const char* name : {"hf1", "hf1/s", "team/hf1/l/a/c"}) {
    EXPECT_TRUE(fails_with(client.mutex(name).try_acquire(), Errc::kInvalidArgument)) << name;
    EXPECT_TRUE(fails_with(client.inspect(name), Errc::kInvalidArgument)) << name;
    EXPECT_TRUE(fails_with(client.break_lock(name, Token{0, 1}), Errc::kInvalidArgument)) << name;
  }
  EXPECT_TRUE(client.mutex("hf1s").acquire({.wait = 60s}));
}

TEST_F(EtcdRecipeTest, WhatEtcdctlDoesNotKnowIsRefused) {
  Client client = connect();
  EXPECT_TRUE(fails_with(client.shared_mutex("s").acquire_shared(), Errc::kUnsupported));
  EXPECT_FALSE(client.guarantees().shared);
  EXPECT_FALSE(client.guarantees().permits);
}

}  // namespace
}  // namespace holdfast::testing
