#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/stores/redis/transport/subscriber.h"
#include "src/stores/redis/transport/test_wire.h"

namespace holdfast::stores::redis::testing {
namespace {

using support::Fault;
using support::Framing;

class SubscriberLiveTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_REDIS(); }

  Subscriber::Events events() {
    return {[this](std::string_view payload) {
              const std::lock_guard lock(mutex_);
              messages_.emplace_back(payload);
              heard_by_ = std::this_thread::get_id();
            },
            [this](bool again) { ++(again ? resubscribed_ : subscribed_); },
            {}};
  }
  bool heard(const std::string& text) {
    return eventually([&] {
      const std::lock_guard lock(mutex_);
      return !messages_.empty() && messages_.back() == text;
    });
  }
  std::thread::id heard_by() {
    const std::lock_guard lock(mutex_);
    return heard_by_;
  }
  static std::string ensure(Subscriber& subscriber, BootClock::duration time = 10s) {
    Awaited<Result<void>> answer;
    subscriber.ensure(BootClock::now() + time,
                      [answer](const Result<void>& result) mutable { answer.give(result); });
    return code_of(answer.wait());
  }

  TestLoop loop_;
  std::mutex mutex_;
  std::vector<std::string> messages_;
  std::thread::id heard_by_;
  std::atomic<int> subscribed_ = 0;
  std::atomic<int> resubscribed_ = 0;
};

TEST_F(SubscriberLiveTest, WhatIsPublishedAfterTheConfirmationArrives) {
  RedisServer server;
  Subscriber subscriber(loop_.io, remote_of(server.url()), "news", events());
  EXPECT_FALSE(subscriber.confirmed());
  ASSERT_EQ(ensure(subscriber), "a value");
  EXPECT_TRUE(subscriber.confirmed());
  EXPECT_EQ(ensure(subscriber), "a value");
  // The server counts whom it sent it to.
  EXPECT_EQ(server.command({"PUBLISH", "news", "one"}).integer, 1);
  EXPECT_TRUE(heard("one"));
  server.must({"PUBLISH", "other", "not for us"});
  server.must({"PUBLISH", "news", std::string("a\0\r\n", 4)});
  EXPECT_TRUE(heard(std::string("a\0\r\n", 4)));
  EXPECT_EQ(messages_.size(), 2U);
  EXPECT_EQ(subscribed_, 1);
  EXPECT_EQ(resubscribed_, 0);
}

TEST_F(SubscriberLiveTest, ASubscriberThatIsKilledSubscribesAgainAndSaysSo) {
  RedisServer server;
  Subscriber subscriber(loop_.io, remote_of(server.url()), "news", events());
  ASSERT_EQ(ensure(subscriber), "a value");
  for (int round = 1; round <= 3; ++round) {
    ASSERT_EQ(server.client_kill("pubsub"), 1);
    EXPECT_TRUE(eventually([&] { return resubscribed_ == round; }));
    EXPECT_EQ(server.command({"PUBLISH", "news", std::to_string(round)}).integer, 1);
    EXPECT_TRUE(heard(std::to_string(round)));
  }
}

TEST_F(SubscriberLiveTest, AfterARestartItIsBackByItself) {
  RedisServer server;
  Subscriber subscriber(loop_.io, remote_of(server.url()), "news", events());
  ASSERT_EQ(ensure(subscriber), "a value");
  server.kill9();
  EXPECT_TRUE(eventually([&] { return !subscriber.confirmed(); }));
  EXPECT_EQ(ensure(subscriber), "kUnavailable");
  server.start();
  EXPECT_TRUE(eventually([&] { return resubscribed_ == 1; }));
  EXPECT_TRUE(subscriber.confirmed());
}

TEST_F(SubscriberLiveTest, EnsureEndsByItsDeadlineOrWithTheReason) {
  RedisServer server({.users = {"alice on >secret ~* resetchannels &allowed +@all"}});
  Subscriber forbidden(loop_.io, remote_of(server.url({.user = "alice", .password = "secret"})),
                       "news", events());
  EXPECT_EQ(ensure(forbidden), "kPermissionDenied");
  Subscriber allowed(loop_.io, remote_of(server.url({.user = "alice", .password = "secret"})),
                     "allowed", events());
  EXPECT_EQ(ensure(allowed), "a value");
  server.pause();
  Subscriber stuck(loop_.io, remote_of(server.url({.user = "alice", .password = "secret"})),
                   "allowed", events());
  const auto begin = BootClock::now();
  EXPECT_EQ(ensure(stuck, 50ms), "kUnavailable");
  EXPECT_GE(BootClock::now() - begin, 50ms);
  server.resume();
  EXPECT_EQ(ensure(stuck), "a value");
}

