// Several locks in one request, on a real server: each gets the answer that it would get alone.
#include <algorithm>
#include <future>
#include <random>

#include <asio/post.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/keys.h"
#include "src/stores/redis/protocol/requests.h"
#include "src/stores/redis/redis_store.h"
#include "src/stores/redis/transport/pipeline.h"
#include "src/stores/redis/transport/test_wire.h"

namespace holdfast::stores::redis::testing {
namespace {

using support::Direction;
using support::Fault;
using support::Framing;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Answers = std::vector<Awaited<Result<Reply>>>;

constexpr const char* kOurs = "00000000c11e4701";
constexpr const char* kOther = "00000000c11e4702";

port::AcquireRequest asking_for(const std::string& name, std::uint64_t number, bool wait = true) {
  port::AcquireRequest request;
  request.name = name;
  request.id = {7, number};
  request.issue = number;
  request.ttl = 30s;
  request.waiter_ttl = 10s;
  request.may_wait = wait;
  return request;
}

port::AcquisitionRequest ticket_of(const std::string& name, std::uint64_t number) {
  return {name, {7, number}, BootClock::now() + 10s, number};
}

// An error as the error's text, an answer as it came.
std::string told(Awaited<Result<Reply>>& answer) {
  const auto reply = answer.wait();
  if (reply && reply->is_error()) return "-" + reply->text;
  return said(reply);
}

std::vector<std::string> told(Answers answers) {
  std::vector<std::string> all;
  for (auto& answer : answers) all.push_back(told(answer));
  return all;
}

class BatchingLiveTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_REDIS(); }

  static void load(RedisServer& server) {
    for (const ScriptName name : {ScriptName::kAcquire, ScriptName::kEnd}) {
      server.must({"SCRIPT", "LOAD", script(name).text});
    }
  }

  static void add(Pipeline& pipe, const ScriptCall& call, Answers& answers,
                  BootClock::duration time = 10s) {
    Command command{call.by_hash(), false};
    command.part = call.batch_part_of(command.wire);
    Awaited<Result<Reply>> answer;
    pipe.send(std::move(command), BootClock::now() + time,
              [answer](Result<Reply> reply) mutable { answer.give(std::move(reply)); });
    answers.push_back(answer);
  }

  // All of them are there when the loop comes to write. The call of this number has less time.
  Answers send_together(Pipeline& pipe, const std::vector<ScriptCall>& calls,
                        std::size_t hasty = std::string::npos) {
    std::promise<void> holding, go_on;
    asio::post(loop_.io, [&holding, wait = go_on.get_future().share()] {
      holding.set_value();
      wait.wait();
    });
    holding.get_future().wait();
    Answers answers;
    for (const ScriptCall& call : calls) {
      add(pipe, call, answers, answers.size() == hasty ? 300ms : 10s);
    }
    go_on.set_value();
    return answers;
  }

  // The answers of `calls`, each alone.
  std::vector<std::string> told_alone(Pipeline& pipe, const std::vector<ScriptCall>& calls) {
    std::vector<std::string> all;
    for (const ScriptCall& call : calls) {
      Answers answers;
      add(pipe, call, answers);
      all.push_back(told(answers.front()));
    }
    return all;
  }

  const Requests ours_{kOurs, nullptr};
  const Requests other_{kOther, nullptr};
  TestLoop loop_;
};

