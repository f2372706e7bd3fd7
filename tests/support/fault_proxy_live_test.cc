#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include <gtest/gtest.h>

#include "tests/support/fault_proxy.h"
#include "tests/support/proxy_link.h"
#include "tests/support/redis_server.h"

namespace holdfast::support {
namespace {

using Kind = Fault::Kind;

constexpr milliseconds kSilence = 40ms;

TEST(RespRequestSizeTest, FindsTheEndOfTheFirstRequest) {
  const std::string ping = "*1\r\n$4\r\nPING\r\n";
  const std::string set = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\n";
  EXPECT_EQ(resp_request_size(ping + set), ping.size());
  EXPECT_EQ(resp_request_size(set + ping), set.size());
  for (std::size_t size = 0; size < set.size(); ++size) {
    EXPECT_EQ(resp_request_size(set.substr(0, size)), 0U) << size;
  }
  for (const char* other : {"PING\r\n", "*x\r\n", "*1\r\nPING\r\n", "*1\r\n$-2\r\n", "*-1\r\n"}) {
    EXPECT_EQ(resp_request_size(other), std::string_view::npos) << other;
  }
}

class FaultProxyTest : public testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_REDIS();
    server_ = std::make_unique<RedisServer>();
    proxy_ = std::make_unique<FaultProxy>(
        ProxyOptions{.server_port = server_->port(), .framing = Framing::kResp});
  }

  RedisConnection client(milliseconds limit = RedisConnection::kLimit) const {
    return RedisConnection(proxy_->port(), limit);
  }
  static bool is_silent(const RedisConnection& connection) {
    pollfd readable{connection.fd(), POLLIN, 0};
    return ::poll(&readable, 1, static_cast<int>(kSilence.count())) == 0;
  }

  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<FaultProxy> proxy_;
};

TEST_F(FaultProxyTest, IsTransparentAndCounts) {
  const std::string big(3'000'000, 'x');
  {
    RedisConnection connection = client();
    EXPECT_EQ(connection.command({"SET", "a", big}).text, "OK");
    EXPECT_EQ(connection.command({"GET", "a"}).text, big);
    const ProxyStats stats = proxy_->stats();
    EXPECT_EQ(stats.accepted, 1U);
    EXPECT_EQ(stats.open, 1U);
    EXPECT_GT(at(stats.received, Direction::kToServer), big.size());
    EXPECT_EQ(at(stats.forwarded, Direction::kToServer), at(stats.received, Direction::kToServer));
    EXPECT_EQ(at(stats.forwarded, Direction::kToClient), at(stats.received, Direction::kToClient));
    EXPECT_EQ(at(stats.dropped, Direction::kToClient), 0U);
  }
  EXPECT_TRUE(proxy_->wait_for([](const ProxyStats& stats) { return stats.open == 0; }));
  EXPECT_EQ(proxy_->stats().clients_gone, 1U);
}

TEST_F(FaultProxyTest, DelaysWhatMatches) {
  const int delay = proxy_->add({.kind = Kind::kDelay, .containing = "slow", .delay = 30ms});
  RedisConnection connection = client();
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(connection.command({"PING", "slow"}).text, "slow");
  EXPECT_GE(std::chrono::steady_clock::now() - began, 30ms);
  connection.command({"PING", "fast"});
  EXPECT_EQ(proxy_->stats().hits.at(delay), 1U);
}

TEST_F(FaultProxyTest, HoldsARequestAndAllBehindItUntilReleased) {
  const int hold = proxy_->add({.kind = Kind::kHold, .containing = "lock:a"});
  RedisConnection held = client();
  RedisConnection other = client();
  held.send({"INCR", "before"});
  held.send({"INCR", "lock:a"});
  held.send({"INCR", "behind"});
  EXPECT_EQ(held.read().integer, 1);
  ASSERT_TRUE(proxy_->wait_for_hits(hold));
  EXPECT_EQ(other.command({"PING"}).text, "PONG");
  EXPECT_TRUE(is_silent(held));
  EXPECT_TRUE(server_->command({"GET", "lock:a"}).is_nil());
  EXPECT_TRUE(server_->command({"GET", "behind"}).is_nil());
  proxy_->remove(hold);
  EXPECT_EQ(held.read().integer, 1);
  EXPECT_EQ(held.read().integer, 1);
  EXPECT_EQ(server_->command({"GET", "behind"}).text, "1");
}

