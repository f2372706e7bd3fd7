// ?recipe=consul: Holdfast and a real `consul lock` on the same path.
#include <unistd.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/semaphore.h"
#include "src/base/clock.h"
#include "tests/faults/client_side.h"
#include "tests/faults/listener.h"
#include "tests/support/child_process.h"
#include "tests/support/consul_server.h"
#include "tests/support/temp_folder.h"

namespace holdfast::faults {
namespace {

using support::ConsulServer;

class ConsulRecipeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_CONSUL();
    server_ = std::make_unique<ConsulServer>();
  }
  std::string url() const {
    return "consul://127.0.0.1:" + std::to_string(server_->port()) + "/team?recipe=consul";
  }
  // Runs the shell command under `consul lock`.
  std::unique_ptr<support::ChildProcess> consul_lock(const std::string& path,
                                                     const std::string& command) const {
    return std::make_unique<support::ChildProcess>(support::Command{
        .arguments = {ConsulServer::program(), "lock",
                      "-http-addr=127.0.0.1:" + std::to_string(server_->port()), path, command},
        .environment = {"CONSUL_HTTP_TOKEN="},
        .output = folder_.file("out")});
  }
  bool is_there(const std::string& name) const {
    return support::find_program("test") && ::access(folder_.file(name).c_str(), F_OK) == 0;
  }
  std::string holder() const {
    const std::string body = server_->ask("GET", "/v1/kv/team/a/.lock").body;
    const auto at = body.find("\"Session\":\"");
    return at == std::string::npos ? "" : body.substr(at + 11, 36);
  }

  support::TempFolder folder_{"recipe"};
  std::unique_ptr<ConsulServer> server_;
};

TEST_F(ConsulRecipeTest, WhileConsulLockHoldsWeDoNot) {
  Client client = connect(url());
  auto other = consul_lock(
      "team/a", "touch " + folder_.file("in") + "; sleep 1; touch " + folder_.file("over"));
  ASSERT_TRUE(eventually([&] { return is_there("in"); }));
  const auto tried = client.mutex("a").try_acquire();
  ASSERT_TRUE(tried) << tried.error().message();
  EXPECT_FALSE(*tried);
  const auto shown = client.inspect("a");
  ASSERT_TRUE(shown && *shown);
  ASSERT_EQ((*shown)->holders.size(), 1U);
  const HolderInfo& holder = (*shown)->holders[0];
  EXPECT_EQ(holder.who.program, "consul lock");
  // Its session tells no more; when it began Consul does not say.
  EXPECT_FALSE(holder.who.host.empty());
  EXPECT_NE(holder.who.reason.find("team/a"), std::string::npos) << holder.who.reason;
  EXPECT_EQ(holder.who.pid, 0);
  EXPECT_EQ(holder.who.since, std::chrono::system_clock::time_point{});
  EXPECT_EQ(holder.time_left, 15s);
  auto got = client.mutex("a").acquire({.wait = kLong});
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_TRUE(is_there("over"));
  EXPECT_EQ(other->wait(kLong), 0);
}

TEST_F(ConsulRecipeTest, WhatOthersHoldIsListedBesideOurs) {
  const std::string made = server_->ask("PUT", "/v1/session/create", "{}").body;
  const std::string session = made.substr(made.find(':') + 2, 36);
  const std::string team = "/v1/kv/team/";
  EXPECT_EQ(server_->ask("PUT", team + "x/y/.lock?acquire=" + session).body, "true");
  server_->ask("PUT", team + "let-go/.lock");
  server_->ask("PUT", team + "x/y");
  server_->ask("PUT", "/v1/kv/other/.lock?acquire=" + session);
  Client client = connect(url());
  const Lease ours = hold(client, "ours");
  const auto names = [&](const std::string& prefix) {
    std::vector<std::string> found;
    const auto locks = client.list(prefix);
    if (!locks) return std::vector<std::string>{locks.error().message()};
    for (const LockInfo& lock : *locks) {
      found.push_back(lock.name + ", " + std::to_string(lock.holders.size()));
    }
    return found;
  };
  EXPECT_EQ(names(""), (std::vector<std::string>{"ours, 1", "x/y, 1"}));
  EXPECT_EQ(names("x"), std::vector<std::string>{"x/y, 1"});
  EXPECT_EQ(names("let"), std::vector<std::string>());
}