TEST_F(BatchingLiveTest, EachAcquisitionGetsItsOwnAnswer) {
  RedisServer server;
  load(server);
  Pipeline pipe(loop_.io, remote_of(server.url()));
  told_alone(pipe, {other_.acquire(asking_for("held", 1)), other_.acquire(asking_for("queue", 2)),
                    ours_.acquire(asking_for("queue", 3)), ours_.acquire(asking_for("used", 9)),
                    ours_.end("release", ticket_of("used", 9))});
  server.must({"SET", record_key("spent"),
               "1 free 9007199254740991 " + std::string(kOurs) + " 0000000000000001"});
  server.must({"LPUSH", record_key("list"), "x"});
  server.must({"SET", record_key("later"), "2 free and so on"});
  server.must({"SET", record_key("mess"), "1 held"});
  server.reset_counts();
  const auto answers = told(send_together(
      pipe, {ours_.acquire(asking_for("free", 10)), ours_.acquire(asking_for("held", 11)),
             ours_.acquire(asking_for("held", 12, /*wait=*/false)),
             ours_.acquire(asking_for("list", 13)), ours_.acquire(asking_for("used", 8)),
             ours_.acquire(asking_for("later", 14)), ours_.acquire(asking_for("spent", 15)),
             ours_.acquire(asking_for("mess", 16)), ours_.acquire(asking_for("queue", 17)),
             ours_.acquire(asking_for("used", 18)), ours_.acquire(asking_for("free", 10))}));
  EXPECT_THAT(
      answers,
      ElementsAre(StartsWith("held "), StartsWith("waiting 0 10000000 0 "), StartsWith("busy "),
                  StartsWith("-WRONGTYPE"), "gone", HasSubstr("HOLDFAST-VERSION 2 of hf1:{later}"),
                  "exhausted", HasSubstr("HOLDFAST-CORRUPT record hf1:{mess}"),
                  StartsWith("waiting 0 10000000 1 "), StartsWith("held "), answers[0]));
  EXPECT_EQ(server.command_count("evalsha"), 1);
}

TEST_F(BatchingLiveTest, EachReleaseGetsItsOwnAnswerAndHandsOn) {
  RedisServer server;
  load(server);
  Pipeline pipe(loop_.io, remote_of(server.url()));
  auto listener = server.connect();
  listener.send({"SUBSCRIBE", channel_of(kOther)});
  ASSERT_FALSE(listener.read().is_error());
  told_alone(pipe, {ours_.acquire(asking_for("a", 1)), ours_.acquire(asking_for("b", 2)),
                    other_.acquire(asking_for("b", 3)), ours_.acquire(asking_for("d", 4)),
                    ours_.acquire(asking_for("e", 5)), other_.acquire(asking_for("e", 6)),
                    other_.acquire(asking_for("e", 7))});
  server.must({"LPUSH", record_key("list"), "x"});
  server.reset_counts();
  EXPECT_THAT(
      told(send_together(
          pipe,
          {ours_.end("release", ticket_of("a", 1)), ours_.end("release", ticket_of("b", 2)),
           ours_.end("release", ticket_of("list", 8)), ours_.end("release", ticket_of("nobody", 9)),
           ours_.end("release", ticket_of("a", 1)), ours_.end("release", ticket_of("d", 4)),
           ours_.end("release", ticket_of("e", 5))})),
      ElementsAre("released", "released", StartsWith("-WRONGTYPE"), "gone", "gone", "released",
                  "released"));
  EXPECT_EQ(server.command_count("evalsha"), 1);
  EXPECT_EQ(server.command_count("publish"), 2);
  const std::string first = id_text({7, 3});
  EXPECT_THAT(listener.read().elements[2].text, StartsWith("granted " + first));
  EXPECT_THAT(server.must({"GET", record_key("d")}).text, StartsWith("1 free "));
}

TEST_F(BatchingLiveTest, ACancelComesBehindItsAcquisitionAndLeavesNothing) {
  RedisServer server;
  load(server);
  Pipeline pipe(loop_.io, remote_of(server.url()));
  told_alone(pipe, {other_.acquire(asking_for("b", 1))});
  EXPECT_THAT(
      told(send_together(
          pipe, {ours_.acquire(asking_for("a", 2)), ours_.acquire(asking_for("b", 3)),
                 ours_.end("cancel", ticket_of("a", 2)), ours_.end("cancel", ticket_of("b", 3)),
                 ours_.acquire(asking_for("c", 4))})),
      ElementsAre(StartsWith("held "), StartsWith("waiting "), "released", "cancelled",
                  StartsWith("held ")));
  EXPECT_THAT(server.must({"GET", record_key("a")}).text, StartsWith("1 free "));
  EXPECT_THAT(server.must({"GET", record_key("b")}).text, HasSubstr(id_text({7, 1})));
}