TEST_F(FaultProxyTest, AHeldRequestArrivesAfterItsClientHasLeft) {
  const int hold = proxy_->add({.kind = Kind::kHold, .containing = "zombie"});
  {
    RedisConnection leaving = client();
    leaving.send({"SET", "zombie", "1"});
    ASSERT_TRUE(proxy_->wait_for_hits(hold));
  }
  ASSERT_TRUE(proxy_->wait_for([](const ProxyStats& stats) { return stats.clients_gone == 1; }));
  EXPECT_TRUE(server_->command({"GET", "zombie"}).is_nil());
  proxy_->remove(hold);
  ASSERT_TRUE(proxy_->wait_for([](const ProxyStats& stats) { return stats.open == 0; }));
  EXPECT_EQ(server_->command({"GET", "zombie"}).text, "1");
  EXPECT_GT(proxy_->stats().replies_to_the_gone, 0U);
}

std::chrono::microseconds processor_time() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return std::chrono::seconds(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         std::chrono::microseconds(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

// Sockets that have hung up are ready all the time.
TEST_F(FaultProxyTest, SleepsWhileAllItHasToDoIsToHold) {
  proxy_->add({.kind = Kind::kHold, .containing = "zombie"});
  proxy_->add({.kind = Kind::kBlackhole, .containing = "gone"});
  RedisConnection staying = client();
  client().send({"GET", "zombie"});
  {
    RedisConnection leaving = client();
    leaving.send({"GET", "gone"});
    const linger with_reset{1, 0};
    ::setsockopt(leaving.fd(), SOL_SOCKET, SO_LINGER, &with_reset, sizeof with_reset);
  }
  ASSERT_TRUE(proxy_->wait_for([](const ProxyStats& stats) { return stats.clients_gone == 2; }));
  const auto before = processor_time();
  EXPECT_TRUE(is_silent(staying));
  EXPECT_LT(processor_time() - before, kSilence / 2);
}

TEST_F(FaultProxyTest, DropsTheReplyOfARequestThatIsDone) {
  RedisConnection connection = client();
  EXPECT_EQ(connection.command({"PING"}).text, "PONG");
  const int drop = proxy_->add({.kind = Kind::kDropReplies, .containing = "counter", .times = 1});
  connection.send({"INCR", "counter"});
  ASSERT_TRUE(proxy_->wait_for(
      [](const ProxyStats& stats) { return at(stats.dropped, Direction::kToClient) > 0; }));
  EXPECT_TRUE(is_silent(connection));
  EXPECT_EQ(server_->command({"GET", "counter"}).text, "1");
  // Also when the fault is over: its bytes are lost.
  proxy_->remove(drop);
  connection.send({"PING"});
  EXPECT_TRUE(is_silent(connection));
  EXPECT_EQ(client().command({"INCR", "counter"}).integer, 2);
}

TEST_F(FaultProxyTest, ABlackholeSwallowsRequestsOfTheConnectionsMeant) {
  RedisConnection renewals = client();
  RedisConnection other = client();
  renewals.command({"CLIENT", "SETNAME", "renewals"});
  proxy_->add({.kind = Kind::kBlackhole, .on_connection_with = "renewals"});
  renewals.send({"INCR", "counter"});
  EXPECT_EQ(other.command({"PING"}).text, "PONG");
  EXPECT_TRUE(is_silent(renewals));
  EXPECT_TRUE(server_->command({"GET", "counter"}).is_nil());
}

TEST_F(FaultProxyTest, ResetsInTheMiddleOfAReply) {
  server_->must({"SET", "a", std::string(1000, 'x')});
  proxy_->add({.kind = Kind::kReset,
               .direction = Direction::kToClient,
               .containing = "xxxx",
               .after_bytes = 100});
  RedisConnection connection = client();
  connection.send({"GET", "a"});
  std::string got;
  ssize_t size = 0;
  for (char part[4096]; (size = ::recv(connection.fd(), part, sizeof part, 0)) > 0;) {
    got.append(part, static_cast<std::size_t>(size));
  }
  EXPECT_EQ(size, -1);
  EXPECT_EQ(errno, ECONNRESET) << std::strerror(errno);
  EXPECT_LE(got.size(), 100U);
  EXPECT_EQ(at(proxy_->stats().forwarded, Direction::kToClient), 100U);
  EXPECT_EQ(proxy_->stats().resets, 1U);
}

TEST_F(FaultProxyTest, SplitsRepliesIntoBytes) {
  proxy_->add({.kind = Kind::kSplit, .direction = Direction::kToClient});
  RedisConnection connection = client();
  connection.send({"PING", "a longer text"});
  char part[100];
  // The first byte is there before the second is sent.
  const ssize_t size = ::recv(connection.fd(), part, sizeof part, 0);
  EXPECT_GE(size, 1);
  EXPECT_LT(size, 20);
  RedisConnection whole = client();
  EXPECT_EQ(whole.command({"PING", std::string(200, 'y')}).text, std::string(200, 'y'));
}

TEST_F(FaultProxyTest, DuplicatesARequest) {
  proxy_->add({.kind = Kind::kDuplicate, .containing = "counter", .times = 1});
  RedisConnection connection = client();
  connection.send({"PING"});
  connection.send({"INCR", "counter"});
  connection.read();
  connection.read();
  ASSERT_TRUE(proxy_->wait_for([](const ProxyStats& stats) { return stats.copies_answered == 1; }));
  EXPECT_EQ(server_->command({"GET", "counter"}).text, "2");
  EXPECT_EQ(connection.command({"INCR", "counter"}).integer, 3);
  EXPECT_EQ(proxy_->stats().copies_sent, 1U);
}

TEST_F(FaultProxyTest, ReplaysTheLastRequestWithAText) {
  {
    RedisConnection connection = client();
    connection.command({"INCRBY", "counter", "5"});
    connection.command({"PING"});
  }
  EXPECT_FALSE(proxy_->replay("nobody said this"));
  ASSERT_TRUE(proxy_->replay("counter", "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"));
  ASSERT_TRUE(proxy_->wait_for([](const ProxyStats& stats) { return stats.copies_answered == 1; }));
  EXPECT_EQ(proxy_->stats().copies_replies, "+OK\r\n:5\r\n");
  EXPECT_EQ(server_->command({"GET", "counter"}).text, "5");
}

TEST_F(FaultProxyTest, RefusesNewConnectionsOnly) {
  RedisConnection old = client();
  old.command({"PING"});
  proxy_->refuse(true);
  EXPECT_THROW(client(), std::runtime_error);
  EXPECT_EQ(old.command({"PING"}).text, "PONG");
  proxy_->refuse(false);
  EXPECT_EQ(client().command({"PING"}).text, "PONG");
}

TEST_F(FaultProxyTest, ClosesAndResetsTheConnectionsMeant) {
  RedisConnection first = client();
  RedisConnection second = client();
  RedisConnection third = client();
  first.command({"PING", "first"});
  second.command({"PING", "second"});
  third.command({"PING"});
  char byte = 0;
  proxy_->close_all("first");
  EXPECT_EQ(::recv(first.fd(), &byte, 1, 0), 0);
  proxy_->reset_all("second");
  EXPECT_EQ(::recv(second.fd(), &byte, 1, 0), -1);
  EXPECT_EQ(third.command({"PING"}).text, "PONG");
  proxy_->close_all();
  EXPECT_EQ(::recv(third.fd(), &byte, 1, 0), 0);
}

TEST_F(FaultProxyTest, AServerThatDiesEndsItsConnections) {
  RedisConnection connection = client();
  connection.command({"PING"});
  server_->kill9();
  char byte = 0;
  EXPECT_LE(::recv(connection.fd(), &byte, 1, 0), 0);
  EXPECT_TRUE(proxy_->wait_for([](const ProxyStats& stats) { return stats.open == 0; }));
}

TEST_F(FaultProxyTest, RawTextsAreFoundAcrossReads) {
  FaultProxy raw({.server_port = server_->port()});
  const int hold = raw.add({.kind = Kind::kHold, .containing = "lock:a"});
  RedisConnection connection(raw.port());
  const std::string request = "*2\r\n$4\r\nINCR\r\n$6\r\nlock:a\r\n";
  const std::size_t half = request.find("ck:a");
  ASSERT_EQ(::send(connection.fd(), request.data(), half, 0), static_cast<ssize_t>(half));
  ASSERT_TRUE(raw.wait_for(
      [&](const ProxyStats& stats) { return at(stats.forwarded, Direction::kToServer) == half; }));
  ASSERT_GT(::send(connection.fd(), request.data() + half, request.size() - half, 0), 0);
  ASSERT_TRUE(raw.wait_for_hits(hold));
  EXPECT_TRUE(is_silent(connection));
  raw.remove_all();
  EXPECT_EQ(connection.read().integer, 1);
}

}  // namespace
}  // namespace holdfast::support