TEST_F(SubscriberLiveTest, AReplyThatDoesNotComeIsNoConfirmation) {
  RedisServer server;
  FaultProxy proxy({.server_port = server.port(), .framing = Framing::kResp});
  const int dropped = proxy.add({.kind = Fault::Kind::kDropReplies, .containing = "SUBSCRIBE"});
  Subscriber subscriber(loop_.io, remote_of(server.url({.port = proxy.port()})), "news", events());
  EXPECT_EQ(ensure(subscriber, 100ms), "kUnavailable");
  EXPECT_FALSE(subscriber.confirmed());
  proxy.remove(dropped);
  proxy.close_all();
  EXPECT_EQ(ensure(subscriber), "a value");
}

TEST_F(SubscriberLiveTest, APeerThatFallsSilentIsFoundWithoutAnyMessage) {
  RedisServer server;
  Subscriber subscriber(loop_.io, remote_of(server.url()), "news", events(),
                        {.ping_every = 100ms, .dead_after = 400ms});
  ASSERT_EQ(ensure(subscriber), "a value");
  // One that answers pings is not dead.
  std::this_thread::sleep_for(1s);
  EXPECT_TRUE(subscriber.confirmed());
  EXPECT_EQ(resubscribed_, 0);
  server.pause();
  EXPECT_TRUE(eventually([&] { return !subscriber.confirmed(); }));
  server.resume();
  EXPECT_TRUE(eventually([&] { return resubscribed_ == 1; }));
}

// A thread that listens until it is told to end.
class Listening {
 public:
  explicit Listening(Subscriber& subscriber)
      : ear_(subscriber.push_reader()), thread_([this] {
          while (!over_) ear_.listen();
        }) {}
  ~Listening() { end(); }
  std::thread::id id() const { return id_; }
  void end() {
    if (!thread_.joinable()) return;
    over_ = true;
    ear_.nudge();
    thread_.join();
    ear_.rest();
  }

 private:
  port::PushReader& ear_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
  const std::thread::id id_ = thread_.get_id();
};

TEST_F(SubscriberLiveTest, WhoListensIsToldOnItsOwnThreadAndTheLoopIsAfterwards) {
  RedisServer server;
  Subscriber subscriber(loop_.io, remote_of(server.url()), "news", events());
  int sent = 0;
  // By `thread`, once what came before is settled.
  const auto comes_to_be_heard_by = [&](std::thread::id thread) {
    return eventually([&] {
      const std::string text = std::to_string(++sent);
      server.must({"PUBLISH", "news", text});
      return heard(text) && heard_by() == thread;
    });
  };
  {
    Listening early(subscriber);
    ASSERT_EQ(ensure(subscriber), "a value");
    EXPECT_TRUE(comes_to_be_heard_by(early.id()));
  }
  EXPECT_TRUE(comes_to_be_heard_by(loop_.id()));
  for (int round = 0; round < 3; ++round) {
    Listening listening(subscriber);
    EXPECT_TRUE(comes_to_be_heard_by(listening.id()));
    EXPECT_EQ(server.client_kill("pubsub"), 1);
    EXPECT_TRUE(eventually([&] { return resubscribed_ == round + 1; }));
    EXPECT_TRUE(comes_to_be_heard_by(listening.id()));
    if (round == 1) continue;
    listening.end();
    EXPECT_TRUE(comes_to_be_heard_by(loop_.id()));
  }
  EXPECT_EQ(messages_.size(), static_cast<std::size_t>(sent)) << "lost, or told twice";
}

TEST_F(SubscriberLiveTest, NothingIsLostWhileListenersComeAndGo) {
  RedisServer server;
  Subscriber subscriber(loop_.io, remote_of(server.url()), "news", events());
  ASSERT_EQ(ensure(subscriber), "a value");
  constexpr std::size_t kMessages = 2000;
  std::thread sender([&] {
    for (std::size_t i = 0; i < kMessages; ++i) server.must({"PUBLISH", "news", std::to_string(i)});
  });
  EXPECT_TRUE(eventually([&] {
    Listening listening(subscriber);
    std::this_thread::yield();
    const std::lock_guard lock(mutex_);
    return messages_.size() >= kMessages;
  }));
  sender.join();
  EXPECT_EQ(resubscribed_, 0);
  const std::lock_guard lock(mutex_);
  ASSERT_EQ(messages_.size(), kMessages);
  for (std::size_t i = 0; i < kMessages; ++i) ASSERT_EQ(messages_[i], std::to_string(i));
}