TEST_F(BatchingLiveTest, AReleaseGoesAheadOfTheAcquisitionThatWouldWaitForIt) {
  RedisServer server;
  load(server);
  Pipeline pipe(loop_.io, remote_of(server.url()));
  told_alone(pipe, {ours_.acquire(asking_for("a", 1))});
  EXPECT_THAT(told(send_together(
                  pipe, {ours_.acquire(asking_for("a", 2)), ours_.acquire(asking_for("b", 3)),
                         ours_.end("release", ticket_of("a", 1))})),
              ElementsAre(StartsWith("held "), StartsWith("held "), "released"));
}

TEST_F(BatchingLiveTest, AScriptThatTheServerHasForgottenIsSaidToEach) {
  RedisServer server;
  Pipeline pipe(loop_.io, remote_of(server.url()));
  const std::vector<ScriptCall> calls{ours_.acquire(asking_for("a", 1)),
                                      ours_.acquire(asking_for("b", 2))};
  EXPECT_THAT(told(send_together(pipe, calls)), Each(StartsWith("-NOSCRIPT")));
  load(server);
  EXPECT_THAT(told(send_together(pipe, calls)), Each(StartsWith("held ")));
}

TEST_F(BatchingLiveTest, WhereTheWholeIsRefusedEachIsAskedForAlone) {
  RedisServer server({.users = {"alice on >secret resetkeys ~hf1:{ok* resetchannels &* +@all"}});
  load(server);
  Pipeline pipe(loop_.io, remote_of(server.url({.user = "alice", .password = "secret"})));
  EXPECT_THAT(told(send_together(
                  pipe, {ours_.acquire(asking_for("ok/a", 1)), ours_.acquire(asking_for("no", 2)),
                         ours_.acquire(asking_for("ok/b", 3))})),
              ElementsAre(StartsWith("held "), StartsWith("-NOPERM"), StartsWith("held ")));
}

TEST_F(BatchingLiveTest, APartThatIsLateEndsAloneAndIsNotAskedForAgain) {
  RedisServer server({.users = {"alice on >secret resetkeys ~hf1:{ok* resetchannels &* +@all"}});
  load(server);
  Pipeline pipe(loop_.io, remote_of(server.url({.user = "alice", .password = "secret"})));
  told_alone(pipe, {ours_.acquire(asking_for("ok/first", 1))});
  server.pause();
  auto answers =
      send_together(pipe,
                    {ours_.acquire(asking_for("ok/a", 2)), ours_.acquire(asking_for("ok/late", 3)),
                     ours_.acquire(asking_for("ok/b", 4)), ours_.acquire(asking_for("no", 5))},
                    /*hasty=*/1);
  EXPECT_EQ(code_of(answers[1].wait()), "kOutcomeUnknown");
  server.resume();
  // The batch is refused as a whole, for its last part.
  EXPECT_THAT(told(answers), ElementsAre(StartsWith("held "), StartsWith("kOutcomeUnknown"),
                                         StartsWith("held "), StartsWith("-NOPERM")));
  EXPECT_EQ(server.must({"EXISTS", record_key("ok/late")}).integer, 0);
  EXPECT_EQ(pipe.counts().connections, 1U);
}

TEST_F(BatchingLiveTest, EachOfTheOthersGetsItsOwnAnswerWhenAPartIsLate) {
  RedisServer server;
  load(server);
  Pipeline pipe(loop_.io, remote_of(server.url()));
  told_alone(pipe, {ours_.acquire(asking_for("a", 1)), ours_.acquire(asking_for("b", 2))});
  server.pause();
  auto answers = send_together(
      pipe,
      {ours_.end("release", ticket_of("a", 1)), ours_.end("release", ticket_of("b", 2)),
       ours_.end("release", ticket_of("nobody", 3))},
      /*hasty=*/0);
  EXPECT_EQ(code_of(answers[0].wait()), "kOutcomeUnknown");
  server.resume();
  EXPECT_THAT(told(answers), ElementsAre(StartsWith("kOutcomeUnknown"), "released", "gone"));
  EXPECT_THAT(server.must({"GET", record_key("a")}).text, StartsWith("1 free "));
}

