// A front that does not lead, with a leader in this process, or one that the test plays.
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <gtest/gtest.h>

#include "src/base/clock.h"
#include "src/server/front/front.h"
#include "src/server/testing/access_rig.h"
#include "src/server/testing/allocated.h"
#include "src/server/testing/plain_client.h"
#include "src/server/testing/played_server.h"
#include "src/server/testing/stand_in.h"
#include "tests/support/eventually.h"
#include "tests/support/loopback.h"

namespace holdfast::server {
namespace {

using namespace std::chrono_literals;
using testing::allocated;
using testing::request;
using testing::Socket;
using testing::StandIn;

// A leader that does as the test says.
class PlayedLeader : public testing::PlayedServer {
 public:
  // Greets the next connection of the front.
  void greet() {
    hear_greeting();
    answer_greeting();
  }
  void hear_greeting() {
    accept();
    receive_until("forwarded");
  }
  void answer_greeting() const { say("*0\r\n+OK\r\n"); }
};

// Nothing ends by the time that it takes.
FrontLimits patient() {
  FrontLimits limits;
  limits.forwarded = 10min;
  return limits;
}

std::string set(const std::string& name, const std::string& value, const std::string& ms) {
  return request({"SET", name, value, "NX", "PX", ms});
}

std::string receive_all(const Socket& socket, const std::string& last) {
  std::string all;
  while (all.find(last) == std::string::npos) {
    const std::string more = socket.receive();
    EXPECT_FALSE(more.empty()) << all;
    if (more.empty()) break;
    all += more;
  }
  return all;
}

// Until the connection has ended.
std::string receive_to_the_end(const Socket& socket) {
  std::string all;
  for (std::string more = socket.receive(); !more.empty(); more = socket.receive()) {
    all += more;
    if (more == "nothing came") break;
  }
  return all;
}

// Sends the same again and again, until nothing is read any more. Returns how many bytes it sent.
std::size_t send_until_full(const Socket& socket, const std::string& bytes, std::size_t most) {
  std::size_t sent = 0;
  for (bool writable = true; writable && sent < most;) {
    const ssize_t went =
        ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (went > 0) sent += static_cast<std::size_t>(went);
    pollfd entry{socket.fd(), POLLOUT, 0};
    writable = ::poll(&entry, 1, 500) == 1;
  }
  return sent;
}

TEST(ForwardingTest, TheLeaderDoesItAndAnswersKeepTheirOrder) {
  const Server leader = testing::start();
  const StandIn stand_in(leader.address());
  const Socket there(stand_in.address());
  ASSERT_TRUE(there.send(set("a", "me", "60000") + request({"PING"}) + request({"GET", "a"}) +
                         request({"ECHO", "x"}) + request({"PTTL", "none"}) +
                         request({"WAIT", "1", "0"}) + request({"ECHO", "last"})));
  EXPECT_EQ(receive_all(there, "last\r\n"),
            "+OK\r\n+PONG\r\n$2\r\nme\r\n$1\r\nx\r\n:-2\r\n:0\r\n$4\r\nlast\r\n");
  const Socket here(leader.address());
  EXPECT_EQ(here.ask(set("a", "other", "60000")), "$-1\r\n") << "it excludes clients of the leader";
  EXPECT_EQ(there.ask(request({"HELLO", "3"})).substr(0, 2), "%7");
  EXPECT_EQ(there.ask(set("a", "other", "60000")), "_\r\n") << "in the version that it asked for";
  EXPECT_TRUE(there.ask(request({"SET", "b", "me"})).starts_with("-ERR SET without NX"));
  EXPECT_TRUE(there.ask(request({"EVAL", "return 1", "0"})).starts_with("-ERR the script "));
  EXPECT_TRUE(there.ask(request({"HF1", "attach", "0"})).starts_with("-STANDBY "))
      << "a native client asks the leader itself";
  EXPECT_TRUE(there.ask(request({"MULTI"})).starts_with("-ERR unknown command 'MULTI'"))
      << "as the leader answers";
}

TEST(ForwardingTest, ALibrarysWaiterHearsOfTheEndOfTheLock) {
  const Server leader = testing::start();
  const StandIn stand_in(leader.address());
  const std::string channel = "redisson_lock__channel:{a}";
  for (const char* version : {"2", "3"}) {
    const Socket there(stand_in.address());
    there.ask(request({"HELLO", version}));
    const std::string sign = version == std::string("2") ? "*" : ">";
    EXPECT_EQ(there.ask(request({"SUBSCRIBE", channel})),
              sign + "3\r\n$9\r\nsubscribe\r\n$26\r\n" + channel + "\r\n:1\r\n");
    const Socket holder(stand_in.address());
    ASSERT_EQ(holder.ask(set("a", "me", "60000")), "+OK\r\n");
    ASSERT_EQ(holder.ask(request({"DEL", "a"})), ":1\r\n");
    EXPECT_EQ(there.receive(),
              sign + "3\r\n$7\r\nmessage\r\n$26\r\n" + channel + "\r\n$1\r\n0\r\n");
    EXPECT_EQ(there.ask(request({"UNSUBSCRIBE"})),
              sign + "3\r\n$11\r\nunsubscribe\r\n$26\r\n" + channel + "\r\n:0\r\n");
  }
}

// Answers wait for earlier ones, so one of a leader that is fast may wait for one that is slow. The
// client would count a lease from it that has ended meanwhile.
TEST(ForwardingTest, AnAnswerThatWaitedLongerThanItsLeaseIsNotPassedOn) {
  PlayedLeader slow;
  PlayedLeader fast;
  const StandIn stand_in({slow.address(), fast.address()}, {}, patient());
  const Socket there(stand_in.address());
  ASSERT_TRUE(there.send(request({"GET", testing::name_in(0, 2)}) +
                         set(testing::name_in(1, 2), "me", "2000")));
  slow.greet();
  fast.greet();
  slow.receive_until("GET");
  fast.receive_until("2000");
  fast.say("+OK\r\n");
  // The front has read the request before this.
  const auto asked = base::BootClock::now();
  EXPECT_TRUE(support::eventually([&] { return base::BootClock::now() > asked + 2s; }));
  slow.say("$-1\r\n");
  EXPECT_EQ(receive_to_the_end(there), "$-1\r\n");
}

// The same with a grant of this server's own.
TEST(ForwardingTest, AGrantOfThisServerThatWaitedLongerThanItsLeaseIsNotTold) {
  PlayedLeader slow;
  StandIn stand_in({slow.address(), ""}, {}, patient());
  stand_in.lead(1);
  const Socket there(stand_in.address());
  const Socket other(stand_in.address());
  const std::string own = testing::name_in(1, 2);
  ASSERT_TRUE(there.send(request({"GET", testing::name_in(0, 2)}) + set(own, "me", "2000")));
  slow.greet();
  slow.receive_until("GET");
  EXPECT_TRUE(support::eventually([&] {
    return other.ask(request({"GET", own})) == "$2\r\nme\r\n";
  }));
  EXPECT_TRUE(support::eventually([&] {
    return other.ask(request({"GET", own})) == "$-1\r\n";
  })) << "the lease has ended";
  slow.say("$-1\r\n");
  EXPECT_EQ(receive_to_the_end(there), "$-1\r\n");
}

TEST(ForwardingTest, AChannelThatIsLeftAtOnceIsSilent) {
  const Server leader = testing::start();
  const StandIn stand_in(leader.address());
  const std::string channel = "redisson_lock__channel:{a}";
  const Socket there(stand_in.address());
  ASSERT_TRUE(there.send(request({"SUBSCRIBE", channel}) + request({"UNSUBSCRIBE", channel}) +
                         request({"ECHO", "last"})));
  EXPECT_EQ(receive_all(there, "last\r\n"), "*3\r\n$9\r\nsubscribe\r\n$26\r\n" + channel +
                                                "\r\n:1\r\n*3\r\n$11\r\nunsubscribe\r\n$26\r\n" +
                                                channel + "\r\n:0\r\n$4\r\nlast\r\n");
  const Socket holder(stand_in.address());
  ASSERT_EQ(holder.ask(set("a", "me", "60000")), "+OK\r\n");
  ASSERT_EQ(holder.ask(request({"DEL", "a"})), ":1\r\n");
  EXPECT_EQ(there.ask(request({"GET", "a"})), "$-1\r\n") << "it comes by the same way";
}

TEST(ForwardingTest, AMessageComesInTheVersionOfTheProtocolThatTheClientHasByThen) {
  const Server leader = testing::start();
  const StandIn stand_in(leader.address());
  const std::string channel = "redisson_lock__channel:{a}";
  const Socket there(stand_in.address());
  there.ask(request({"SUBSCRIBE", channel}));
  there.ask(request({"HELLO", "3"}));
  const Socket holder(stand_in.address());
  ASSERT_EQ(holder.ask(set("a", "me", "60000")), "+OK\r\n");
  ASSERT_EQ(holder.ask(request({"DEL", "a"})), ":1\r\n");
  EXPECT_EQ(there.receive(), ">3\r\n$7\r\nmessage\r\n$26\r\n" + channel + "\r\n$1\r\n0\r\n");
}

// The client would not know what the message is about.
TEST(ForwardingTest, AMessageDoesNotOvertakeTheAnswerToItsSubscription) {
  PlayedLeader slow;
  PlayedLeader fast;
  const StandIn stand_in({slow.address(), fast.address()}, {}, patient());
  const std::string channel = "redisson_lock__channel:{" + testing::name_in(1, 2) + "}";
  const std::string name = "$" + std::to_string(channel.size()) + "\r\n" + channel + "\r\n";
  const Socket there(stand_in.address());
  ASSERT_TRUE(
      there.send(request({"GET", testing::name_in(0, 2)}) + request({"SUBSCRIBE", channel})));
  slow.greet();
  fast.greet();
  slow.receive_until("GET");
  fast.receive_until("SUBSCRIBE");
  const std::string message = "*3\r\n$7\r\nmessage\r\n" + name + "$1\r\n0\r\n";
  fast.say("*3\r\n$9\r\nsubscribe\r\n" + name + ":1\r\n" + message);
  // The loop has read it before this.
  ASSERT_EQ(Socket(stand_in.address()).ask(request({"PING"})), "+PONG\r\n");
  slow.say("$-1\r\n");
  EXPECT_EQ(receive_all(there, "$1\r\n0\r\n"),
            "$-1\r\n*3\r\n$9\r\nsubscribe\r\n" + name + ":1\r\n" + message);
}

// Two servers that take each other for the leader.
TEST(ForwardingTest, AForwardedRequestIsNotForwardedAgain) {
  StandIn one("127.0.0.1:1");
  const StandIn other(one.address());
  one.change_leader(other.address());
  const Socket there(one.address());
  EXPECT_TRUE(there.ask(request({"GET", "a"})).starts_with("-STANDBY "));
  EXPECT_EQ(there.ask(request({"PING"})), "+PONG\r\n") << "it was surely not applied";
}

TEST(ForwardingTest, ALeaderThatCannotBeReachedIsAnErrorBecauseNothingWasSent) {
  const support::ReservedPort nobody;
  const StandIn stand_in("127.0.0.1:" + std::to_string(nobody.number()));
  const Socket there(stand_in.address());
  EXPECT_TRUE(there.ask(set("a", "me", "60000")).starts_with("-STANDBY this server does not lead"));
  EXPECT_EQ(there.ask(request({"PING"})), "+PONG\r\n");
  const StandIn nonsense("no address at all:x");
  const Socket too(nonsense.address());
  EXPECT_TRUE(too.ask(set("a", "me", "60000")).starts_with("-STANDBY this server does not lead"));
  const StandIn unknown("");
  const Socket third(unknown.address());
  EXPECT_EQ(third.ask(set("a", "me", "60000")),
            "-STANDBY this server stands by: no server leads yet; retry\r\n");
}

TEST(ForwardingTest, AnUnknownOutcomeClosesTheConnectionWithoutAnAnswer) {
  PlayedLeader leader;
  const StandIn stand_in(leader.address(), {}, patient());
  const Socket there(stand_in.address());
  ASSERT_TRUE(there.send(set("a", "me", "600000") + request({"ECHO", "after it"})));
  leader.greet();
  leader.receive_until("600000");
  leader.hang_up();
  EXPECT_EQ(there.receive(), "");
}

TEST(ForwardingTest, AnAnswerThatHasComeIsPassedOnBeforeAnotherLeadersEnd) {
  PlayedLeader good;
  PlayedLeader ends;
  StandIn stand_in({good.address(), ends.address()}, {}, patient());
  const Socket there(stand_in.address());
  ASSERT_TRUE(there.send(request({"GET", testing::name_in(0, 2)}) +
                         set(testing::name_in(1, 2), "me", "600000")));
  good.greet();
  ends.greet();
  good.receive_until("GET");
  ends.receive_until("600000");
  // Both are found in one turn of the loop.
  stand_in.hold_up([&] {
    good.say("$-1\r\n");
    ends.hang_up();
  });
  EXPECT_EQ(receive_to_the_end(there), "$-1\r\n");
}

// One request waits for the leader's answer, and another connection has asked that leader nothing.
struct OneUnderWay {
  OneUnderWay() {
    EXPECT_EQ(idle.ask(request({"PING"})), "+PONG\r\n");
    EXPECT_TRUE(there.send(set("a", "me", "600000")));
    leader.greet();
    leader.receive_until("600000");
  }

