// Users and TLS at a server in this process: what each may do, and what strangers may.
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/mutex.h"
#include "holdfast/server_tools.h"
#include "src/server/testing/plain_client.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tls_files.h"

namespace holdfast::server {
namespace {

using namespace std::chrono_literals;
using support::eventually;
using testing::request;
using testing::Socket;
using Words = std::vector<std::string>;

// "secret", hashed once.
const std::string& hash() {
  static const std::string made = *hash_password("secret");
  return made;
}

class AccessTest : public ::testing::Test {
 protected:
  // `lines`: users without their passwords, which are "secret".
  void write_users(const std::string& lines) const {
    std::ofstream file(users_);
    std::string text = lines;
    for (std::size_t at = 0; (at = text.find('@', at)) != text.npos;) {
      text.replace(at, 1, "password:" + hash());
    }
    file << text;
    ASSERT_EQ(::chmod(users_.c_str(), 0600), 0);
  }
  void start(const std::string& lines, FrontLimits limits = {}) {
    write_users(lines);
    options_.users = users_;
    ServerTuning tuning;
    limits.gate.first_delay = limits.gate.longest_delay = 1ms;
    tuning.front = limits;
    auto made = ServerAccess::start(options_, tuning);
    ASSERT_TRUE(made) << made.error().message();
    server_.emplace(*std::move(made));
  }
  // A plain connection that has logged in and asked for the term.
  std::unique_ptr<Socket> as(const std::string& user) const {
    auto socket = std::make_unique<Socket>(server_->address());
    EXPECT_EQ(socket->ask(request({"AUTH", user, "secret"})), "+OK\r\n");
    EXPECT_TRUE(socket->ask(request({"HF1", "attach", "0"})).starts_with("+HF1 "));
    return socket;
  }
  std::string url(const std::string& user, const std::string& more = "") const {
    std::string text = server_->url();
    text.insert(text.find("//") + 2, user + ":secret@");
    return text + more;
  }
  Result<Client> connect(const std::string& user, const std::string& more = "") const {
    return Client::connect(url(user, more));
  }