TEST_F(BatchingLiveTest, OutOfMemoryIsEachAcquisitionsOwnAndReleasesGoOn) {
  RedisServer server;
  load(server);
  Pipeline pipe(loop_.io, remote_of(server.url()));
  told_alone(pipe, {ours_.acquire(asking_for("a", 1)), ours_.acquire(asking_for("b", 2))});
  server.config_set("maxmemory", "1");
  EXPECT_THAT(told(send_together(
                  pipe, {ours_.acquire(asking_for("c", 3)), ours_.acquire(asking_for("d", 4))})),
              Each(StartsWith("-OOM")));
  EXPECT_THAT(told(send_together(pipe, {ours_.end("release", ticket_of("a", 1)),
                                        ours_.end("release", ticket_of("b", 2))})),
              Each("released"));
}

TEST_F(BatchingLiveTest, AReplicaRefusesEachAndIsLeft) {
  RedisServer primary;
  RedisServer server({.replica_of = &primary});
  Pipeline pipe(loop_.io, remote_of(server.url()));
  load(primary);
  ASSERT_EQ(said(ask(pipe, {"PING"})), "PONG");
  // A replica learns no scripts from its primary.
  server.must({"SCRIPT", "LOAD", script(ScriptName::kAcquire).text});
  server.must({"SCRIPT", "LOAD", script(ScriptName::kEnd).text});
  EXPECT_THAT(told(send_together(
                  pipe, {ours_.acquire(asking_for("a", 1)), ours_.acquire(asking_for("b", 2))})),
              Each(StartsWith("-READONLY")));
  EXPECT_TRUE(eventually([&] { return pipe.counts().connections == 2; }));
}

TEST_F(BatchingLiveTest, ANodeOfAClusterIsAskedOneByOne) {
  const support::ReservedPort bus;
  RedisServer server({.config = {"cluster-enabled yes", "cluster-require-full-coverage no",
                                 "cluster-port " + std::to_string(bus.number())}});
  server.must({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"});
  ASSERT_TRUE(server.eventually([](RedisServer& asked) {
    return asked.must({"CLUSTER", "INFO"}).text.find("cluster_state:ok") != std::string::npos;
  }));
  load(server);
  Pipeline pipe(loop_.io, remote_of(server.url()));
  EXPECT_THAT(told(send_together(
                  pipe, {ours_.acquire(asking_for("a", 1)), ours_.acquire(asking_for("b", 2))})),
              Each(StartsWith("held ")));
  server.reset_counts();
  EXPECT_THAT(told(send_together(pipe, {ours_.end("release", ticket_of("a", 1)),
                                        ours_.end("release", ticket_of("b", 2))})),
              Each("released"));
  EXPECT_EQ(server.command_count("evalsha"), 2) << "it is not tried again on this connection";
}

// One node of a cluster that has all slots except that of the lock `absent`.
class BatchingInAClusterTest : public BatchingLiveTest {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_REDIS();
    server_ = std::make_unique<RedisServer>(
        support::RedisOptions{.config = {"cluster-enabled yes", "cluster-require-full-coverage no",
                                         "cluster-port " + std::to_string(bus_.number())}});
    const int absent = slot_of("absent");
    server_->must({"CLUSTER", "ADDSLOTSRANGE", "0", std::to_string(absent - 1),
                   std::to_string(absent + 1), "16383"});
    ASSERT_TRUE(server_->eventually([](RedisServer& asked) {
      return asked.must({"CLUSTER", "INFO"}).text.find("cluster_state:ok") != std::string::npos;
    }));
    for (const ScriptName name : {ScriptName::kAcquire, ScriptName::kEnd}) {
      server_->must(
          {"SCRIPT", "LOAD", script(name, ScriptClock::kServer, ScriptHost::kCluster).text});
    }
  }

  ScriptCall take(const std::string& name, std::uint64_t number, bool waits = true) const {
    return here_.acquire(asking_for(name, number, waits));
  }
  ScriptCall give(const std::string& name, std::uint64_t number) const {
    return here_.end("release", ticket_of(name, number));
  }

  const support::ReservedPort bus_;
  std::unique_ptr<RedisServer> server_;
  const Requests here_{kOurs, nullptr, ScriptHost::kCluster};
};

TEST_F(BatchingInAClusterTest, LocksOfSeveralSlotsAreOneRequest) {
  Pipeline pipe(loop_.io, remote_of(server_->url()));
  ASSERT_EQ(said(ask(pipe, {"PING"})), "PONG");
  server_->reset_counts();
  EXPECT_THAT(told(send_together(pipe, {take("a", 1), take("b", 2), take("c", 3), take("a", 4)})),
              ElementsAre(StartsWith("held "), StartsWith("held "), StartsWith("held "),
                          StartsWith("waiting 0 10000000 0 ")));
  EXPECT_EQ(server_->command_count("evalsha"), 1);
  EXPECT_THAT(told(send_together(pipe, {give("a", 1), give("b", 2), give("c", 3)})),
              Each("released"));
  EXPECT_EQ(server_->command_count("evalsha"), 2);
  EXPECT_THAT(told_alone(pipe, {give("a", 4)}), ElementsAre("released")) << "it had the lock then";
}

TEST_F(BatchingInAClusterTest, AKeyThatIsNotHereFailsItsLockOnlyAndIsAskedForAlone) {
  Pipeline pipe(loop_.io, remote_of(server_->url()));
  ASSERT_EQ(said(ask(pipe, {"PING"})), "PONG");
  server_->reset_counts();
  const auto taken = told(send_together(pipe, {take("a", 1), take("absent", 2), take("b", 3)}));
  EXPECT_THAT(taken[0], StartsWith("held "));
  EXPECT_THAT(taken[1], HasSubstr("Hash slot not served")) << "the server itself says so";
  EXPECT_THAT(taken[2], StartsWith("held "));
  EXPECT_EQ(server_->command_count("evalsha"), 1) << "the second one is refused before it runs";
}

TEST_F(BatchingInAClusterTest, BatchesThatAreAlwaysInVainAreGivenUp) {
  Pipeline pipe(loop_.io, remote_of(server_->url()));
  ASSERT_EQ(said(ask(pipe, {"PING"})), "PONG");
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(told(send_together(pipe, {take("absent", 1), take("absent", 2)})),
                Each(HasSubstr("Hash slot not served")));
  }
  server_->reset_counts();
  EXPECT_THAT(told(send_together(pipe, {take("a", 3), take("b", 4)})), Each(StartsWith("held ")));
  EXPECT_EQ(server_->command_count("evalsha"), 2);
}

