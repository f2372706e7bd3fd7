#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/clock_shift.h"
#include "tests/support/redis_server.h"

namespace holdfast::support {
namespace {

class RedisServerTest : public testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_REDIS(); }
};

TEST_F(RedisServerTest, AnswersOnItsPortAndItsSocketAsItself) {
  RedisServer server;
  ASSERT_TRUE(server.running());
  for (const bool over_tcp : {true, false}) {
    RedisConnection connection =
        over_tcp ? server.connect() : RedisConnection(server.socket_path());
    EXPECT_EQ(connection.command({"PING"}).text, "PONG");
    const std::string info = connection.command({"INFO", "server"}).text;
    EXPECT_NE(info.find("process_id:" + std::to_string(server.pid()) + "\r"), std::string::npos);
  }
  EXPECT_EQ(server.url(), "redis://127.0.0.1:" + std::to_string(server.port()));
  EXPECT_GE(server.version().at(0), 6);
}

TEST_F(RedisServerTest, RepliesAreTypedTrees) {
  RedisServer server;
  EXPECT_EQ(server.command({"SET", "a", std::string("x\0y", 3)}).kind, Reply::Kind::kStatus);
  EXPECT_EQ(server.command({"GET", "a"}).text, std::string("x\0y", 3));
  EXPECT_TRUE(server.command({"GET", "b"}).is_nil());
  EXPECT_EQ(server.command({"INCR", "n"}).integer, 1);
  const Reply values = server.command({"MGET", "n", "b"});
  ASSERT_EQ(values.elements.size(), 2U);
  EXPECT_EQ(values.at(0).text, "1");
  EXPECT_TRUE(values.at(1).is_nil());
  EXPECT_EQ(server.command({"LPUSH", "n", "x"}).error_code(), "WRONGTYPE");
  EXPECT_THROW(server.must({"LPUSH", "n", "x"}), std::runtime_error);
}

TEST_F(RedisServerTest, ComesBackOnTheSamePortWithItsMemoryOrWithout) {
  RedisServer server;
  server.must({"SET", "a", "1"});
  const pid_t first = server.pid();
  server.restart(Memory::kKept);
  EXPECT_NE(server.pid(), first);
  EXPECT_EQ(server.connect().command({"GET", "a"}).text, "1");
  server.restart(Memory::kLost);
  EXPECT_TRUE(server.connect().command({"GET", "a"}).is_nil());
}

TEST_F(RedisServerTest, WhatWasAppendedSurvivesKill9) {
  RedisServer server({.appendonly = true});
  server.must({"SET", "a", "1"});
  server.kill9();
  EXPECT_FALSE(server.running());
  EXPECT_THROW(server.connect(), std::runtime_error);
  server.start();
  EXPECT_EQ(server.command({"GET", "a"}).text, "1");
}

TEST_F(RedisServerTest, APausedServerSaysNothingUntilItGoesOn) {
  RedisServer server;
  RedisConnection client(server.port(), 30ms);
  server.pause();
  EXPECT_THROW(client.command({"PING"}), std::runtime_error);
  server.resume();
  EXPECT_EQ(server.command({"PING"}).text, "PONG");
}

TEST_F(RedisServerTest, PasswordsAndUsersAreAskedFor) {
  RedisServer server({.requirepass = "top", .users = {"alice on >secret ~a:* &* +@all"}});
  RedisConnection client = server.connect();
  EXPECT_EQ(client.command({"GET", "a"}).error_code(), "NOAUTH");
  EXPECT_EQ(client.command({"AUTH", "alice", "wrong"}).error_code(), "WRONGPASS");
  EXPECT_EQ(client.command({"AUTH", "alice", "secret"}).text, "OK");
  EXPECT_TRUE(client.command({"GET", "a:1"}).is_nil());
  EXPECT_EQ(client.command({"GET", "b"}).error_code(), "NOPERM");
  EXPECT_EQ(server.command({"SET", "b", "1"}).text, "OK") << "the harness may do all";
  EXPECT_EQ(server.url({.user = "alice", .password = "s:e@cret", .query = {{"ttl", "3s"}}}),
            "redis://alice:s%3Ae%40cret@127.0.0.1:" + std::to_string(server.port()) + "?ttl=3s");
}