TEST_F(SubscriberLiveTest, AForkedChildLeavesTheConnectionToTheThreadThatListens) {
  RedisServer server;
  Subscriber subscriber(loop_.io, remote_of(server.url()), "news", events());
  ASSERT_EQ(ensure(subscriber), "a value");
  Listening listening(subscriber);
  server.must({"PUBLISH", "news", "one"});
  ASSERT_TRUE(heard("one"));
  const pid_t child = ::fork();
  if (child == 0) {
    subscriber.abandon();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(server.command({"PUBLISH", "news", "two"}).integer, 1);
  EXPECT_TRUE(heard("two"));
  EXPECT_EQ(resubscribed_, 0);
}

// Its bytes cannot be read from outside: the loop tells.
TEST_F(SubscriberLiveTest, OverTlsTheLoopTellsAlsoWhileAThreadListens) {
  RedisServer server({.tls = support::RedisTls::kServerOnly});
  const std::string url = server.url({.tls = true, .query = {{"tls_ca", support::tls_files().ca}}});
  Subscriber subscriber(loop_.io, remote_of(url), "news", events());
  ASSERT_EQ(ensure(subscriber), "a value");
  Listening listening(subscriber);
  server.must({"PUBLISH", "news", "one"});
  EXPECT_TRUE(heard("one"));
  EXPECT_EQ(heard_by(), loop_.id());
}

TEST_F(SubscriberLiveTest, CloseEndsTheConnectionOfOneWhoListens) {
  RedisServer server;
  Subscriber subscriber(loop_.io, remote_of(server.url()), "news", events());
  ASSERT_EQ(ensure(subscriber), "a value");
  Listening listening(subscriber);
  server.must({"PUBLISH", "news", "one"});
  EXPECT_TRUE(heard("one"));
  subscriber.close();
  EXPECT_TRUE(eventually([&] {
    return server.command({"PUBLISH", "news", "two"}).integer == 0;
  })) << "the server still has a subscriber";
}

TEST_F(SubscriberLiveTest, CloseEndsThoseThatWait) {
  RedisServer server;
  server.pause();
  Subscriber subscriber(loop_.io, remote_of(server.url()), "news", events());
  Awaited<Result<void>> answer;
  subscriber.ensure(BootClock::now() + 15s,
                    [answer](const Result<void>& result) mutable { answer.give(result); });
  subscriber.close();
  EXPECT_TRUE(answer.given());
  EXPECT_EQ(code_of(answer.wait()), "kClosed");
  EXPECT_EQ(ensure(subscriber), "kClosed");
}

// Servers that are no nodes of a cluster have such channels, too.
TEST_F(SubscriberLiveTest, ShardedChannelsAreJoinedAgainAndARefusalIsSaid) {
  RedisServer server({.users = {"alice on >secret ~* resetchannels &news &good* +@all"}});
  Subscriber::Events all = events();
  std::vector<std::string> told;
  const auto tell = [&](const std::string& line) {
    const std::lock_guard lock(mutex_);
    told.push_back(line);
  };
  const auto was_told = [&](const std::string& line) {
    return eventually([&] {
      const std::lock_guard lock(mutex_);
      return std::count(told.begin(), told.end(), line) > 0;
    });
  };
  all.on_batch = [&](std::string_view channel) { tell("joined " + std::string(channel)); };
  all.on_shard = [&](std::string_view channel, std::string_view payload) {
    tell(std::string(channel) + ": " + std::string(payload));
  };
  all.on_dropped = [&](std::string_view channel, const Error& why) {
    tell("dropped " + std::string(channel) + " " + std::string(errc_name(why.code())));
  };
  Subscriber subscriber(loop_.io, remote_of(server.url({.user = "alice", .password = "secret"})),
                        "news", std::move(all));
  subscriber.join("good1");
  subscriber.join("bad");
  subscriber.join("good2");
  EXPECT_TRUE(was_told("joined good1"));
  EXPECT_TRUE(was_told("dropped bad kPermissionDenied"));
  EXPECT_TRUE(was_told("joined good2"));
  EXPECT_EQ(server.command({"SPUBLISH", "good2", "one"}).integer, 1);
  EXPECT_TRUE(was_told("good2: one"));
  subscriber.leave("good1");
  EXPECT_TRUE(server.eventually(
      [](RedisServer& asked) { return asked.command({"SPUBLISH", "good1", "two"}).integer == 0; }));
  ASSERT_EQ(server.client_kill("pubsub"), 1);
  EXPECT_TRUE(server.eventually([](RedisServer& asked) {
    return asked.command({"SPUBLISH", "good2", "three"}).integer == 1;
  }));
  EXPECT_TRUE(was_told("good2: three"));
  subscriber.close();
}

}  // namespace
}  // namespace holdfast::stores::redis::testing