TEST_F(BatchingLiveTest, AResetInMidReplyIsUnknownToEachAndAskingAgainTells) {
  RedisServer server;
  load(server);
  FaultProxy proxy({.server_port = server.port(), .framing = Framing::kResp});
  Pipeline pipe(loop_.io, remote_of(server.url({.port = proxy.port()})));
  ASSERT_EQ(said(ask(pipe, {"PING"})), "PONG");
  proxy.add({.kind = Fault::Kind::kReset,
             .direction = Direction::kToClient,
             .containing = "held ",
             .times = 1,
             .after_bytes = 40});
  std::vector<ScriptCall> calls;
  for (std::uint64_t i = 1; i <= 5; ++i) {
    calls.push_back(ours_.acquire(asking_for("a" + std::to_string(i), i)));
  }
  for (auto& answer : send_together(pipe, calls)) {
    EXPECT_EQ(code_of(answer.wait()), "kOutcomeUnknown");
  }
  EXPECT_THAT(told(send_together(pipe, calls)), Each(StartsWith("held ")));
  EXPECT_EQ(pipe.counts().connections, 2U);
}

TEST_F(BatchingLiveTest, AHundredInFlightAreAFewRequestsAtTheServer) {
  RedisServer server;
  load(server);
  Pipeline pipe(loop_.io, remote_of(server.url()));
  ASSERT_EQ(said(ask(pipe, {"PING"})), "PONG");
  server.reset_counts();
  std::vector<ScriptCall> calls;
  for (std::uint64_t i = 1; i <= 100; ++i) calls.push_back(ours_.acquire(asking_for("hot", i)));
  const auto answers = told(send_together(pipe, calls));
  EXPECT_THAT(answers[0], StartsWith("held "));
  for (std::size_t i = 1; i < answers.size(); ++i) {
    EXPECT_THAT(answers[i], StartsWith("waiting 0 10000000 " + std::to_string(i - 1) + " "));
  }
  EXPECT_EQ(server.command_count("evalsha"), 4) << "so many at a time";
}

