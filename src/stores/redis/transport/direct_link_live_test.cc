#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "src/stores/redis/transport/direct_link.h"
#include "src/stores/redis/transport/test_wire.h"
#include "tests/support/swallower.h"

namespace holdfast::stores::redis::testing {
namespace {

using support::Direction;
using support::Fault;
using support::Framing;
using support::Memory;

class DirectLinkLiveTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_REDIS(); }
};

Result<Reply> ask(DirectLink& link, const std::vector<std::string_view>& args,
                  BootClock::duration time = 10s, bool reads_only = false) {
  auto replies =
      link.try_take().value().call(wire_of(args), 1, BootClock::now() + time, reads_only);
  if (!replies) return replies.error();
  return replies->at(0);
}

TEST_F(DirectLinkLiveTest, SeveralRequestsGetTheirAnswersInOrder) {
  RedisServer server;
  DirectLink link(remote_of(server.url()));
  EXPECT_FALSE(link.connected());
  std::string wire;
  for (int i = 0; i < 1000; ++i) wire += wire_of({"INCR", "n"});
  const auto replies = link.try_take()->call(wire, 1000, BootClock::now() + 10s);
  ASSERT_TRUE(replies) << replies.error().message();
  ASSERT_EQ(replies->size(), 1000U);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ((*replies)[static_cast<std::size_t>(i)].integer, i + 1);
  EXPECT_TRUE(link.connected());
}

TEST_F(DirectLinkLiveTest, OneCallerAtATimeHasIt) {
  RedisServer server;
  DirectLink link(remote_of(server.url()));
  {
    const auto turn = link.try_take();
    ASSERT_TRUE(turn);
    EXPECT_FALSE(link.try_take());
  }
  EXPECT_TRUE(link.try_take());
}

TEST_F(DirectLinkLiveTest, WorksOverTlsAndAUnixSocket) {
  RedisServer server({.tls = support::RedisTls::kClientMustAuthenticate});
  const support::TlsFiles& files = support::tls_files();
  DirectLink secure(remote_of(server.url({.tls = true,
                                          .query = {{"tls_ca", files.ca},
                                                    {"tls_cert", files.client.certificate},
                                                    {"tls_key", files.client.key}}})));
  const std::string large(1'000'000, 'x');
  EXPECT_EQ(said(ask(secure, {"SET", "a", large})), "OK");
  EXPECT_EQ(said(ask(secure, {"GET", "a"})), large);
  DirectLink local(remote_of(server.url({.unix_socket = true})));
  EXPECT_EQ(said(ask(local, {"GET", "a"})), large);
  DirectLink unknown(remote_of(server.url({.tls = true, .query = {{"tls_ca", files.ca}}})));
  EXPECT_EQ(code_of(ask(unknown, {"PING"})), "kPermissionDenied");
}

TEST_F(DirectLinkLiveTest, ADeadlineIsKeptAndTheConnectionIsNotUsedAgain) {
  for (const bool tls : {false, true}) {
    RedisServer server({.tls = support::RedisTls::kServerOnly});
    DirectLink link(
        remote_of(tls ? server.url({.tls = true, .query = {{"tls_ca", support::tls_files().ca}}})
                      : server.url()));
    ASSERT_EQ(said(ask(link, {"PING"})), "PONG");
    server.pause();
    for (const auto time : {30ms, 400ms}) {
      const auto begin = BootClock::now();
      const auto answer = ask(link, {"SET", "a", "1"}, time);
      EXPECT_GE(BootClock::now() - begin, time - 1ms);
      EXPECT_LT(BootClock::now() - begin, 5s);
      // The second time there is no connection any more, and the server does not log anybody in.
      EXPECT_EQ(code_of(answer), time == 30ms ? "kOutcomeUnknown" : "kUnavailable");
      EXPECT_FALSE(link.connected());
    }
    server.resume();
    EXPECT_EQ(said(ask(link, {"ECHO", "mine"})), "mine");
  }
}

TEST_F(DirectLinkLiveTest, WithoutAServerNothingIsApplied) {
  RedisServer server;
  DirectLink link(remote_of(server.url()));
  ASSERT_EQ(said(ask(link, {"PING"})), "PONG");
  server.kill9();
  EXPECT_TRUE(eventually([&] { return code_of(ask(link, {"INCR", "n"})) == "kUnavailable"; }));
  server.start();
  EXPECT_EQ(said(ask(link, {"INCR", "n"})), "1");
}

// A renewal has less time than a connection may take.
TEST_F(DirectLinkLiveTest, AnAddressThatSwallowsAllLeavesTimeForTheOthersAndIsTriedLast) {
  RedisServer server;
  const support::Swallower hole;
  const RemotePtr remote = remote_of_ports({hole.port(), server.port()});
  ASSERT_GE(remote->address.connect_timeout, 3s);
  DirectLink link(remote);
  EXPECT_TRUE(eventually([&] { return said(ask(link, {"PING"}, 2s)) == "PONG"; }));
  const auto first = [&] { return remote->primary->cached().endpoints.at(0).display(); };
  const std::string good = "127.0.0.1:" + std::to_string(server.port());
  EXPECT_EQ(first(), good);
  ASSERT_TRUE(remote->primary->resolve(BootClock::now() + kSoon));
  EXPECT_EQ(first(), good) << "looked up anew";
}

