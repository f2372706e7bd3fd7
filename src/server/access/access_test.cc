// Users at a server in this process: what each may do, and what strangers may.
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/mutex.h"
#include "src/server/testing/access_rig.h"
#include "src/server/testing/plain_client.h"
#include "tests/support/eventually.h"

namespace holdfast::server {
namespace {

using namespace std::chrono_literals;
using support::eventually;
using testing::AccessTest;
using testing::request;
using testing::Socket;
using Words = std::vector<std::string>;

std::string acquire(const std::string& name, const std::string& id,
                    const std::string& owner = "{}") {
  return request({"HF1", "acquire", "1", "hf1:{" + name + "}", "client", id, "0000000000000001",
                  "30000000", owner, "Te 1 1 0 0 0 -"});
}
const std::string kId(32, '1');

TEST_F(AccessTest, AStrangerMayLogInAndNothingElse) {
  start("app @ acquire:*\n");
  const Socket socket(server_->address());
  for (const Words& words :
       {Words{"PING"}, Words{"INFO"}, Words{"HELLO", "3"}, Words{"HELLO"}, Words{"COMMAND"},
        Words{"CLIENT", "ID"}, Words{"SUBSCRIBE", "hf1:@x"}, Words{"GET", "a"},
        Words{"SET", "a", "1", "NX", "PX", "1000"}, Words{"HF1", "attach", "0"},
        Words{"HF1", "status", "0"}, Words{"NONSENSE"}}) {
    EXPECT_TRUE(socket.ask(request(words)).starts_with("-NOAUTH ")) << words[0];
  }
  EXPECT_EQ(socket.ask(request({"AUTH", "app", "secret"})), "+OK\r\n");
  EXPECT_EQ(socket.ask(request({"PING"})), "+PONG\r\n");
}

TEST_F(AccessTest, ARequestBehindTheLogInWaitsForIt) {
  start("app @ acquire:*\n");
  const Socket socket(server_->address());
  ASSERT_TRUE(socket.send(request({"AUTH", "app", "secret"}) + request({"PING"}) +
                          request({"ECHO", "last"})));
  std::string all;
  while (all.find("last\r\n") == std::string::npos) {
    const std::string more = socket.receive();
    ASSERT_FALSE(more.empty()) << all;
    all += more;
  }
  EXPECT_EQ(all, "+OK\r\n+PONG\r\n$4\r\nlast\r\n");
}

TEST_F(AccessTest, HelloLogsInAsDriversDo) {
  start("app @ acquire:*\n");
  const Socket socket(server_->address());
  const std::string said =
      socket.ask(request({"HELLO", "3", "AUTH", "app", "secret", "SETNAME", "mine"}));
  EXPECT_TRUE(said.starts_with("%7\r\n")) << said;
  EXPECT_EQ(socket.ask(request({"CLIENT", "GETNAME"})), "$4\r\nmine\r\n");
}

TEST_F(AccessTest, AWrongLogInEndsTheConnection) {
  start("app @ acquire:*\n");
  for (const Words& words : {Words{"AUTH", "app", "wrong"}, Words{"AUTH", "nobody", "secret"},
                             Words{"HELLO", "3", "AUTH", "app", "wrong"}}) {
    const Socket socket(server_->address());
    EXPECT_TRUE(socket.ask(request(words)).starts_with("-WRONGPASS ")) << words[1];
    EXPECT_EQ(socket.receive(), "");
  }
  const Socket socket(server_->address());
  EXPECT_TRUE(socket.ask(request({"AUTH", "secret"})).starts_with("-ERR AUTH takes a user"));
}

TEST_F(AccessTest, OperatorsAreToldOfFailedLogIns) {
  std::vector<std::string> warnings;
  std::mutex mutex;
  options_.on_warning = [&](const std::string& what) {
    const std::lock_guard lock(mutex);
    warnings.push_back(what);
  };
  start("app @ acquire:*\n");
  for (int i = 0; i < 3; ++i) {
    Socket(server_->address()).ask(request({"AUTH", "app", "wrong"}));
  }
  const std::lock_guard lock(mutex);
  ASSERT_EQ(warnings.size(), 1U) << "a flood of them does not fill the log";
  EXPECT_EQ(warnings[0], "a log-in as 'app' from 127.0.0.1 failed");
}

TEST_F(AccessTest, TheNameOfAUserWhoDoesNotExistIsNotWrittenDown) {
  std::string warning;
  options_.on_warning = [&](const std::string& what) { warning = what; };
  start("app @ acquire:*\n");
  Socket(server_->address()).ask(request({"AUTH", "my-secret", "x"}));
  server_->stop();
  EXPECT_EQ(warning, "a log-in as a user who does not exist from 127.0.0.1 failed");
  EXPECT_EQ(server_->reload().error().code(), Errc::kClosed);
}

TEST_F(AccessTest, AServerWithoutUsersTakesNoLogIn) {
  const Server server = testing::start();
  const Socket socket(server.address());
  EXPECT_TRUE(socket.ask(request({"AUTH", "app", "x"})).starts_with("-ERR AUTH: this server has"));
  EXPECT_EQ(socket.ask(request({"PING"})), "+PONG\r\n");
}

// A command that names a lock, and the right that it needs.
struct Row {
  Right right;
  std::function<Words(const std::string& lock)> words;
};

std::vector<Row> own_calls() {
  const auto key = [](const std::string& lock) { return "hf1:{" + lock + "}"; };
  const auto call = [&](const std::string& op, const Words& rest) {
    return [=](const std::string& lock) {
      Words words{"HF1", op, "1", key(lock)};
      words.insert(words.end(), rest.begin(), rest.end());
      return words;
    };
  };
  const std::string issue = "0000000000000001";
  return {
      {Right::kAcquire, call("acquire", {"c", kId, issue, "30000000", "{}", "Te 1 1 0 0 0 -"})},
      {Right::kAcquire, call("acquire_all", {"c", kId, issue, "30000000", "{}", "Te 1 1 0 0 0 -"})},
      {Right::kAcquire, call("end", {"c", kId, issue, "release"})},
      {Right::kAcquire, call("downgrade", {kId})},
      {Right::kAcquire, call("resize", {kId, "2", "1"})},
      {Right::kAcquire, call("set_value", {kId, "v", "v", "0", "0"})},
      {Right::kBreak, call("break", {"0", "{}"})},
      {Right::kObserve, call("inspect", {})},
      {Right::kObserve, call("value", {})},
      {Right::kObserve,
       [](const std::string& lock) { return Words{"HF1", "list", "0", lock, "10", ""}; }},
      {Right::kObserve,
       [](const std::string& lock) {
         return Words{"HF1", "watch", "0", lock, "client"};
       }},
      {Right::kObserve,
       [](const std::string& lock) {
         return Words{"SUBSCRIBE", "hf1:w:" + lock};
       }},
      {Right::kObserve,
       [&](const std::string& lock) {
         return Words{"SUBSCRIBE", key(lock) + ":v"};
       }},
      {Right::kObserve,
       [](const std::string& lock) {
         return Words{"SUBSCRIBE", "redisson_lock__channel:{" + lock + "}"};
       }},
  };
}

std::vector<Row> commands_of_libraries() {
  const auto script = [](const std::string& sha1, const Words& rest) {
    return [=](const std::string& lock) {
      Words words{"EVALSHA", sha1, "1", lock};
      words.insert(words.end(), rest.begin(), rest.end());
      return words;
    };
  };
  return {
      {Right::kAcquire,
       [](const std::string& lock) { return Words{"SET", lock, "v", "NX", "PX", "60000"}; }},
      {Right::kObserve,
       [](const std::string& lock) {
         return Words{"GET", lock};
       }},
      {Right::kObserve,
       [](const std::string& lock) {
         return Words{"EXISTS", "mine/x", lock};
       }},
      {Right::kObserve,
       [](const std::string& lock) {
         return Words{"PTTL", lock};
       }},
      {Right::kObserve,
       [](const std::string& lock) {
         return Words{"HEXISTS", lock, "w"};
       }},
      {Right::kObserve,
       [](const std::string& lock) {
         return Words{"HGET", lock, "w"};
       }},
      {Right::kAcquire,
       [](const std::string& lock) {
         return Words{"PEXPIRE", lock, "60000"};
       }},
      {Right::kBreak,
       [](const std::string& lock) {
         return Words{"DEL", "mine/x", lock};
       }},
      {Right::kAcquire, script("c3f8721cbb97f72bc19e972846bd7aaf91901658", {"v"})},
      {Right::kAcquire, script("C3F8721CBB97F72BC19E972846BD7AAF91901658", {"v"})},
      {Right::kAcquire,
       [](const std::string& lock) {  // node-redlock's, for all or none.
         return Words{
             "EVALSHA", "96da70f7716f27d278a5218544df37fd8b0a5e4c", "2", "mine/x", lock, "v",
             "60000"};
       }},
      {Right::kBreak,
       [](const std::string& lock) {  // Redisson's unlock by force.
         return Words{"EVALSHA", "605e338249a7a1d40df83b04f7658354f883b41b", "2",
                      lock,      "redisson_lock__channel:{" + lock + "}",    "0",
                      "del"};
       }},
      {Right::kAcquire,
       [](const std::string& lock) {
         return Words{"EVALSHA", "6a3d31570dc6f4b0bd32bcdc8e75667747c6f635",
                      "2",       "mine/x",
                      lock,      "30000",
                      "w",       "w"};
       }},
  };
}

std::vector<Row> all_commands() {
  std::vector<Row> rows = own_calls();
  for (Row& each : commands_of_libraries()) rows.push_back(std::move(each));
  return rows;
}

// Each command that names a lock, asked for one lock that the user has a right to and for one that
// it has none to.
TEST_F(AccessTest, EveryCommandLooksAtTheRightsToItsKeys) {
  start("taker @ acquire:mine/*\nviewer @ observe:mine/*\nbreaker @ break:mine/*\n");
  const std::vector<Row> rows = all_commands();
  const std::pair<const char*, Right> users[] = {
      {"taker", Right::kAcquire}, {"viewer", Right::kObserve}, {"breaker", Right::kBreak}};
  for (const auto& [user, right] : users) {
    for (const Row& row : rows) {
      const Words mine = row.words("mine/x");
      const std::string label = std::string(user) + ": " + mine[0] + ' ' + mine[1];
      const bool allowed = row.right == Right::kObserve || row.right == right;
      EXPECT_EQ(as(user)->ask(request(mine)).starts_with("-NOPERM "), !allowed) << label;
      EXPECT_TRUE(as(user)->ask(request(row.words("other"))).starts_with("-NOPERM ")) << label;
      EXPECT_TRUE(as(user)->ask(request(row.words("mine"))).starts_with("-NOPERM ")) << label;
    }
  }
  EXPECT_NE(as("viewer")->ask(request({"GET", "other"})).find("no right to observe 'other'"),
            std::string::npos);
  // A list that is wider than the rights would have gaps.
  EXPECT_TRUE(as("viewer")->ask(request({"HF1", "list", "0", "", "9", ""})).starts_with("-NOPERM"));
}

// Numbers of ids, and the texts beside them.
TEST_F(AccessTest, IdsNeedTheRightToTheirName) {
  start("app @ acquire:ids/orders acquire:ids/orders/*\n");
  const auto all = [](const std::string& name) {
    return std::vector<Words>{{"INCR", name},
                              {"INCRBY", name, "5"},
                              {"HF1", "kept", "1", "hf1:{" + name + "}"},
                              {"HF1", "keep", "1", "hf1:{" + name + "}", "0", "text"}};
  };
  for (const Words& each : all("ids/orders")) {
    EXPECT_FALSE(as("app")->ask(request(each)).starts_with("-NOPERM ")) << each[0] + ' ' + each[1];
  }
  for (const Words& each : all("ids/invoices")) {
    EXPECT_TRUE(as("app")->ask(request(each)).starts_with("-NOPERM ")) << each[0] + ' ' + each[1];
  }
}

TEST_F(AccessTest, OneForbiddenLockOfARenewalCostsTheOthersNothing) {
  start("app @ acquire:mine\nother @ acquire:theirs\n");
  const auto app = as("app");
  ASSERT_NE(app->ask(acquire("mine", kId)).find("held "), std::string::npos);
  const std::string renewal =
      request({"HF1", "renew", "2", "hf1:{mine}", "hf1:{theirs}", "client", kId, "2", "30000000",
               "30000000", std::string(32, '2'), "2", "30000000", "30000000"});
  const std::string said = app->ask(renewal);
  EXPECT_NE(said.find("held "), std::string::npos) << said;
  EXPECT_NE(said.find("error NOPERM "), std::string::npos) << said;
  const std::string ends =
      request({"HF1", "end", "2", "hf1:{theirs}", "hf1:{mine}", "client", std::string(32, '2'),
               "0000000000000001", "release", kId, "0000000000000001", "release"});
  const std::string ended = app->ask(ends);
  EXPECT_LT(ended.find("-NOPERM "), ended.find("released")) << ended;
}

TEST_F(AccessTest, ObserversSeeNoIds) {
  start("app @ acquire:*\nviewer @ observe:*\n");
  const auto app = as("app");
  ASSERT_NE(app->ask(acquire("a", kId)).find("held "), std::string::npos);
  const std::string look = request({"HF1", "inspect", "1", "hf1:{a}"});
  const std::string all = request({"HF1", "list", "0", "", "10", ""});
  EXPECT_NE(app->ask(look).find(kId), std::string::npos);
  const auto viewer = as("viewer");
  for (const std::string& each : {look, all}) {
    const std::string seen = viewer->ask(each);
    EXPECT_EQ(seen.find(kId), std::string::npos) << seen;
    EXPECT_NE(seen.find(std::string(31, '0') + "1"), std::string::npos) << seen;
  }
}

// A user who knows the value that a lock library gave its lock can release the lock.
TEST_F(AccessTest, AValueOfALockLibraryIsForItsUserAndAdmins) {
  start(
      "app @ acquire:*\nother @ acquire:*\nviewer @ observe:*\nbreaker @ break:*\n"
      "ops @ observe:* admin\n");
  const Words look{"HF1", "inspect", "1", "hf1:{a}"};
  const Words all{"HF1", "list", "0", "", "10", ""};
  const auto app = as("app");
  const auto viewer = as("viewer");
  ASSERT_TRUE(viewer->ask(request({"SUBSCRIBE", "hf1:w:"})).starts_with("*3\r\n"));
  ASSERT_EQ(app->ask(request({"SET", "a", "5ecret", "NX", "PX", "60000"})), "+OK\r\n");
  const std::string event = viewer->receive();
  EXPECT_NE(event.find("granted"), std::string::npos) << event;
  EXPECT_NE(event.find("\"owner\":\"app\""), std::string::npos) << event;
  EXPECT_EQ(event.find("5ecret"), std::string::npos) << event;
  for (const char* user : {"viewer", "other", "breaker"}) {
    const auto its = as(user);
    EXPECT_EQ(its->ask(request({"GET", "a"})), "$20\r\nheld by another user\r\n") << user;
    for (const Words& each : {look, all}) {
      const std::string seen = its->ask(request(each));
      EXPECT_EQ(seen.find("5ecret"), std::string::npos) << user << ": " << seen;
      EXPECT_NE(seen.find("\"owner\":\"app\""), std::string::npos) << user << ": " << seen;
    }
  }
  for (const char* user : {"app", "ops"}) {
    EXPECT_EQ(as(user)->ask(request({"GET", "a"})), "$6\r\n5ecret\r\n") << user;
    EXPECT_NE(as(user)->ask(request(look)).find("5ecret"), std::string::npos) << user;
  }
}

TEST_F(AccessTest, AValueOfALockLibraryIsItsUsersAfterARestart) {
  options_.journal = "sqlite:" + folder_.file("journal");
  start("app @ acquire:*\nother @ acquire:*\n");
  ASSERT_EQ(as("app")->ask(request({"SET", "a", "5ecret", "NX", "PX", "60000"})), "+OK\r\n");
  server_.reset();
  start("app @ acquire:*\nother @ acquire:*\n");
  EXPECT_EQ(as("app")->ask(request({"GET", "a"})), "$6\r\n5ecret\r\n");
  EXPECT_EQ(as("other")->ask(request({"GET", "a"})), "$20\r\nheld by another user\r\n");
}

TEST_F(AccessTest, NobodyListensToTheClientOfAnotherUser) {
  start("app @ acquire:*\nother @ acquire:*\n");
  const auto mine = as("app");
  ASSERT_TRUE(mine->ask(request({"SUBSCRIBE", "hf1:@client"})).starts_with("*3\r\n"));
  EXPECT_TRUE(as("app")->ask(request({"SUBSCRIBE", "hf1:@client"})).starts_with("*3\r\n"));
  EXPECT_TRUE(as("other")->ask(request({"SUBSCRIBE", "hf1:@client"})).starts_with("-NOPERM "));
}

TEST_F(AccessTest, AUserHasItsLimits) {
  start("app @ acquire:* connections:2 rate:2\n");
  const auto one = as("app");
  const auto two = as("app");
  const Socket third(server_->address());
  EXPECT_TRUE(third.ask(request({"AUTH", "app", "secret"})).starts_with("-OVERLOADED user 'app'"));
  EXPECT_EQ(third.receive(), "");
  std::string refusal;
  EXPECT_TRUE(eventually([&] {
    refusal = one->ask(request({"GET", "a"}) + request({"GET", "b"}) + request({"GET", "c"}));
    return refusal.find("-OVERLOADED user 'app' may ask for 2 locks a second") != refusal.npos;
  })) << refusal;
  // Leases go on: what is held already is no new wish.
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(two->ask(request({"HF1", "end", "1", "hf1:{a}", "client", kId, "0000000000000001",
                                "release"}))
                  .find("OVERLOADED"),
              std::string::npos);
  }
}

TEST_F(AccessTest, AConnectionHasItsLimitWithoutUsersToo) {
  options_.connection_rate = 2;
  server_.emplace(*ServerAccess::start(options_, {}));
  const Socket one(server_->address());
  std::string refusal;
  EXPECT_TRUE(eventually([&] {
    refusal = one.ask(request({"GET", "a"}) + request({"EXISTS", "b"}) + request({"GET", "c"}));
    return refusal.find("-OVERLOADED a connection may ask for 2 locks a second") != refusal.npos;
  })) << refusal;
  const Socket two(server_->address());
  EXPECT_TRUE(two.ask(request({"HF1", "attach", "0"})).starts_with("+HF1 "));
  EXPECT_TRUE(two.ask(acquire("a", kId)).find("held ") != refusal.npos) << "it is another one";
  for (int i = 0; i < 10; ++i) {
    const std::string renewed =
        two.ask(request({"HF1", "renew", "1", "hf1:{a}", "client", kId,
                         std::string(15, '0') + std::to_string(i), "30000000", "30000000"}));
    EXPECT_EQ(renewed.find("OVERLOADED"), renewed.npos) << "leases go on: " << renewed;
  }
}

// Rule 56: what is not committed is bounded for each user. One write brings all of these, so that
// they share a commit.
TEST_F(AccessTest, NoUserGetsMoreRoomByMoreNamesOfClients) {
  start("greedy @ acquire:*\nmodest @ acquire:*\n", {}, {.user_backlog = 300});
  const auto greedy = as("greedy");
  std::string all;
  for (int i = 0; i < 9; ++i) {
    const std::string number = std::to_string(i);
    all += request({"HF1", "acquire", "1", "hf1:{n" + number + "}", "client-" + number,
                    std::string(31, '1') + number, "0000000000000001", "30000000", "{}",
                    "Te 1 1 0 0 0 -"});
  }
  all += request({"SET", "another", "v", "NX", "PX", "60000"});
  ASSERT_TRUE(greedy->send(all + request({"ECHO", "last"})));
  std::string said;
  while (said.find("last\r\n") == std::string::npos) {
    const std::string more = greedy->receive();
    ASSERT_FALSE(more.empty()) << said;
    said += more;
  }
  const std::size_t refused = said.find("-OVERLOADED ");
  EXPECT_LT(refused, said.rfind("-OVERLOADED ")) << "not the SET alone, but " << said;
  EXPECT_TRUE(said.ends_with("in a moment\r\n$4\r\nlast\r\n")) << "the SET, too, but " << said;
  EXPECT_EQ(as("modest")->ask(request({"SET", "m", "v", "NX", "PX", "60000"})), "+OK\r\n");
}

TEST_F(AccessTest, StrangersOfOneAddressAreFew) {
  FrontLimits limits;
  limits.strangers_of_address = 3;
  start("app @ acquire:*\n", limits);
  const auto known = as("app");
  std::vector<std::unique_ptr<Socket>> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(std::make_unique<Socket>(server_->address()));
  std::string said;
  EXPECT_TRUE(eventually([&] {
    said = Socket(server_->address()).receive();
    return said.starts_with("-ERR max number of clients reached");
  })) << said;
  EXPECT_EQ(known->ask(request({"PING"})), "+PONG\r\n");
  silent.pop_back();
  EXPECT_TRUE(eventually([&] {
    return Socket(server_->address()).ask(request({"AUTH", "app", "secret"})) == "+OK\r\n";
  }));
}

TEST_F(AccessTest, TheOldestStrangerMakesRoom) {
  FrontLimits limits;
  limits.strangers = 3;
  start("app @ acquire:*\n", limits);
  const Socket oldest(server_->address());
  std::vector<std::unique_ptr<Socket>> silent;
  for (int i = 0; i < 2; ++i) silent.push_back(std::make_unique<Socket>(server_->address()));
  EXPECT_EQ(as("app")->ask(request({"PING"})), "+PONG\r\n");
  EXPECT_EQ(oldest.receive(), "");
}

TEST_F(AccessTest, AStrangerWhoAsksAndAsksIsCutOff) {
  start("app @ acquire:*\n");
  const Socket socket(server_->address());
  std::string many;
  for (int i = 0; i < 1'000; ++i) many += request({"A"});
  ASSERT_TRUE(socket.send(many));
  std::string all;
  for (std::string more = socket.receive(); !more.empty(); more = socket.receive()) all += more;
  EXPECT_NE(all.find("too many requests before the log-in"), std::string::npos);
  EXPECT_LT(all.size(), 4'096U);
}

TEST_F(AccessTest, AFloodOfStrangersCostsNoLease) {
  start("app @ acquire:*\n");
  auto client = connect("app");
  ASSERT_TRUE(client);
  auto lease = client->mutex("a").acquire({.wait = 10s, .ttl = 2s});
  ASSERT_TRUE(lease);
  ASSERT_TRUE(lease->renew());
  std::string many;
  for (int i = 0; i < 5'000; ++i) many += request({"A"});
  const auto until = std::chrono::steady_clock::now() + 5s;
  while (std::chrono::steady_clock::now() < until) {
    std::vector<std::unique_ptr<Socket>> crowd;
    for (int i = 0; i < 50; ++i) {
      crowd.push_back(std::make_unique<Socket>(server_->address()));
      static_cast<void>(crowd.back()->send(many));
    }
  }
  EXPECT_TRUE(lease->held());
}

TEST_F(AccessTest, AStrangersRequestIsSmallAndAUsersIsNot) {
  start("app @ acquire:*\n");
  const std::string large = request({"ECHO", std::string(2'000, 'x')});
  EXPECT_TRUE(Socket(server_->address()).ask(large).starts_with("-ERR Protocol error"));
  EXPECT_TRUE(as("app")->ask(large).starts_with("$2000\r\n"));
}

TEST_F(AccessTest, TheRateOutlivesTheConnection) {
  start("app @ acquire:* rate:1\n");
  EXPECT_TRUE(eventually([&] {
    return as("app")->ask(request({"GET", "a"})).starts_with("-OVERLOADED ");
  }));
  // More locks at once than in a second: later ones wait for it.
  std::string said;
  EXPECT_TRUE(eventually([&] {
    said = as("app")->ask(request({"EXISTS", "a", "b", "c"}));
    return said == ":0\r\n";
  })) << said;
  EXPECT_TRUE(as("app")->ask(request({"GET", "a"})).starts_with("-OVERLOADED "));
}

TEST_F(AccessTest, ASecondLogInOnOneConnectionNeedsNoOtherConnection) {
  start("app @ acquire:* connections:1\n");
  const auto app = as("app");
  EXPECT_EQ(app->ask(request({"AUTH", "app", "secret"})), "+OK\r\n");
}

TEST_F(AccessTest, AnAnswerToRedissonIsForItsUserAndLockOnly) {
  start("app @ acquire:a\nother @ acquire:b\n");
  const auto take = [](const std::string& lock) {
    return request(
        {"EVALSHA", "149c5a8bf18676fd99e9e6e24923bd64d9b62f94", "1", lock, "60000", "w"});
  };
  const auto unlock = [](const std::string& lock) {
    return request({"EVALSHA", "6866459238a13a701d42f4971f12d9f3a50e2442", "3", lock,
                    "redisson_lock__channel:{" + lock + "}", "latch", "0", "60000", "w", "publish",
                    "60000"});
  };
  const auto app = as("app");
  const auto other = as("other");
  EXPECT_EQ(app->ask(take("a")), "$-1\r\n");
  EXPECT_EQ(other->ask(take("b")), "$-1\r\n");
  EXPECT_EQ(other->ask(take("b")), "$-1\r\n") << "held twice";
  EXPECT_EQ(app->ask(unlock("a")), ":1\r\n");
  EXPECT_EQ(other->ask(unlock("b")), ":0\r\n") << "its own answer: it holds once more";
  // Redisson's count has the id of the acquisition in it.
  EXPECT_EQ(other->ask(request({"HF1", "value", "1", "hf1:{b}"})), "$0\r\n\r\n");
}

// --- The real client.

TEST_F(AccessTest, AClientLogsInOnAllItsConnections) {
  start("app @ acquire:orders/* observe:*\nops @ break:*\n");
  auto client = connect("app");
  ASSERT_TRUE(client) << client.error().message();
  auto lease = client->mutex("orders/1").acquire({.wait = 10s, .ttl = 2s});
  ASSERT_TRUE(lease) << lease.error().message();
  EXPECT_TRUE(lease->renew());
  const auto denied = client->mutex("stock").acquire({.wait = 0s});
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code(), Errc::kPermissionDenied);
  EXPECT_NE(denied.error().message().find("no right to acquire 'stock'"), std::string::npos)
      << denied.error().message();
  // A waiter is woken: pushes work, too.
  auto other = connect("app");
  ASSERT_TRUE(other);
  auto waits = std::async(std::launch::async, [&] {
    return other->mutex("orders/1").acquire({.wait = 20s}).has_value();
  });
  EXPECT_TRUE(lease->release());
  EXPECT_TRUE(waits.get());
}

TEST_F(AccessTest, AWrongLogInSaysWhatToCorrect) {
  start("app @ acquire:*\n");
  const std::string at = server_->address();
  for (const std::string& text : {"holdfast://app:wrong@" + at, "holdfast://nobody:secret@" + at,
                                  "holdfast://" + at, "holdfast://app@" + at}) {
    const auto client = Client::connect(text);
    ASSERT_FALSE(client) << text;
    EXPECT_EQ(client.error().code(), Errc::kPermissionDenied) << client.error().message();
    EXPECT_NE(client.error().message().find("HOLDFAST_SERVICE_PASSWORD"), std::string::npos)
        << client.error().message();
    EXPECT_EQ(client.error().message().find("wrong"), std::string::npos);
  }
}

// --- Reload.

TEST_F(AccessTest, AReloadTakesRightsAwayAndLeavesTheOthersAlone) {
  start("app @ acquire:*\nother @ acquire:*\n");
  const auto app = as("app");
  const auto other = as("other");
  ASSERT_NE(other->ask(acquire("b", kId)).find("held "), std::string::npos);
  write_users("app @ observe:*\nother @ acquire:*\nnew @ acquire:*\n");
  ASSERT_TRUE(server_->reload());
  EXPECT_EQ(app->receive(), "") << "its line has changed";
  EXPECT_TRUE(as("app")->ask(request({"SET", "a", "v", "NX", "PX", "60000"})).starts_with("-NOP"));
  EXPECT_EQ(other->ask(request({"PING"})), "+PONG\r\n");
  EXPECT_EQ(as("new")->ask(request({"PING"})), "+PONG\r\n");
}

TEST_F(AccessTest, NobodySlipsThroughWithTheRightsOfBefore) {
  start("app @ acquire:*\n");
  for (int round = 0; round < 10; ++round) {
    write_users("app @ acquire:*\n");
    ASSERT_TRUE(server_->reload());
    EXPECT_NE(as("app")->ask(request({"GET", "secret"})).substr(0, 5), "-NOPE");
    std::vector<std::unique_ptr<Socket>> crowd;
    write_users("app @ acquire:orders/*\n");
    for (int i = 0; i < 50; ++i) {
      crowd.push_back(std::make_unique<Socket>(server_->address()));
      ASSERT_TRUE(crowd.back()->send(request({"AUTH", "app", "secret"})));
    }
    ASSERT_TRUE(server_->reload());
    const Words look{"GET", "secret"};
    for (const auto& each : crowd) {
      const std::string said = each->receive();
      if (!said.starts_with("+OK")) continue;
      const std::string seen = each->ask(request(look));
      EXPECT_TRUE(seen.empty() || seen.starts_with("-NOPERM ")) << seen;
    }
    EXPECT_TRUE(as("app")->ask(request(look)).starts_with("-NOPERM "));
  }
}

TEST_F(AccessTest, ABadFileChangesNothing) {
  start("app @ acquire:*\n");
  const auto app = as("app");
  write_users("app @ acquire\n");
  const auto reloaded = server_->reload();
  ASSERT_FALSE(reloaded);
  EXPECT_NE(reloaded.error().message().find("line 1"), std::string::npos);
  EXPECT_EQ(app->ask(request({"PING"})), "+PONG\r\n");
  EXPECT_EQ(as("app")->ask(request({"PING"})), "+PONG\r\n");
}

TEST_F(AccessTest, ALeaseOutlivesAReloadThatClosesItsConnections) {
  start("app @ acquire:*\n");
  auto client = connect("app");
  ASSERT_TRUE(client);
  auto lease = client->mutex("a").acquire({.wait = 10s, .ttl = 10s});
  ASSERT_TRUE(lease);
  write_users("app @ acquire:* connections:100\n");
  ASSERT_TRUE(server_->reload());
  EXPECT_TRUE(eventually([&] { return static_cast<bool>(lease->renew()); }));
  EXPECT_TRUE(lease->held());
  EXPECT_TRUE(lease->release());
}

}  // namespace
}  // namespace holdfast::server