TEST_F(RedisServerTest, AFullServerRefusesWritesOrEvicts) {
  RedisServer server({.maxmemory = "100kb", .maxmemory_policy = "noeviction"});
  EXPECT_EQ(server.command({"SET", "a", "1"}).error_code(), "OOM");
  server.config_set("maxmemory", "0");
  EXPECT_EQ(server.command({"SET", "a", "1"}).text, "OK");
}

TEST_F(RedisServerTest, CountsCommands) {
  RedisServer server;
  server.reset_counts();
  RedisConnection client = server.connect();
  for (int i = 0; i < 3; ++i) client.command({"GET", "a"});
  client.command({"EVAL", "return 1", "0"});
  EXPECT_EQ(server.command_count("get"), 3);
  EXPECT_EQ(server.command_count("EVAL"), 1);
  EXPECT_EQ(server.command_count("set"), 0);
  EXPECT_EQ(server.command_count("config|resetstat"), 1);
}

TEST_F(RedisServerTest, ForgetsScriptsAndKeys) {
  RedisServer server;
  const std::string digest = server.must({"SCRIPT", "LOAD", "return 7"}).text;
  server.must({"SET", "a", "1"});
  EXPECT_EQ(server.command({"EVALSHA", digest, "0"}).integer, 7);
  server.script_flush();
  EXPECT_EQ(server.command({"EVALSHA", digest, "0"}).error_code(), "NOSCRIPT");
  server.flushall();
  EXPECT_EQ(server.command({"DBSIZE"}).integer, 0);
}

TEST_F(RedisServerTest, KillsSubscribersApartFromOthers) {
  RedisServer server;
  RedisConnection subscriber = server.connect();
  RedisConnection other = server.connect();
  subscriber.command({"SUBSCRIBE", "a"});
  other.command({"PING"});
  EXPECT_EQ(server.client_kill("pubsub"), 1);
  EXPECT_THROW(subscriber.read(), std::runtime_error);
  EXPECT_EQ(other.command({"PING"}).text, "PONG");
  EXPECT_EQ(server.client_kill("normal"), 1);
  EXPECT_THROW(other.command({"PING"}), std::runtime_error);
}

TEST_F(RedisServerTest, AReplicaFollowsAndRefusesWrites) {
  RedisServer primary({.requirepass = "top"});
  RedisServer replica({.replica_of = &primary});
  primary.must({"SET", "a", "1"});
  ASSERT_TRUE(replica.eventually([](RedisServer& it) {
    return it.command({"GET", "a"}).text == "1";
  }));
  EXPECT_EQ(replica.command({"SET", "a", "2"}).error_code(), "READONLY");
}

TEST_F(RedisServerTest, AServerThatCannotStartSaysWhy) {
  try {
    RedisServer server({.config = {"no-such-directive 1"}});
    FAIL() << "it started";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("no-such-directive"), std::string::npos)
        << error.what();
  }
}

// The server's wall clock, in seconds.
std::int64_t server_time(RedisServer& server) {
  return std::stoll(server.must({"TIME"}).at(0).text);
}

TEST_F(RedisServerTest, ItsWallClockJumpsWhenToldTo) {
  ClockShift clock;
  RedisServer server({.clock_shift_file = clock.path()});
  EXPECT_NEAR(static_cast<double>(server_time(server)), static_cast<double>(::time(nullptr)), 2);
  server.must({"SET", "short", "1", "PX", "30000"});
  server.must({"SET", "long", "1", "PX", "7200000"});

  clock.set(1h);
  EXPECT_NEAR(static_cast<double>(server_time(server)), static_cast<double>(::time(nullptr) + 3600),
              2);
  EXPECT_TRUE(server.command({"GET", "short"}).is_nil()) << "expiry goes by the wall clock";
  EXPECT_EQ(server.command({"GET", "long"}).text, "1");
  const Reply in_script = server.command({"EVAL", "return redis.call('TIME')[1]", "0"});
  EXPECT_NEAR(std::stod(in_script.text), static_cast<double>(::time(nullptr) + 3600), 2);

  clock.set(-1h);
  EXPECT_GT(server.command({"PTTL", "long"}).integer, 7200000 + 3500000);
}