TEST_F(DirectLinkLiveTest, AnAttemptThatFailedIsRepeatedAfterAPause) {
  RedisServer server;
  // 50 ms, of every ceiling.
  DirectLink link(remote_of(server.url()), {}, [] { return std::uint64_t{50'000'000}; });
  ASSERT_EQ(said(ask(link, {"PING"})), "PONG");
  server.kill9();
  ASSERT_TRUE(eventually([&] { return code_of(ask(link, {"PING"})) == "kUnavailable"; }));
  const auto begin = BootClock::now();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(code_of(ask(link, {"PING"})), "kUnavailable");
  EXPECT_GE(BootClock::now() - begin, 199ms);
  server.start();
  EXPECT_EQ(said(ask(link, {"PING"})), "PONG");
  // Not while it is well.
  const auto well = BootClock::now();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(said(ask(link, {"PING"})), "PONG");
  EXPECT_LT(BootClock::now() - well, 1000 * 50ms);
}

TEST_F(DirectLinkLiveTest, AConnectionThatTheServerClosedInBetweenIsMadeAnew) {
  RedisServer server;
  DirectLink link(remote_of(server.url()));
  ASSERT_EQ(said(ask(link, {"INCR", "n"})), "1");
  ASSERT_EQ(server.client_kill("normal"), 1);
  // Idle long enough to be looked at before use.
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(said(ask(link, {"INCR", "n"})), "2");
}

TEST_F(DirectLinkLiveTest, AfterADemotionItConnectsAnew) {
  RedisServer primary;
  RedisServer server({.replica_of = &primary});
  DirectLink link(remote_of(server.url()));
  EXPECT_EQ(ask(link, {"SET", "a", "1"})->error_word(), "READONLY");
  EXPECT_FALSE(link.connected());
  server.must({"REPLICAOF", "NO", "ONE"});
  EXPECT_EQ(said(ask(link, {"SET", "a", "1"})), "OK");
}

TEST_F(DirectLinkLiveTest, ALostReplyIsUnknownUnlessNothingCouldChange) {
  RedisServer server;
  FaultProxy proxy({.server_port = server.port(), .framing = Framing::kRaw});
  DirectLink link(remote_of(server.url({.port = proxy.port()})));
  ASSERT_EQ(said(ask(link, {"SET", "a", std::string(100, 'x')})), "OK");
  for (const bool reads_only : {false, true}) {
    const int reset = proxy.add({.kind = Fault::Kind::kReset,
                                 .direction = Direction::kToClient,
                                 .times = 1,
                                 .after_bytes = 50});
    EXPECT_EQ(code_of(ask(link, {"GET", "a"}, 10s, reads_only)),
              reads_only ? "kUnavailable" : "kOutcomeUnknown");
    proxy.remove(reset);
    EXPECT_EQ(said(ask(link, {"GET", "a"})), std::string(100, 'x'));
  }
}

TEST_F(DirectLinkLiveTest, RepliesMayComeByteByByte) {
  RedisServer server;
  FaultProxy proxy({.server_port = server.port(), .framing = Framing::kRaw});
  proxy.add({.kind = Fault::Kind::kSplit, .direction = Direction::kToClient});
  DirectLink link(remote_of(server.url({.port = proxy.port()})));
  EXPECT_EQ(said(ask(link, {"ECHO", "slow but sure"})), "slow but sure");
}

TEST_F(DirectLinkLiveTest, AWrongPasswordIsPermissionDenied) {
  RedisServer server({.requirepass = "right"});
  DirectLink link(remote_of(server.url({.password = "hunter2"})));
  const auto answer = ask(link, {"PING"});
  EXPECT_EQ(code_of(answer), "kPermissionDenied");
  EXPECT_EQ(said(answer).find("hunter2"), std::string::npos);
}

TEST_F(DirectLinkLiveTest, CloseEndsACallThatWaits) {
  RedisServer server;
  DirectLink link(remote_of(server.url()));
  ASSERT_EQ(said(ask(link, {"PING"})), "PONG");
  server.pause();
  std::atomic<bool> begun = false;
  std::string code;
  std::thread caller([&] {
    auto turn = link.try_take();
    begun = true;
    code = code_of(turn->call(wire_of({"SET", "a", "1"}), 1, BootClock::now() + 15s));
  });
  ASSERT_TRUE(eventually([&] { return begun.load(); }));
  const auto begin = BootClock::now();
  link.close();
  caller.join();
  EXPECT_LT(BootClock::now() - begin, 5s);
  // Closed before its first byte left, or after.
  EXPECT_TRUE(code == "kOutcomeUnknown" || code == "kClosed") << code;
  EXPECT_FALSE(link.try_take());
}

TEST_F(DirectLinkLiveTest, AForkedChildLeavesTheParentsConnectionAlone) {
  RedisServer server({.tls = support::RedisTls::kServerOnly});
  DirectLink link(
      remote_of(server.url({.tls = true, .query = {{"tls_ca", support::tls_files().ca}}})));
  ASSERT_EQ(said(ask(link, {"PING"})), "PONG");
  const std::string id = said(ask(link, {"CLIENT", "ID"}));
  const pid_t child = ::fork();
  if (child == 0) {
    link.abandon();
    ::_exit(link.connected() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(said(ask(link, {"CLIENT", "ID"})), id);
}

}  // namespace
}  // namespace holdfast::stores::redis::testing