// --- Through the store

class LoopOfIo final : public port::Loop {
 public:
  explicit LoopOfIo(asio::io_context& io) : io_(io) {}
  void post(port::Task task) override { asio::post(io_, std::move(task)); }

 private:
  asio::io_context& io_;
};

class NoListener final : public port::Listener {
  void on_push(const port::Push&) override {}
};

TEST_F(BatchingLiveTest, AServerThatForgetsItsScriptsInBetweenGrantsAndFreesAll) {
  RedisServer server;
  LoopOfIo loop(loop_.io);
  NoListener listener;
  port::StoreContext context;
  context.loop = &loop;
  context.io = &loop_.io;
  context.listener = &listener;
  auto store = make_redis_store(*port::StoreUrl::parse(server.url()), context);
  ASSERT_TRUE(store) << store.error().message();
  constexpr std::uint64_t kLocks = 100;
  std::uint64_t number = 0;
  const auto pairs = [&](bool forget) {
    const std::uint64_t from = number;
    std::vector<Awaited<Result<port::AcquisitionState>>> grants(kLocks);
    std::promise<void> go_on;
    asio::post(loop_.io, [wait = go_on.get_future().share()] { wait.wait(); });
    for (auto& grant : grants) {
      const std::string name = std::to_string(number - from);
      auto request = asking_for(name, ++number, /*wait=*/false);
      request.deadline = BootClock::now() + 10s;
      (*store)->acquire(request, [grant](Result<port::AcquisitionState> state) mutable {
        grant.give(std::move(state));
      });
    }
    if (forget) server.script_flush();
    go_on.set_value();
    for (auto& grant : grants) {
      const auto state = grant.wait();
      ASSERT_TRUE(state) << state.error().message();
      EXPECT_EQ(state->status, port::AcquisitionStatus::kHeld);
    }
    std::vector<Awaited<Result<port::EndStatus>>> ends(kLocks);
    for (std::uint64_t i = 0; i < kLocks; ++i) {
      (*store)->release(
          ticket_of(std::to_string(i), from + i + 1),
          [end = ends[i]](const Result<port::EndStatus>& ended) mutable { end.give(ended); });
    }
    for (auto& end : ends) EXPECT_EQ(end.wait().value(), port::EndStatus::kReleased);
  };
  pairs(/*forget=*/false);
  pairs(/*forget=*/true);
  server.reset_counts();
  pairs(/*forget=*/false);
  EXPECT_LE(server.command_count("evalsha"), static_cast<std::int64_t>(kLocks) + 10) << "of 200";
  EXPECT_EQ(server.command_count("eval"), 0);
  (*store)->close(BootClock::now() + 1s);
}

// --- Joined or alone, it is the same to the locks.

// One client's request as the words of a script: behind the client, in front of the time.
struct Asked {
  std::string name;
  std::vector<std::string> own;
};

class Twins {
 public:
  explicit Twins(RedisServer& server) : server_(server) {}

  // On locks of one side alone, on those of the other side together. Both answers.
  void run(ScriptName name, const std::string& client, const std::string& now,
           const std::vector<Asked>& asked) {
    std::vector<std::string> alone;
    alone.reserve(asked.size());
    for (const Asked& one : asked) {
      alone.push_back(text_of(call(name, "x/", client, now, {one})));
    }
    const auto joined = call(name, "y/", client, now, asked);
    std::vector<std::string> together;
    if (asked.size() == 1) together.push_back(text_of(joined));
    for (const auto& item : joined.elements) together.push_back(text_of(item));
    ASSERT_EQ(alone, together);
    ASSERT_EQ(state("x/"), state("y/"));
  }

  std::map<std::string, int> kinds;  // Counts the answers.