// No test's servers are left over when it is killed without a chance to clean up.
TEST_F(RedisServerTest, DiesWithATestThatIsKilled) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t test = ::fork();
  if (test == 0) {
    RedisServer server;
    const std::string line = std::to_string(server.pid()) + " " + server.data_folder() + "\n";
    if (::write(ends[1], line.data(), line.size()) > 0) ::pause();
    ::_exit(1);
  }
  ::close(ends[1]);
  std::string line(1000, '\0');
  ASSERT_GT(::read(ends[0], line.data(), line.size()), 0);
  ::close(ends[0]);
  const pid_t server = std::stoi(line);
  const auto watched = static_cast<int>(::syscall(SYS_pidfd_open, server, 0));
  ASSERT_GE(watched, 0);
  ::kill(test, SIGKILL);
  ::waitpid(test, nullptr, 0);
  pollfd ended{watched, POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 5000), 1) << "the server outlived its test";
  ::close(watched);
  const std::filesystem::path data = line.substr(line.find('/'), line.find('\n') - line.find('/'));
  std::filesystem::remove_all(data.parent_path());
}

class RedisTlsTest : public RedisServerTest {
 protected:
  // The openssl program's output for a handshake with this server; it also sends a PING.
  static bool shakes_hands(const RedisServer& server, const std::string& ca,
                           const std::string& host, const KeyPair& own = {}) {
    std::string line =
        "printf 'PING\\nQUIT\\n' | openssl s_client -quiet -verify_return_error "
        "-CAfile " +
        ca + " -verify_hostname " + host +
        " -connect 127.0.0.1:" + std::to_string(server.tls_port());
    if (!own.key.empty()) line += " -cert " + own.certificate + " -key " + own.key;
    const std::string said = run({"sh", "-c", line + " 2>&1 || true"});
    return said.find("+PONG") != std::string::npos;
  }
};

TEST_F(RedisTlsTest, IsTrustedUnderItsNamesOnlyByThoseWhoTrustItsAuthority) {
  RedisServer server({.tls = RedisTls::kServerOnly});
  EXPECT_EQ(
      server.url({.tls = true, .host = "localhost"}),
      "rediss://localhost:" + std::to_string(server.tls_port()) + "?tls_ca=" + tls_files().ca);
  EXPECT_TRUE(shakes_hands(server, tls_files().ca, "localhost"));
  EXPECT_FALSE(shakes_hands(server, tls_files().ca, "elsewhere.invalid"));
  EXPECT_FALSE(shakes_hands(server, tls_files().foreign_ca, "localhost"));
}

TEST_F(RedisTlsTest, MayHaveTheWrongName) {
  RedisServer server({.tls = RedisTls::kServerOnly, .certificate = tls_files().wrong_host});
  EXPECT_FALSE(shakes_hands(server, tls_files().ca, "localhost"));
  EXPECT_TRUE(shakes_hands(server, tls_files().ca, "elsewhere.invalid"));
}

TEST_F(RedisTlsTest, MayWantTheClientsCertificate) {
  RedisServer server({.tls = RedisTls::kClientMustAuthenticate});
  EXPECT_FALSE(shakes_hands(server, tls_files().ca, "localhost"));
  EXPECT_FALSE(shakes_hands(server, tls_files().ca, "localhost", tls_files().foreign_client));
  EXPECT_TRUE(shakes_hands(server, tls_files().ca, "localhost", tls_files().client));
}

}  // namespace
}  // namespace holdfast::support