  PlayedLeader leader;
  StandIn stand_in{leader.address(), {}, patient()};
  const Socket there{stand_in.address()};
  const Socket idle{stand_in.address()};
};

TEST(ForwardingTest, AChangeOfTheLeaderClosesTheConnectionWithoutAnAnswer) {
  OneUnderWay scene;
  scene.stand_in.change_leader("127.0.0.1:1");
  EXPECT_EQ(scene.there.receive(), "");
  EXPECT_EQ(scene.idle.ask(request({"PING"})), "+PONG\r\n") << "it has asked that leader nothing";
}

TEST(ForwardingTest, AServerThatStopsWaitsForTheLeadersAnswers) {
  OneUnderWay scene;
  const std::future<void> settled = scene.stand_in.settle();
  EXPECT_EQ(settled.wait_for(0s), std::future_status::timeout);
  EXPECT_TRUE(scene.there.silent()) << "it is not closed either";
  scene.leader.say("+OK\r\n");
  EXPECT_EQ(scene.there.receive(), "+OK\r\n");
  EXPECT_EQ(settled.wait_for(60s), std::future_status::ready);
}

// The client would count a lease from the answer that has ended.
TEST(ForwardingTest, AnAnswerThatIsOlderThanItsLeaseIsNotPassedOn) {
  PlayedLeader leader;
  const StandIn stand_in(leader.address());
  const Socket there(stand_in.address());
  ASSERT_TRUE(there.send(set("a", "me", "300")));
  leader.greet();
  leader.receive_until("300");
  EXPECT_EQ(there.receive(), "") << "nobody answers, and it does not wait for long";
}

TEST(ForwardingTest, ALeaderThatHangsClosesTheConnectionInTime) {
  PlayedLeader leader;
  FrontLimits limits;
  limits.forwarded = 1s;
  const StandIn stand_in(leader.address(), {}, limits);
  const Socket there(stand_in.address());
  const auto began = base::BootClock::now();
  ASSERT_TRUE(there.send(request({"GET", "a"})));
  leader.greet();
  EXPECT_EQ(there.receive(), "");
  EXPECT_GE(base::BootClock::now() - began, 900ms);
}

TEST(ForwardingTest, ALeaderThatNeverGreetsIsAnErrorBecauseNothingWasSent) {
  PlayedLeader leader;
  const StandIn stand_in(leader.address());
  const Socket there(stand_in.address());
  EXPECT_NE(there.ask(set("a", "me", "200")).find("does not answer"), std::string::npos);
  EXPECT_EQ(there.ask(request({"PING"})), "+PONG\r\n");
}

// This server stood still while it connected. The client may have given up, so nothing is begun.
TEST(ForwardingTest, ARequestThatIsTooOldIsNotSent) {
  PlayedLeader leader;
  StandIn stand_in(leader.address());
  const Socket there(stand_in.address());
  ASSERT_TRUE(there.send(set("a", "me", "300")));
  leader.hear_greeting();
  const auto heard = base::BootClock::now();
  stand_in.hold_up([&] {
    leader.answer_greeting();
    EXPECT_TRUE(support::eventually([&] { return base::BootClock::now() > heard + 300ms; }));
  });
  EXPECT_TRUE(there.receive().starts_with("-STANDBY "));
}

TEST(ForwardingTest, GarbageOfTheLeaderClosesTheConnection) {
  PlayedLeader leader;
  const StandIn stand_in(leader.address(), {}, patient());
  const Socket there(stand_in.address());
  ASSERT_TRUE(there.send(request({"GET", "a"})));
  leader.greet();
  leader.receive_until("GET");
  leader.say("HTTP/1.1 200 OK\r\n");
  EXPECT_EQ(there.receive(), "");
}

// The leader reads nothing: what it is to be sent is bounded, and other clients are served.
TEST(ForwardingTest, ALeaderThatDoesNotReadFillsNoMemory) {
  PlayedLeader leader;
  FrontLimits limits;
  limits.unread = 64 * 1'024;
  constexpr std::size_t kMuch = std::size_t{64} << 20U;
  const StandIn stand_in(leader.address(), {}, limits);
  const Socket there(stand_in.address());
  ASSERT_EQ(there.ask(request({"PING"})), "+PONG\r\n");
  const std::size_t sent =
      send_until_full(there, request({"GET", std::string(60'000, 'x')}), kMuch);
  const Socket other(stand_in.address());
  EXPECT_EQ(other.ask(request({"PING"})), "+PONG\r\n");
  EXPECT_GT(sent, limits.unread);
  EXPECT_LT(sent, kMuch);
}

// This server's own answers wait for the leader's.
TEST(ForwardingTest, AnswersThatWaitForALeaderFillNoMemory) {
  PlayedLeader leader;
  FrontLimits limits = patient();
  limits.unread = 64 * 1'024;
  constexpr std::size_t kMuch = std::size_t{32} << 20U;
  const StandIn stand_in(leader.address(), {}, limits);
  const Socket there(stand_in.address());
  ASSERT_EQ(there.ask(request({"PING"})), "+PONG\r\n");
  ASSERT_TRUE(there.send(request({"GET", "a"})));
  const std::size_t sent =
      send_until_full(there, request({"ECHO", std::string(60'000, 'x')}), kMuch);
  EXPECT_GT(sent, limits.unread);
  EXPECT_LT(sent, kMuch);
}

// A client may send much before the leader is connected.
TEST(ForwardingTest, RequestsThatWereSentLeaveNoMemory) {
  if (!testing::counts_memory())
    GTEST_SKIP() << "a sanitizer's allocator does not tell what it has given";
  PlayedLeader leader;
  const StandIn stand_in(leader.address(), {}, patient());
  const Socket there(stand_in.address());
  ASSERT_EQ(there.ask(request({"PING"})), "+PONG\r\n");
  constexpr int kRequests = 16;
  std::string all;
  std::string answers;
  for (int i = 0; i < kRequests; ++i) {
    all += request({"GET", std::string(60'000, 'x')});
    answers += "$-1\r\n";
  }
  all += request({"GET", "last"});
  const std::size_t before = allocated();
  std::thread sending([&] { EXPECT_TRUE(there.send(all)); });
  leader.hear_greeting();
  sending.join();
  // The loop has read all that it was sent.
  EXPECT_TRUE(support::eventually([&] { return allocated() > before + all.size() / 2; }));
  leader.answer_greeting();
  leader.receive_until("last");
  leader.say(answers + "$-1\r\n");
  EXPECT_EQ(receive_all(there, answers + "$-1\r\n"), answers + "$-1\r\n");
  EXPECT_LT(allocated(), before + all.size() / 2);
}

class ForwardingAccessTest : public testing::AccessTest {
 protected:
  FrontDoor door() const {
    FrontDoor made;
    made.users = *Users::read(users_);
    return made;
  }
};

TEST_F(ForwardingAccessTest, TheLeaderJudgesTheClientsOwnUser) {
  start("app @ acquire:orders/* connections:2\nlooker @ observe:*\n");
  FrontDoor same = door();
  const StandIn stand_in(server_->address(), same);
  const Socket app(stand_in.address());
  ASSERT_EQ(app.ask(request({"AUTH", "app", "secret"})), "+OK\r\n");
  EXPECT_EQ(app.ask(set("orders/1", "me", "60000")), "+OK\r\n");
  EXPECT_TRUE(app.ask(set("other", "me", "60000")).starts_with("-NOPERM"));
  const Socket looker(stand_in.address());
  ASSERT_EQ(looker.ask(request({"HELLO", "2", "AUTH", "looker", "secret"})).substr(0, 3), "*14");
  EXPECT_EQ(looker.ask(request({"GET", "orders/1"})), "$20\r\nheld by another user\r\n");
  EXPECT_TRUE(looker.ask(set("orders/2", "me", "60000")).starts_with("-NOPERM"));
  const Socket stranger(stand_in.address());
  EXPECT_TRUE(stranger.ask(request({"GET", "orders/1"})).starts_with("-NOAUTH"));
  const Socket wrong(stand_in.address());
  EXPECT_TRUE(wrong.ask(request({"AUTH", "app", "wrong"})).starts_with("-WRONGPASS"));
  // The limit of connections holds at the leader, too.
  const Socket second(server_->address());
  ASSERT_EQ(second.ask(request({"AUTH", "app", "secret"})), "+OK\r\n");
  const Socket third(stand_in.address());
  ASSERT_EQ(third.ask(request({"AUTH", "app", "secret"})), "+OK\r\n");
  EXPECT_NE(third.ask(request({"GET", "orders/1"})).find("connections already"), std::string::npos);
}

// A pool of connections may give one to another user.
TEST_F(ForwardingAccessTest, AConnectionThatLogsInAgainHasTheRightsOfTheNewUser) {
  start("app @ acquire:*\nlooker @ observe:*\n");
  const StandIn stand_in(server_->address(), door());
  const Socket there(stand_in.address());
  const std::string as_app = request({"AUTH", "app", "secret"});
  const std::string as_looker = request({"AUTH", "looker", "secret"});
  ASSERT_EQ(there.ask(as_app), "+OK\r\n");
  ASSERT_EQ(there.ask(set("a", "me", "60000")), "+OK\r\n");
  ASSERT_EQ(there.ask(as_looker), "+OK\r\n");
  EXPECT_TRUE(there.ask(set("b", "me", "60000")).starts_with("-NOPERM"));
  EXPECT_EQ(there.ask(request({"GET", "a"})), "$20\r\nheld by another user\r\n");
  ASSERT_EQ(there.ask(as_app), "+OK\r\n");
  EXPECT_EQ(there.ask(set("b", "me", "60000")), "+OK\r\n");
  // Before the leader is connected.
  const Socket fresh(stand_in.address());
  ASSERT_TRUE(fresh.send(as_looker + set("c", "me", "60000") + as_app + set("d", "me", "60000") +
                         request({"ECHO", "last"})));
  const std::string told = receive_all(fresh, "last\r\n");
  EXPECT_TRUE(told.starts_with("+OK\r\n-NOPERM")) << told;
  EXPECT_TRUE(told.ends_with("\r\n+OK\r\n+OK\r\n$4\r\nlast\r\n")) << told;
}

// A user whom only the server that stands by knows gets nothing from the leader.
TEST_F(ForwardingAccessTest, AUserWhomTheLeaderDoesNotKnowIsRefusedByIt) {
  start("app @ acquire:*\n");
  write_users("app @ acquire:*\nmore @ acquire:*\n");
  const StandIn stand_in(server_->address(), door());
  const Socket more(stand_in.address());
  ASSERT_EQ(more.ask(request({"AUTH", "more", "secret"})), "+OK\r\n");
  EXPECT_TRUE(more.ask(set("a", "me", "60000")).starts_with("-WRONGPASS"));
  EXPECT_EQ(more.ask(request({"PING"})), "+PONG\r\n");
}

}  // namespace
}  // namespace holdfast::server