TEST_F(ConsulRecipeTest, WhileWeHoldConsulLockDoesNot) {
  Client client = connect(url());
  Lease lease = hold(client, "a");
  auto other = consul_lock("team/a", "touch " + folder_.file("in"));
  // It has a session of its own, and waits.
  ASSERT_TRUE(eventually([&] {
    const std::string sessions = server_->ask("GET", "/v1/session/list").body;
    return sessions.find("Consul API Lock") != std::string::npos ||
           sessions.find("Lock") != std::string::npos;
  }));
  EXPECT_FALSE(is_there("in"));
  EXPECT_TRUE(lease.held());
  EXPECT_TRUE(lease.release());
  EXPECT_TRUE(eventually([&] { return is_there("in"); }));
  EXPECT_EQ(other->wait(kLong), 0);
  EXPECT_GT(hold(client, "a").token(), lease.token());
}

// Consul's own program then ends what it runs, and still exits with 0.
TEST_F(ConsulRecipeTest, ABreakTakesTheLockOfConsulLockWhichEndsItsCommand) {
  Client client = connect(url());
  auto other =
      consul_lock("team/a", "trap 'touch " + folder_.file("told") + "; exit 0' TERM; touch " +
                                folder_.file("in") + "; while :; do sleep 0.05; done");
  ASSERT_TRUE(eventually([&] { return is_there("in"); }));
  const auto shown = client.inspect("a");
  ASSERT_TRUE(shown && *shown);
  const Token token = (*shown)->holders.at(0).token;
  auto waiting = wait_for(client, "a");
  const auto another = client.break_lock("a", Token{token.epoch, token.counter + 1});
  ASSERT_FALSE(another);
  EXPECT_EQ(another.error().code(), Errc::kLost) << another.error().message();
  const auto broken = client.break_lock("a", token, "fire");
  ASSERT_TRUE(broken) << broken.error().message();
  auto got = waiting.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_GT(got->token(), token);
  EXPECT_TRUE(eventually([&] { return is_there("told"); }));
  EXPECT_EQ(other->wait(kLong), 0);
  EXPECT_TRUE(got->held());
  const auto after = client.inspect("a");
  ASSERT_TRUE(after && *after && (*after)->last_break);
  EXPECT_EQ((*after)->last_break->token, token);
  EXPECT_EQ((*after)->last_break->by.reason, "fire");
}

TEST_F(ConsulRecipeTest, ABreakOfOursGivesBackTheKeyOfConsulLock) {
  Client client = connect(url());
  Client another = connect(url());
  Lease lease = hold(client, "a");
  const auto broken = another.break_lock("a", lease.token(), "fire");
  ASSERT_TRUE(broken) << broken.error().message();
  EXPECT_EQ(server_->ask("GET", "/v1/kv/team/a/.lock").status, 404);
  EXPECT_TRUE(fires(lease.lost()));
  EXPECT_GT(hold(another, "a").token(), lease.token());
}

TEST_F(ConsulRecipeTest, AHolderWhoseKeyWasDeletedByHandIsBroken) {
  Client client = connect(url());
  Client another = connect(url());
  Lease lease = hold(client, "a");
  ASSERT_EQ(server_->ask("DELETE", "/v1/kv/team/a/.lock").body, "true");
  const auto broken = another.break_lock("a", lease.token(), "fire");
  ASSERT_TRUE(broken) << broken.error().message();
  EXPECT_TRUE(fires(lease.lost()));
  EXPECT_GT(hold(another, "a").token(), lease.token());
}

// lesson 17: not "try again some time", but how long.
TEST_F(ConsulRecipeTest, TheLockDelayOfADeadHolderIsToldAndWaitedOut) {
  Listener listener(url());
  Client first = connect(url() + "&lock_delay=3s");
  Lease lease = hold(first, "a");
  auto waiting = wait_for(listener.client(), "a");
  const auto ended = base::BootClock::now();
  server_->ask("PUT", "/v1/session/destroy/" + holder());
  auto got = waiting.get();
  ASSERT_TRUE(got) << got.error().message();
  const auto took = base::BootClock::now() - ended;
  EXPECT_GE(took, 2900ms);
  EXPECT_LE(took, 20s);
  EXPECT_FALSE(lease.held());
  EXPECT_GT(listener.told("shut for 3.0 s"), 0) << ::testing::PrintToString(listener.lines());
}