 private:
  support::Reply call(ScriptName name, const std::string& side, const std::string& client,
                      const std::string& now, const std::vector<Asked>& asked) {
    std::vector<std::string> words{"EVAL", script(name, ScriptClock::kArgument).text,
                                   std::to_string(asked.size())};
    for (const Asked& one : asked) words.push_back(record_key(side + one.name));
    words.push_back(client);
    for (const Asked& one : asked) words.insert(words.end(), one.own.begin(), one.own.end());
    words.push_back(now);
    return server_.command(words);
  }
  // Without what says where in the script.
  std::string text_of(const support::Reply& reply) {
    std::string text = reply.is_error() ? "-" + reply.text : reply.text;
    text = text.substr(0, text.find(' '));
    ++kinds[text];
    return reply.is_error() ? text : reply.text;
  }
  std::string state(const std::string& side) {
    std::string all;
    for (const char* lock : {"a", "b", "c", "d"}) {
      const std::string key = record_key(side + lock);
      all += server_.command({"GET", key}).text + "\n";
      for (const char* what : {":t", ":h", ":w", ":q", ":m"}) {
        const bool hash = what[1] == 't' || what[1] == 'm';
        const auto reply = hash ? server_.command({"HGETALL", key + what})
                                : server_.command({"ZRANGE", key + what, "0", "-1", "WITHSCORES"});
        std::vector<std::string> words;
        for (const auto& item : reply.elements) words.push_back(item.text);
        if (hash) std::sort(words.begin(), words.end());
        for (const std::string& word : words) all += word + " ";
        all += "\n";
      }
    }
    return all;
  }

  RedisServer& server_;
};

TEST_F(BatchingLiveTest, JoinedRequestsLeaveTheLocksAsTheSameRequestsAlone) {
  RedisServer server;
  Twins twins(server);
  std::mt19937 random(20251122);
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  const std::vector<std::string> terms{"Pe 1 1 1 5000000 0 -", "Pe 1 1 1 5000000 2 -",
                                       "Te 1 1 0 5000000 0 -", "Qs 1 1 1 5000000 0 -",
                                       "Pe 1 1 1 5000000 0 -", "Qp 1 2 1 5000000 0 -"};
  struct Known {
    std::string client, name, id, issue;
  };
  std::vector<Known> known;
  std::uint64_t number = 0;
  std::uint64_t now = 1'700'000'000'000'000;
  for (int step = 0; step < 400 && !HasFatalFailure(); ++step) {
    now += below(3) == 0 ? below(8'000'000) : below(1000);
    const std::string client = below(2) == 0 ? kOurs : kOther;
    std::vector<Asked> asked;
    const bool acquires = below(2) == 0;
    for (unsigned i = 0, count = 1 + below(6); i < count; ++i) {
      const std::string name(1, static_cast<char>('a' + below(4)));
      if (acquires) {
        ++number;
        // Now and then one that is asked for again, or comes late.
        const std::uint64_t mine = below(8) == 0 && number > 5 ? number - 5 : number;
        known.push_back({client, name, id_text({7, mine}), padded(mine)});
        asked.push_back(
            {name,
             {known.back().id, known.back().issue, std::to_string(2'000'000 + below(9'000'000)),
              "{}", terms[below(static_cast<unsigned>(terms.size()))]}});
      } else {
        std::vector<Known> mine;
        std::copy_if(known.begin(), known.end(), std::back_inserter(mine),
                     [&](const Known& each) { return each.client == client; });
        if (mine.empty()) continue;
        const Known& one = mine[mine.size() - 1 -
                                below(std::min<unsigned>(10, static_cast<unsigned>(mine.size())))];
        asked.push_back({one.name, {one.id, one.issue, below(4) == 0 ? "cancel" : "release"}});
      }
    }
    if (asked.empty()) continue;
    twins.run(acquires ? ScriptName::kAcquire : ScriptName::kEnd, client, padded(now), asked);
  }
  for (const char* kind :
       {"held", "waiting", "busy", "gone", "full", "mismatch", "released", "cancelled"}) {
    EXPECT_GT(twins.kinds[kind], 0) << kind;
  }
}

}  // namespace
}  // namespace holdfast::stores::redis::testing