  const support::TempFolder folder_;
  const std::string users_ = folder_.file("users");
  ServerOptions options_{.listen = "127.0.0.1:0", .journal = "memory:"};
  std::optional<Server> server_;
};

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

TEST_F(AccessTest, AStrangersRequestIsSmallAndAUsersIsNot) {
  start("app @ acquire:*\n");
  const std::string large = request({"ECHO", std::string(2'000, 'x')});
  EXPECT_TRUE(Socket(server_->address()).ask(large).starts_with("-ERR Protocol error"));
  EXPECT_TRUE(as("app")->ask(large).starts_with("$2000\r\n"));
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

// --- TLS.

class TlsTest : public AccessTest {
 protected:
  void SetUp() override {
    options_.tls_cert = support::tls_files().server.certificate;
    options_.tls_key = support::tls_files().server.key;
  }
  static std::string trust() { return "?tls_ca=" + support::tls_files().ca; }
};

TEST_F(TlsTest, AClientTakesALockOverTls) {
  start("app @ acquire:*\n");
  EXPECT_TRUE(server_->url().starts_with("holdfasts://"));
  auto client = connect("app", trust());
  ASSERT_TRUE(client) << client.error().message();
  auto lease = client->mutex("a").acquire({.wait = 10s});
  ASSERT_TRUE(lease) << lease.error().message();
  // More than one record of TLS, in both directions.
  std::vector<Lease> many;
  for (int i = 0; i < 300; ++i) {
    auto next = client->mutex("many/" + std::to_string(i)).acquire({.wait = 10s});
    ASSERT_TRUE(next);
    many.push_back(*std::move(next));
  }
  EXPECT_EQ(client->list("many/", 1'000)->size(), 300U);
  auto other = connect("app", trust());
  ASSERT_TRUE(other);
  auto waits = std::async(std::launch::async,
                          [&] { return other->mutex("a").acquire({.wait = 20s}).has_value(); });
  EXPECT_TRUE(lease->release());
  EXPECT_TRUE(waits.get());
}

TEST_F(TlsTest, AClientThatDoesNotTrustTheServerSaysNothingToIt) {
  start("app @ acquire:*\n");
  const std::string foreign = "?tls_ca=" + support::tls_files().foreign_ca;
  for (const std::string& more : {foreign, trust() + "&tls_name=elsewhere.invalid"}) {
    const auto client = connect("app", more);
    ASSERT_FALSE(client);
    EXPECT_EQ(client.error().code(), Errc::kPermissionDenied);
    EXPECT_NE(client.error().message().find("certificate"), std::string::npos)
        << client.error().message();
  }
}

TEST_F(TlsTest, PlainTextAtATlsPortAndTheReverseAreToldApart) {
  start("app @ acquire:*\n");
  const Socket plain(server_->address());
  EXPECT_TRUE(plain.ask(request({"PING"})).starts_with("-ERR this port speaks TLS"));
  const Server without = testing::start();
  const auto client = Client::connect("holdfasts://" + without.address() + trust());
  ASSERT_FALSE(client);
  EXPECT_NE(client.error().message().find("does not speak TLS"), std::string::npos)
      << client.error().message();
}

TEST_F(TlsTest, HalfHandshakesEndInTimeAndDisturbNobody) {
  FrontLimits limits;
  limits.gate.handshake = 200ms;
  limits.strangers_of_address = 64;
  start("app @ acquire:*\n", limits);
  auto client = connect("app", trust());
  ASSERT_TRUE(client);
  auto lease = client->mutex("a").acquire({.wait = 10s, .ttl = 5s});
  ASSERT_TRUE(lease) << lease.error().message();
  ASSERT_TRUE(lease->renew()) << "all its connections are there";
  std::vector<std::unique_ptr<Socket>> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(std::make_unique<Socket>(server_->address()));
    static_cast<void>(silent.back()->send("\x16\x03\x01"));
  }
  EXPECT_TRUE(lease->renew());
  EXPECT_TRUE(client->mutex("b").acquire({.wait = 10s}));
  for (const auto& each : silent) EXPECT_EQ(each->receive(), "");
  EXPECT_TRUE(eventually([&] { return connect("app", trust()).has_value(); }));
}

TEST_F(TlsTest, ANewCertificateIsForNewConnections) {
  start("app @ acquire:*\n");
  const std::string cert = folder_.file("cert");
  ASSERT_TRUE(connect("app", trust()));
  server_.reset();
  // Files whose content is exchanged, as renewals of certificates do.
  const auto put = [&](const support::KeyPair& pair) {
    std::ofstream both(cert);
    both << std::ifstream(pair.certificate).rdbuf() << std::ifstream(pair.key).rdbuf();
  };
  put(support::tls_files().server);
  options_.tls_cert = cert;
  options_.tls_key.clear();
  start("app @ acquire:*\n");
  ASSERT_TRUE(connect("app", trust()));
  put(support::tls_files().foreign_server);
  ASSERT_TRUE(server_->reload());
  EXPECT_FALSE(connect("app", trust()));
  EXPECT_TRUE(connect("app", "?tls_ca=" + support::tls_files().foreign_ca));
  std::ofstream(cert) << "no certificate";
  const auto bad = server_->reload();
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message().find("--tls-cert '" + cert), std::string::npos)
      << bad.error().message();
  EXPECT_TRUE(connect("app", "?tls_ca=" + support::tls_files().foreign_ca));
}

TEST_F(TlsTest, BadFilesAreNamed) {
  const auto refused = [&](const std::string& cert, const std::string& key) {
    options_.tls_cert = cert;
    options_.tls_key = key;
    const auto server = Server::start(options_);
    return server ? std::string("it starts") : server.error().message();
  };
  const auto& files = support::tls_files();
  EXPECT_NE(refused("/nowhere", files.server.key).find("--tls-cert '/nowhere'"), std::string::npos);
  EXPECT_NE(refused(files.server.certificate, files.client.key).find("--tls-key"),
            std::string::npos);
  EXPECT_NE(refused(files.server.certificate, "").find("--tls-key"), std::string::npos);
  EXPECT_NE(refused("", files.server.key).find("--tls-cert FILE"), std::string::npos);
  options_.users = "/nowhere";
  EXPECT_NE(refused(files.server.certificate, files.server.key).find("users file '/nowhere'"),
            std::string::npos);
}

TEST_F(TlsTest, BeyondLoopbackAServerNeedsUsersAndTls) {
  const auto refused = [](ServerOptions options) {
    options.listen = "0.0.0.0:0";
    const auto server = Server::start(options);
    return server ? std::string("it starts") : server.error().message();
  };
  ServerOptions open{.journal = "memory:"};
  EXPECT_NE(refused(open).find("--users FILE"), std::string::npos);
  open.plaintext = true;
  EXPECT_NE(refused(open).find("--users FILE"), std::string::npos);
  open.plaintext = false;
  open.tls_cert = options_.tls_cert;
  open.tls_key = options_.tls_key;
  EXPECT_NE(refused(open).find("--users FILE"), std::string::npos);
  write_users("app @ acquire:*\n");
  ServerOptions clear{.journal = "memory:", .users = users_};
  EXPECT_NE(refused(clear).find("--tls-cert FILE"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::server