TEST_F(ConsulRecipeTest, OursQueueInOrderAndWhatIsNotPlainIsRefused) {
  Client one = connect(url());
  Client two = connect(url());
  std::optional<Lease> lease = hold(one, "a");
  auto waiting = wait_for(two, "a");
  lease.reset();
  auto got = waiting.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_TRUE(got->release());
  EXPECT_TRUE(holder().empty());
  const auto permits = one.semaphore("pool", 2).try_acquire(1);
  ASSERT_FALSE(permits);
  EXPECT_EQ(permits.error().code(), Errc::kUnsupported) << permits.error().message();
}

// A name that no URL can have is not the key of another lock.
TEST_F(ConsulRecipeTest, ANameThatConsulLockCannotHaveIsRefused) {
  Client client = connect(url());
  const std::string made = server_->ask("PUT", "/v1/session/create", R"({"TTL":"15s"})").body;
  const std::string session = made.substr(made.find(':') + 2, 36);
  ASSERT_EQ(server_->ask("PUT", "/v1/kv/team/a/.lock?acquire=" + session).body, "true") << made;
  for (const char* name : {".", "./a", "a/.", "b/./a", "/a", "a/", "b//a", "a b"}) {
    const auto tried = client.mutex(name).try_acquire();
    ASSERT_FALSE(tried) << name;
    EXPECT_EQ(tried.error().code(), Errc::kInvalidArgument) << tried.error().message();
    const auto shown = client.inspect(name);
    ASSERT_FALSE(shown) << name;
    EXPECT_EQ(shown.error().code(), Errc::kInvalidArgument) << shown.error().message();
  }
  const auto shown = client.inspect("a");
  EXPECT_TRUE(shown && *shown);
}

// `consul lock` tells them apart by the key, wherever the URL's part of the path ends.
TEST_F(ConsulRecipeTest, OnePathIsOneLockAndAnotherIsAnother) {
  const auto client = [&](const std::string& path) {
    return connect("consul://127.0.0.1:" + std::to_string(server_->port()) + path +
                   "?recipe=consul");
  };
  Client root = client("");
  Client a = client("/a");
  Client ab = client("/a/b");
  Client c = client("/c");
  Lease lease = hold(ab, "L");
  for (Client* other : {&a, &c}) {
    const auto another = other->mutex("L").try_acquire();
    ASSERT_TRUE(another) << another.error().message();
    EXPECT_TRUE(*another) << "they are different locks";
  }
  for (const auto& [other, name] : {std::pair{&a, "b/L"}, std::pair{&root, "a/b/L"}}) {
    const auto same = other->mutex(name).try_acquire();
    ASSERT_TRUE(same) << same.error().message();
    EXPECT_FALSE(*same) << name;
    auto waiting = wait_for(*other, name);
    const auto shown = other->inspect(name);
    ASSERT_TRUE(shown && *shown);
    EXPECT_EQ((*shown)->holders.at(0).token, lease.token());
    EXPECT_TRUE(lease.release());
    auto got = waiting.get();
    ASSERT_TRUE(got) << got.error().message();
    EXPECT_GT(got->token(), lease.token());
    EXPECT_TRUE(got->release());
    lease = hold(ab, "L");
  }
  // Without the recipe it is another lock.
  Client plain = connect(server_->url());
  Lease unlike = hold(plain, "a/b/L");
  for (const auto& [who, name] : {std::pair{&ab, "L"}, std::pair{&root, "a/b/L"}}) {
    const auto listed = who->list("");
    ASSERT_TRUE(listed) << listed.error().message();
    ASSERT_EQ(listed->size(), 1U);
    EXPECT_EQ(listed->front().name, name);
    EXPECT_EQ(listed->front().holders.at(0).token, lease.token());
  }
}

}  // namespace
}  // namespace holdfast::faults
