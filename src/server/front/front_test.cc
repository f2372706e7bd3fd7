// Clients that mean no good, against a server in this process.
#include "src/server/front/front.h"

#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/log_event.h"
#include "holdfast/mutex.h"
#include "src/server/front/listen_address.h"
#include "src/server/testing/allocated.h"
#include "src/server/testing/http_rig.h"
#include "src/server/testing/plain_client.h"
#include "tests/support/eventually.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/no_descriptors.h"

namespace holdfast::server {
namespace {

using namespace std::chrono_literals;
using testing::kPatience;
using testing::request;
using testing::Socket;
using testing::start;

constexpr std::string_view kPing = "*1\r\n$4\r\nPING\r\n";

std::string acquire(const std::string& name, const std::string& id, bool waits = true) {
  return request({"HF1", "acquire", "1", "hf1:{" + name + "}", "client", id, "0000000000000001",
                  "30000000", "{}", waits ? "Pe 1 1 1 30000000 0 -" : "Te 1 1 0 0 0 -"});
}

const std::string kAttach = request({"HF1", "attach", "0"});
const std::string kMine(32, '1');
const std::string kOther(32, '2');

TEST(FrontTest, AConnectionWithoutAWholeRequestIsClosedInTime) {
  FrontLimits limits;
  limits.first_time = 100ms;
  const Server server = start(limits);
  const Socket silent(server.address());
  const Socket half(server.address());
  ASSERT_TRUE(half.send("*1\r\n$4\r\nPI"));
  const Socket good(server.address());
  ASSERT_EQ(good.ask(kPing), "+PONG\r\n");
  EXPECT_EQ(silent.receive(), "");
  EXPECT_EQ(half.receive(), "");
  EXPECT_EQ(good.ask(kPing), "+PONG\r\n");
}

TEST(FrontTest, TheFirstRequestIsSmall) {
  const Server server = start();
  const Socket large(server.address());
  const std::string request_of_2k = request({"ECHO", std::string(2'000, 'x')});
  EXPECT_TRUE(large.ask(request_of_2k).starts_with("-ERR Protocol error"));
  const Socket greeted(server.address());
  ASSERT_EQ(greeted.ask(kPing), "+PONG\r\n");
  EXPECT_EQ(greeted.ask(request_of_2k).substr(0, 7), "$2000\r\n");
}

TEST(FrontTest, RepliesKeepTheOrderOfTheRequests) {
  const Server server = start();
  const Socket socket(server.address());
  // The grant waits for its commit; what comes behind it is known at once.
  ASSERT_TRUE(
      socket.send(kAttach + acquire("a", kMine) + std::string(kPing) + request({"ECHO", "last"})));
  std::string all;
  while (all.find("last\r\n") == std::string::npos) {
    const std::string more = socket.receive();
    ASSERT_FALSE(more.empty());
    all += more;
  }
  const std::size_t held = all.find("held ");
  const std::size_t pong = all.find("+PONG");
  EXPECT_LT(all.find("+HF1 "), held);
  EXPECT_LT(held, pong);
  EXPECT_LT(pong, all.find("last"));
}

// WAIT comes from programs that ask a Redis for its replicas. It claims no copy, and does not sit
// through a timeout that could change nothing.
TEST(FrontTest, WaitClaimsNoReplicaAndAnswersAfterTheCommitBeforeIt) {
  const Server server = start();
  const Socket socket(server.address());
  ASSERT_TRUE(socket.send(request({"SET", "a", "me", "NX", "PX", "60000"}) +
                          request({"WAIT", "1", "0"}) + std::string(kPing)));
  std::string all;
  while (all.find("+PONG") == std::string::npos) {
    const std::string more = socket.receive();
    ASSERT_FALSE(more.empty());
    all += more;
  }
  EXPECT_EQ(all, "+OK\r\n:0\r\n+PONG\r\n");
  for (const auto& bad : {request({"WAIT"}), request({"WAIT", "1"}), request({"WAIT", "x", "0"}),
                          request({"WAIT", "1", "0", "0"})}) {
    EXPECT_TRUE(socket.ask(bad).starts_with("-ERR WAIT takes")) << bad;
  }
}

TEST(FrontTest, AHandoffIsPushedToItsClientAlone) {
  const Server server = start();
  const Socket holder(server.address());
  const Socket waiter(server.address());
  const Socket other(server.address());
  const Socket ears(server.address());
  ASSERT_TRUE(ears.ask(request({"SUBSCRIBE", "hf1:@client"})).starts_with("*3\r\n$9\r\nsubscribe"));
  ASSERT_TRUE(other.ask(request({"SUBSCRIBE", "hf1:@somebody"})).starts_with("*3\r\n"));
  holder.ask(kAttach);
  waiter.ask(kAttach);
  ASSERT_NE(holder.ask(acquire("a", kMine)).find("held "), std::string::npos);
  const std::string second =
      request({"HF1", "acquire", "1", "hf1:{a}", "client", kOther, "0000000000000002", "30000000",
               "{}", "Pe 1 1 1 30000000 0 -"});
  ASSERT_NE(waiter.ask(second).find("waiting "), std::string::npos);
  ASSERT_NE(holder
                .ask(request(
                    {"HF1", "end", "1", "hf1:{a}", "client", kMine, "0000000000000001", "release"}))
                .find("released"),
            std::string::npos);
  const std::string push = ears.receive();
  EXPECT_NE(push.find("granted " + kOther), std::string::npos) << push;
  EXPECT_TRUE(other.silent());
}

TEST(FrontTest, OnlyChannelsOfHoldfastAreJoined) {
  FrontLimits limits;
  limits.channels = 2;
  const Server server = start(limits);
  const Socket socket(server.address());
  EXPECT_TRUE(socket.ask(request({"SUBSCRIBE", "news"})).starts_with("-ERR no such channel"));
  for (const char* name : {"hf1:@a", "hf1:@b"}) {
    EXPECT_TRUE(socket.ask(request({"SUBSCRIBE", name})).starts_with("*3\r\n"));
  }
  EXPECT_TRUE(socket.ask(request({"SUBSCRIBE", "hf1:@c"})).starts_with("-ERR this connection has"));
  EXPECT_TRUE(socket.ask(kPing).starts_with("*2\r\n$4\r\npong"));
}

TEST(FrontTest, AChannelOfANameThatNoLockHasIsRefusedAsOtherCommandsRefuseIt) {
  const Server server = start();
  const Socket socket(server.address());
  for (const std::string& name :
       {std::string(), std::string("a/../b"), std::string("a\x01"), std::string(257, 'a')}) {
    const std::string got = socket.ask(request({"GET", name}));
    std::string refused =
        socket.ask(request({"SUBSCRIBE", "redisson_lock__channel:{" + name + "}"}));
    EXPECT_TRUE(refused.starts_with("-ERR lock name '")) << refused;
    EXPECT_TRUE(got.starts_with(refused.substr(0, refused.find("\r\n")))) << got << refused;
  }
  const std::string listed = socket.ask(request({"HF1", "list", "0", "\x01", "10", ""}));
  const std::string watched = socket.ask(request({"SUBSCRIBE", "hf1:w:\x01"}));
  EXPECT_TRUE(watched.starts_with("-ERR lock name '")) << watched;
  EXPECT_NE(listed.find(watched.substr(5)), std::string::npos) << listed;
  EXPECT_TRUE(socket.ask(request({"SUBSCRIBE", "hf1:{}:v"})).starts_with("-ERR lock name ''"));
  // Nothing would ever be told there.
  EXPECT_TRUE(socket.ask(request({"SUBSCRIBE", "redisson_lock__channel:a"}))
                  .starts_with("-ERR no such channel"));
}

TEST(FrontTest, TooManyConnectionsAreTurnedAway) {
  FrontLimits limits;
  limits.connections = 3;
  const Server server = start(limits);
  std::vector<std::unique_ptr<Socket>> crowd;
  for (int i = 0; i < 3; ++i) {
    crowd.push_back(std::make_unique<Socket>(server.address()));
    ASSERT_EQ(crowd.back()->ask(kPing), "+PONG\r\n");
  }
  EXPECT_EQ(Socket(server.address()).receive(), "-ERR max number of clients reached\r\n");
  crowd.pop_back();
  for (const auto until = std::chrono::steady_clock::now() + kPatience;;) {
    const Socket next(server.address());
    if (next.ask(kPing) == "+PONG\r\n") break;
    ASSERT_LT(std::chrono::steady_clock::now(), until);
  }
}

TEST(FrontTest, PushesThatNobodyReadsEndTheConnection) {
  FrontLimits limits;
  limits.unread_pushes = 256 * 1'024;
  const Server server = start(limits);
  const Socket deaf(server.address());
  const std::string name(200, 'v');
  ASSERT_TRUE(deaf.ask(request({"SUBSCRIBE", "hf1:{" + name + "}:v"})).starts_with("*3\r\n"));
  const Socket writer(server.address());
  writer.ask(kAttach);
  ASSERT_NE(writer.ask(acquire(name, kMine)).find("held "), std::string::npos);
  // Each change is a push of half a kilobyte; the kernel keeps some ten thousand of them at most.
  bool closed = false;
  constexpr int kAtOnce = 200;
  for (int i = 0; i < 100'000 && !closed; i += kAtOnce) {
    std::string many;
    for (int j = 0; j < kAtOnce; ++j) {
      many += request({"HF1", "set_value", "1", "hf1:{" + name + "}", kMine, std::to_string(i + j),
                       "v", "0", "0"});
    }
    ASSERT_TRUE(writer.send(many));
    for (std::size_t answered = 0; answered < kAtOnce * std::string("$4\r\ndone\r\n").size();) {
      const std::string more = writer.receive();
      ASSERT_FALSE(more.empty());
      answered += more.size();
    }
    closed = writer.ask(request({"INFO"})).find("connected_clients:1\r") != std::string::npos;
  }
  EXPECT_TRUE(closed);
}

// It is closed while it is told of a change.
TEST(FrontTest, AWatcherThatDoesNotReadIsClosedAndOthersAreServed) {
  FrontLimits limits;
  limits.unread_pushes = 64 * 1'024;
  const Server server = start(limits);
  const Socket deaf(server.address());
  ASSERT_EQ(deaf.ask(kAttach).substr(0, 1), "+");
  ASSERT_TRUE(deaf.ask(request({"SUBSCRIBE", "hf1:w:"})).starts_with("*3\r\n"));
  const std::string name(200, 'n');
  const Socket writer(server.address());
  bool closed = false;
  for (int i = 0; i < 20'000 && !closed; ++i) {
    ASSERT_EQ(writer.ask(request({"SET", name + std::to_string(i), "v", "NX", "PX", "20000"})),
              "+OK\r\n");
    if (i % 100 != 0) continue;
    closed = writer.ask(request({"INFO"})).find("connected_clients:1\r") != std::string::npos;
  }
  EXPECT_TRUE(closed);
}

// One that is idle keeps what it needs next, whatever it has sent before.
TEST(FrontTest, ALongRequestLeavesNoMemory) {
  if (!testing::counts_memory()) GTEST_SKIP() << "a sanitizer's allocator tells nothing";
  const Server server = start();
  const Socket socket(server.address());
  ASSERT_EQ(socket.ask(kPing), "+PONG\r\n");
  std::vector<std::string> words(17, std::string(60'000, 'x'));
  words.front() = "ECHO";
  const std::string longest = request(words);
  const std::size_t before = testing::allocated();
  ASSERT_TRUE(socket.send(longest));
  std::size_t echoed = 0;
  while (echoed < words.back().size()) {
    const std::string more = socket.receive();
    ASSERT_FALSE(more.empty());
    echoed += more.size();
  }
  EXPECT_LT(testing::allocated(), before + longest.size() / 2);
}

// Each look at a long queue costs time and memory, so a connection gets one after the other.
TEST(FrontTest, LooksAtALongQueueWaitUntilTheirRepliesAreRead) {
  constexpr int kWaiters = 4'000;
  constexpr int kLooks = 40;
  const Server server = start();
  const Socket queue(server.address());
  queue.ask(request({"HF1", "attach", "0"}));
  for (int i = 0; i <= kWaiters; ++i) {
    const std::string id = std::to_string(1'000'000 + i);
    const std::string got =
        queue.ask(request({"HF1", "acquire", "1", "hf1:{long}", "client", std::string(25, '0') + id,
                           "0", "60000000", "{}", "Te 1 1 1 60000000 0 -"}));
    ASSERT_NE(got.find(i == 0 ? "held" : "waiting"), std::string::npos) << got;
  }
  const Socket greedy(server.address());
  greedy.ask(request({"HF1", "attach", "0"}));
  std::string looks;
  for (int i = 0; i < kLooks; ++i) looks += request({"HF1", "inspect", "1", "hf1:{long}"});
  looks += request({"GET", "long"}) + request({"SET", "behind", "v", "NX", "PX", "60000"});
  ASSERT_TRUE(greedy.send(looks + request({"ECHO", "last"})));
  const Socket other(server.address());
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(other.ask(request({"EXISTS", "behind"})), ":0\r\n") << "nobody reads the replies";
  }
  std::string end;
  while (!end.ends_with("+OK\r\n$4\r\nlast\r\n")) {
    const std::string more = greedy.receive();
    ASSERT_FALSE(more.empty() || more == "nothing came");
    end += more;
    if (end.size() > 64) end.erase(0, end.size() - 64);
  }
  EXPECT_EQ(other.ask(request({"EXISTS", "behind"})), ":1\r\n");
}

int commits_of(const Server& server) {
  const Socket metrics(server.http_address());
  EXPECT_TRUE(metrics.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  const std::string text = testing::receive(metrics).body;
  const std::string name = "holdfast_server_commit_seconds_count ";
  return std::stoi(text.substr(text.find(name) + name.size()));
}

// Else each request of the others would wait for a commit of all that the flood has sent.
TEST(FrontTest, AFloodHasFewRequestsInEachCommitWhereOthersAskToo) {
  constexpr int kFlood = 200;
  ServerOptions options;
  options.listen = options.http = "127.0.0.1:0";
  options.journal = "memory:";
  ServerTuning tuning;
  tuning.front.unanswered_beside_others = 1;
  const Server server = *ServerAccess::start(options, tuning);
  const Socket flood(server.address());
  const Socket other(server.address());
  int names = 0;
  const auto few_in_each = [&] {
    std::string sets;
    for (int i = 0; i < kFlood; ++i) {
      sets += request({"SET", std::to_string(++names), "me", "NX", "PX", "60000"});
    }
    const int before = commits_of(server);
    EXPECT_EQ(flood.ask(kPing) + other.ask(kPing), "+PONG\r\n+PONG\r\n");
    EXPECT_TRUE(flood.send(sets));
    // A busy machine may need several tries: the server forgets in a moment that others ask.
    for (std::size_t got = 0; got < std::size_t{kFlood} * 5; got += flood.receive().size()) {
      EXPECT_EQ(other.ask(kPing), "+PONG\r\n");
    }
    return commits_of(server) - before >= kFlood / 2;
  };
  EXPECT_TRUE(support::eventually(few_in_each));
}

// Else each of them would wait for all that a flood has sent, though no commit is needed for that.
TEST(FrontTest, AFloodThatIsAnsweredAtOnceLetsOthersAskInBetween) {
  constexpr int kFlood = 4'000;
  FrontLimits limits;
  limits.unanswered_beside_others = 1;
  const Server server = start(limits);
  const Socket flood(server.address());
  const Socket other(server.address());
  std::string pings;
  for (int i = 0; i < kFlood; ++i) pings += kPing;
  const auto in_between = [&] {
    EXPECT_EQ(flood.ask(kPing) + other.ask(kPing), "+PONG\r\n+PONG\r\n");
    EXPECT_TRUE(flood.send(pings));
    std::size_t got = flood.receive().size();
    EXPECT_EQ(other.ask(kPing), "+PONG\r\n");
    int there = 0;
    ::ioctl(flood.fd(), FIONREAD, &there);
    const std::size_t all = std::size_t{kFlood} * 7;
    const bool part = got + static_cast<std::size_t>(there) < all;
    while (got < all) got += flood.receive().size();
    return part;
  };
  EXPECT_TRUE(support::eventually(in_between));
}

TEST(FrontTest, AServerThatHasNoDescriptorForAClientSaysSoAndServesItLater) {
  std::promise<std::string> told;
  std::promise<void> told_again;
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.journal = "memory:";
  options.on_warning = [&, count = 0](const std::string& what) mutable {
    ++count;
    if (count == 1) told.set_value(what);
    if (count == 2) told_again.set_value();
  };
  const Server server = *ServerAccess::start(options, {});
  std::optional<support::NoDescriptors> limit;
  limit.emplace(1);
  const Socket client(server.address());  // It takes that one.
  ASSERT_TRUE(client.connected());
  auto warning = told.get_future();
  ASSERT_EQ(warning.wait_for(kPatience), std::future_status::ready);
  const std::string text = warning.get();
  EXPECT_TRUE(text.starts_with("cannot accept a connection: ")) << text;
  EXPECT_NE(text.find("LimitNOFILE="), std::string::npos) << text;
  EXPECT_EQ(told_again.get_future().wait_for(350ms), std::future_status::timeout)
      << "it tries ten times a second, and says so once";
  limit.reset();
  EXPECT_EQ(client.ask(kPing), "+PONG\r\n");
}

// The locks of another journal are not the client's, and a next address would only hide that.
TEST(FrontTest, AClientThatMeetsAnotherJournalTriesNoFurtherAddress) {
  const auto way_to = [](const Server& server) {
    const std::string address = server.address();
    const int port = std::stoi(address.substr(address.rfind(':') + 1));
    return support::ProxyOptions{.server_port = static_cast<std::uint16_t>(port)};
  };
  const Server own = start();
  const Server stranger = start();
  support::FaultProxy first(way_to(own));
  support::FaultProxy second(way_to(own));
  std::promise<Errc> blind;
  ClientOptions options;
  options.log_event = [&, told = false](const LogEvent& event) mutable {
    if (event.event == "watch_blind" && !std::exchange(told, true)) blind.set_value(*event.error);
  };
  auto client = Client::connect("holdfast://127.0.0.1:" + std::to_string(first.port()) +
                                    ",127.0.0.1:" + std::to_string(second.port()),
                                options);
  ASSERT_TRUE(client) << client.error().message();
  const auto watch = client->watch("", [](const LockEvent&) {});
  ASSERT_TRUE(watch) << watch.error().message();
  first.retarget(way_to(stranger).server_port);
  first.close_all();
  // The loop's connections meet it, and so does a caller's own.
  auto met = blind.get_future();
  ASSERT_EQ(met.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(met.get(), Errc::kCorruptState);
  Errc said{};
  EXPECT_TRUE(support::eventually([&] {
    const auto tried = client->mutex("a").try_acquire();
    said = tried ? Errc{} : tried.error().code();
    return said == Errc::kCorruptState;
  })) << static_cast<int>(said);
  EXPECT_EQ(second.stats().accepted, 0U);
}

TEST(FrontTest, HundredsOfConnectionsAreServed) {
  const Server server = start();
  std::vector<std::unique_ptr<Socket>> crowd;
  for (int i = 0; i < 400; ++i) {
    crowd.push_back(std::make_unique<Socket>(server.address()));
    ASSERT_TRUE(crowd.back()->connected());
  }
  for (const auto& each : crowd) ASSERT_TRUE(each->send(kPing));
  for (const auto& each : crowd) ASSERT_EQ(each->receive(), "+PONG\r\n");
}

TEST(FrontTest, AHostHasOnePlaceHoweverManyAddressesOfIpv6ItHas) {
  const auto place = [](const char* address) { return place_of(asio::ip::make_address(address)); };
  EXPECT_EQ(place("2001:db8:1:2:aaaa::1"), place("2001:db8:1:2:bbbb::2"));
  EXPECT_NE(place("2001:db8:1:2::1"), place("2001:db8:1:3::1"));
  EXPECT_EQ(place("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(place("::ffff:192.0.2.1"), "192.0.2.1") << "as on a port of IPv4 alone";
  EXPECT_EQ(place("::1"), "::1");
}

TEST(FrontTest, WhatAllConnectionsLeaveUnfinishedIsBounded) {
  FrontLimits limits;
  limits.buffered = 64 * 1'024;
  const Server server = start(limits);
  const auto known = [&] {
    auto socket = std::make_unique<Socket>(server.address());
    EXPECT_EQ(socket->ask(kPing), "+PONG\r\n");
    return socket;
  };
  const std::string text(30'000, 'x');
  const std::string unfinished = "*2\r\n$4\r\nECHO\r\n$30000\r\n" + text;
  const auto first = known();
  auto second = known();
  ASSERT_TRUE(first->send(unfinished));
  ASSERT_TRUE(second->send(unfinished));
  const auto third = known();
  static_cast<void>(third->send(unfinished));
  EXPECT_EQ(third->receive(), "") << "it would go beyond the bound";
  second.reset();
  known();
  ASSERT_TRUE(first->send("\r\n"));
  EXPECT_TRUE(first->receive().starts_with("$30000\r\n")) << "the others are served";
}

TEST(FrontTest, AddressesThatAreNotOfLoopbackAreRefused) {
  for (const char* address : {"0.0.0.0:0", "[::]:0", "8.8.8.8:0", "x:0", "127.0.0.1", "127.0.0.1:x",
                              "127.0.0.1:70000", ":0", ""}) {
    ServerOptions options;
    options.listen = address;
    options.journal = "memory:";
    const auto server = Server::start(options);
    ASSERT_FALSE(server) << address;
    EXPECT_EQ(server.error().code(), Errc::kInvalidArgument) << address;
  }
}

}  // namespace
}  // namespace holdfast::server
