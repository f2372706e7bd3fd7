#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>

#include <asio/post.hpp>
#include <gtest/gtest.h>

#include "src/stores/redis/transport/direct_link.h"
#include "src/stores/redis/transport/pipeline.h"
#include "src/stores/redis/transport/test_wire.h"

namespace holdfast::stores::redis::testing {
namespace {

using support::Direction;
using support::Fault;
using support::Framing;
using support::Memory;

class PipelineLiveTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_REDIS(); }

  TestLoop loop_;
};

TEST_F(PipelineLiveTest, EachOfManyThreadsGetsItsOwnAnswersInOrder) {
  RedisServer server;
  Pipeline pipe(loop_.io, remote_of(server.url()));
  constexpr int kThreads = 8;
  constexpr int kEach = 1000;
  std::atomic<int> wrong = 0;
  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kEach; ++i) {
        const std::string text = std::to_string(thread) + "/" + std::to_string(i);
        // Every answer is checked against its request, and the counter against their order.
        pipe.send({wire_of({"ECHO", text}), true}, BootClock::now() + 20s,
                  [&, text](const Result<Reply>& reply) {
                    if (said(reply) != text) ++wrong;
                    if (std::this_thread::get_id() != loop_.id()) ++wrong;
                    ++done;
                  });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(eventually([&] { return done == kThreads * kEach; }));
  EXPECT_EQ(wrong, 0);
  const Pipeline::Counts counts = pipe.counts();
  EXPECT_EQ(counts.connections, 1U);
  EXPECT_LT(counts.writes, counts.commands);
}

TEST_F(PipelineLiveTest, OneThreadsRequestsTakeEffectInTheirOrder) {
  RedisServer server;
  Pipeline pipe(loop_.io, remote_of(server.url()));
  std::vector<Awaited<Result<Reply>>> answers;
  answers.reserve(1000);
  for (int i = 0; i < 1000; ++i) answers.push_back(send(pipe, {"INCR", "n"}));
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(said(answers[static_cast<std::size_t>(i)].wait()), std::to_string(i + 1));
}

TEST_F(PipelineLiveTest, RefusalsAreRepliesAndDoNotEndTheConnection) {
  RedisServer server;
  Pipeline pipe(loop_.io, remote_of(server.url()));
  const auto refused = ask(pipe, {"EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", "0"});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->error_word(), "NOSCRIPT");
  EXPECT_EQ(said(ask(pipe, {"PING"})), "PONG");
  EXPECT_EQ(pipe.counts().connections, 1U);
}

TEST_F(PipelineLiveTest, AfterKill9WhatWasSentIsUnknownAndThenItRecovers) {
  RedisServer server;
  Pipeline pipe(loop_.io, remote_of(server.url()));
  ASSERT_EQ(said(ask(pipe, {"PING"})), "PONG");
  server.pause();
  const auto commands = pipe.counts().commands;
  auto written = send(pipe, {"SET", "a", "1"});
  auto read_only = send(pipe, {"GET", "a"}, 10s, /*reads_only=*/true);
  ASSERT_TRUE(eventually([&] { return pipe.counts().commands == commands + 2; }));
  server.kill9();
  EXPECT_EQ(code_of(written.wait()), "kOutcomeUnknown");
  EXPECT_EQ(code_of(read_only.wait()), "kUnavailable");
  // The way back is the pipeline's own.
  EXPECT_TRUE(eventually([&] { return !pipe.connected(); }));
  server.start();
  EXPECT_TRUE(eventually([&] { return pipe.connected(); }));
  EXPECT_EQ(said(ask(pipe, {"PING"})), "PONG");
}

class ConfirmingPipelineTest : public PipelineLiveTest {
 protected:
  void SetUp() override {
    PipelineLiveTest::SetUp();
    if (IsSkipped()) return;
    server_.emplace();
    replica_.emplace(support::RedisOptions{.replica_of = &*server_});
    ASSERT_TRUE(server_->eventually([](RedisServer& server) {
      return server.info("replication", "slave0").find("state=online") != std::string::npos;
    }));
    PipelineOptions options;
    options.confirmation = {.replicas = 1, .timeout = 20s, .key = "confirmed"};
    pipe_.emplace(loop_.io, remote_of(server_->url()), options);
  }
  // The answer, and after a slash why it is not confirmed.
  Awaited<std::string> ask_for(const std::vector<std::string_view>& args,
                               BootClock::duration time = 60s) {
    Awaited<std::string> told;
    pipe_->send({wire_of(args)}, BootClock::now() + time,
                [this, told](const Result<Reply>& reply) mutable {
                  told.give((reply ? said(reply) : code_of(reply)) + "/" + pipe_->missing());
                });
    return told;
  }
  bool one_is_blocked() {
    return server_->eventually(
        [](RedisServer& server) { return server.info("clients", "blocked_clients") == "1"; });
  }

  std::optional<RedisServer> server_;
  std::optional<RedisServer> replica_;
  std::optional<Pipeline> pipe_;
};

TEST_F(ConfirmingPipelineTest, OneQuestionServesAllOfAWriteAndTheNextWriteFollows) {
  EXPECT_EQ(ask_for({"INCR", "n"}).wait(), "1/");
  replica_->pause();
  server_->reset_counts();
  auto first = ask_for({"INCR", "n"});
  ASSERT_TRUE(one_is_blocked());
  std::vector<Awaited<std::string>> behind;
  for (int i = 0; i < 100; ++i) behind.push_back(ask_for({"INCR", "n"}));
  EXPECT_FALSE(first.given()) << "its answer has come, and no replica has it";
  replica_->resume();
  EXPECT_EQ(first.wait(), "2/");
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(behind[static_cast<std::size_t>(i)].wait(), std::to_string(i + 3) + "/");
  }
  EXPECT_EQ(server_->command_count("incr"), 101);
  EXPECT_LE(server_->command_count("wait"), 3);
}

// The next connection can say nothing of what this one has written.
TEST_F(ConfirmingPipelineTest, WithoutItsAnswerARequestIsUnknownAndIsNotSentAgain) {
  EXPECT_EQ(ask_for({"INCR", "n"}).wait(), "1/");
  replica_->pause();
  auto answered = ask_for({"INCR", "n"});
  ASSERT_TRUE(one_is_blocked());
  auto waits = ask_for({"INCR", "n"});
  server_->must({"CLIENT", "KILL", "TYPE", "normal"});
  EXPECT_EQ(answered.wait(), "kOutcomeUnknown/");
  replica_->resume();
  EXPECT_EQ(waits.wait(), "3/") << "it was not sent before";
}

TEST_F(ConfirmingPipelineTest, ItSaysWhyARequestIsNotConfirmed) {
  PipelineOptions options;
  options.confirmation = {.replicas = 2, .timeout = 50ms, .key = "confirmed"};
  pipe_.emplace(loop_.io, remote_of(server_->url()), options);
  const std::string told = ask_for({"INCR", "n"}).wait();
  EXPECT_TRUE(told.starts_with("1/2 replicas did not confirm it within 50 ms")) << told;
  server_->must({"CONFIG", "SET", "maxmemory", "1"});
  const std::string refused = ask_for({"GET", "n"}).wait();
  EXPECT_TRUE(refused.starts_with("1/the server refuses to ask the replicas (OOM")) << refused;
}

TEST_F(ConfirmingPipelineTest, ADeadlineThatPassesEndsItsRequestAlone) {
  EXPECT_EQ(ask_for({"INCR", "n"}).wait(), "1/");
  replica_->pause();
  // Both in one write, which then waits for the replica.
  Awaited<std::string> patient;
  Awaited<std::string> hasty;
  asio::post(loop_.io, [&] {
    patient = ask_for({"INCR", "n"}, 20s);
    hasty = ask_for({"INCR", "n"}, 2s);
  });
  ASSERT_TRUE(one_is_blocked());
  server_->pause();
  replica_->resume();
  EXPECT_EQ(hasty.wait(), "kOutcomeUnknown/");
  EXPECT_FALSE(patient.given());
  server_->resume();
  EXPECT_TRUE(patient.wait().starts_with("2/"));
  EXPECT_EQ(ask_for({"INCR", "n"}).wait(), "4/");
  EXPECT_EQ(pipe_->counts().connections, 1U);
}

TEST_F(PipelineLiveTest, AllAddressesOfAHostAreTried) {
  RedisServer server;
  const support::ReservedPort nobody;
  const RemotePtr remote = remote_of_ports({nobody.number(), server.port()});
  Pipeline pipe(loop_.io, remote);
  EXPECT_EQ(said(ask(pipe, {"PING"})), "PONG");
  EXPECT_EQ(remote->primary->cached().endpoints.at(0).display(),
            "127.0.0.1:" + std::to_string(server.port()))
      << "the one that answered comes first";
  // The direct link takes what the pipeline's lookup has found, or has it looked up.
  DirectLink link(remote);
  EXPECT_TRUE(link.try_take()->call(wire_of({"PING"}), 1, BootClock::now() + 10s));
  DirectLink first(remote_of_ports({nobody.number(), server.port()}));
  EXPECT_TRUE(first.try_take()->call(wire_of({"PING"}), 1, BootClock::now() + 10s));
}

TEST_F(PipelineLiveTest, WithoutAServerThoseThatWaitAreToldAtOnce) {
  RedisServer server;
  server.kill9();
  Pipeline pipe(loop_.io, remote_of(server.url()));
  const auto begin = BootClock::now();
  const auto answer = ask(pipe, {"SET", "a", "1"}, 15s);
  EXPECT_EQ(code_of(answer), "kUnavailable");
  EXPECT_NE(said(answer).find("refused"), std::string::npos) << said(answer);
  EXPECT_LT(BootClock::now() - begin, 5s);
}

TEST_F(PipelineLiveTest, ADeadlineThatPassesEndsItsRequestAlone) {
  RedisServer server;
  Pipeline pipe(loop_.io, remote_of(server.url() + "?connect_timeout=30s"));
  ASSERT_EQ(said(ask(pipe, {"INCR", "n"})), "1");
  server.pause();
  auto before = send(pipe, {"INCR", "n"}, 20s);
  const auto begin = BootClock::now();
  auto hasty = send(pipe, {"INCR", "n"}, 200ms);
  auto reader = send(pipe, {"GET", "n"}, 200ms, /*reads_only=*/true);
  auto behind = send(pipe, {"INCR", "n"}, 20s);
  EXPECT_EQ(code_of(hasty.wait()), "kOutcomeUnknown");
  EXPECT_EQ(code_of(reader.wait()), "kUnavailable");
  EXPECT_GE(BootClock::now() - begin, 200ms);
  EXPECT_EQ(pipe.under_way(), 2U);
  auto later = send(pipe, {"INCR", "n"}, 20s);
  EXPECT_FALSE(before.given());
  server.resume();
  EXPECT_EQ(said(before.wait()), "2");
  EXPECT_EQ(said(behind.wait()), "4") << "the late request was applied, and its answer is dropped";
  EXPECT_EQ(said(later.wait()), "5");
  EXPECT_EQ(pipe.counts().connections, 1U);
  EXPECT_EQ(pipe.under_way(), 0U);
}

TEST_F(PipelineLiveTest, AConnectionThatIsSilentForConnectTimeoutEndsWithAllThatIsOnIt) {
  RedisServer server;
  Pipeline pipe(loop_.io, remote_of(server.url() + "?connect_timeout=400ms"));
  ASSERT_EQ(said(ask(pipe, {"PING"})), "PONG");
  server.pause();
  const auto begin = BootClock::now();
  auto patient = send(pipe, {"SET", "a", "patient"}, 15s);
  auto hasty = send(pipe, {"SET", "a", "hasty"}, 100ms);
  EXPECT_EQ(code_of(hasty.wait()), "kOutcomeUnknown");
  EXPECT_EQ(code_of(patient.wait()), "kOutcomeUnknown");
  EXPECT_GE(BootClock::now() - begin, 400ms);
  EXPECT_LT(BootClock::now() - begin, 10s);
  server.resume();
  EXPECT_EQ(said(ask(pipe, {"PING"})), "PONG");
  EXPECT_GE(pipe.counts().connections, 2U);
}

TEST_F(PipelineLiveTest, AConnectionOnWhichAllAreLateEnds) {
  RedisServer server;
  Pipeline pipe(loop_.io, remote_of(server.url() + "?connect_timeout=30s"));
  ASSERT_EQ(said(ask(pipe, {"PING"})), "PONG");
  server.pause();
  auto first = send(pipe, {"SET", "a", "1"}, 200ms);
  auto second = send(pipe, {"SET", "a", "2"}, 300ms);
  EXPECT_EQ(code_of(first.wait()), "kOutcomeUnknown");
  EXPECT_EQ(code_of(second.wait()), "kOutcomeUnknown");
  EXPECT_TRUE(eventually([&] { return !pipe.connected(); }));
  server.resume();
  EXPECT_EQ(said(ask(pipe, {"PING"})), "PONG");
}

// The first caller is told that its request is not applied, so no more of it may leave.
TEST_F(PipelineLiveTest, ALateRequestThatHasNotLeftWholeEndsTheConnection) {
  RedisServer server;
  Pipeline pipe(loop_.io, remote_of(server.url() + "?connect_timeout=30s"));
  ASSERT_EQ(said(ask(pipe, {"PING"})), "PONG");
  server.pause();
  auto patient = send(pipe, {"SET", "a", "1"}, 20s);
  auto large = send(pipe, {"SET", "big", std::string(std::size_t{24} << 20, 'x')}, 500ms);
  EXPECT_EQ(code_of(large.wait()), "kUnavailable");
  EXPECT_EQ(code_of(patient.wait()), "kOutcomeUnknown");
  server.resume();
  EXPECT_EQ(said(ask(pipe, {"EXISTS", "big"})), "0");
}

TEST_F(PipelineLiveTest, WhatWaitsBehindAPausedServerWasNotSent) {
  RedisServer server;
  Pipeline pipe(loop_.io, remote_of(server.url() + "?connect_timeout=200ms"));
  server.pause();
  // The kernel accepts the connection, and nobody answers the log-in.
  const auto answer = ask(pipe, {"SET", "a", "1"}, 10s);
  EXPECT_EQ(code_of(answer), "kUnavailable");
  EXPECT_NE(said(answer).find("connect_timeout"), std::string::npos) << said(answer);
  auto hasty = send(pipe, {"SET", "a", "1"}, 20ms);
  EXPECT_EQ(code_of(hasty.wait()), "kUnavailable");
  server.resume();
  EXPECT_EQ(server.command({"EXISTS", "a"}).integer, 0);
}

TEST_F(PipelineLiveTest, ARequestTooLongForTheSocketIsNotSentWhole) {
  RedisServer server;
  Pipeline pipe(loop_.io, remote_of(server.url()));
  ASSERT_EQ(said(ask(pipe, {"PING"})), "PONG");
  server.pause();
  // More than the kernel takes for a server that does not read.
  const std::string large(std::size_t{24} << 20, 'x');
  auto big = send(pipe, {"SET", "big", large}, 200ms);
  auto behind = send(pipe, {"SET", "behind", "1"}, 10s);
  EXPECT_EQ(code_of(big.wait()), "kUnavailable");
  server.resume();
  // An operation that had not begun goes over the next connection.
  EXPECT_EQ(said(behind.wait()), "OK");
  EXPECT_EQ(said(ask(pipe, {"EXISTS", "big"})), "0");
}

TEST_F(PipelineLiveTest, AResetInMidReplyIsUnknown) {
  RedisServer server;
  FaultProxy proxy({.server_port = server.port(), .framing = Framing::kRaw});
  Pipeline pipe(loop_.io, remote_of(server.url({.port = proxy.port()})));
  ASSERT_EQ(said(ask(pipe, {"SET", "a", std::string(100, 'x')})), "OK");
  const int reset = proxy.add({.kind = Fault::Kind::kReset,
                               .direction = Direction::kToClient,
                               .times = 1,
                               .after_bytes = 50});
  EXPECT_EQ(code_of(ask(pipe, {"GET", "a"})), "kOutcomeUnknown");
  proxy.remove(reset);
  EXPECT_EQ(said(ask(pipe, {"GET", "a"})), std::string(100, 'x'));
}

TEST_F(PipelineLiveTest, RepliesMayComeByteByByte) {
  RedisServer server;
  FaultProxy proxy({.server_port = server.port(), .framing = Framing::kRaw});
  proxy.add({.kind = Fault::Kind::kSplit, .direction = Direction::kToClient});
  Pipeline pipe(loop_.io, remote_of(server.url({.port = proxy.port()})));
  std::vector<Awaited<Result<Reply>>> answers;
  answers.reserve(20);
  for (int i = 0; i < 20; ++i) answers.push_back(send(pipe, {"ECHO", std::to_string(i)}));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(said(answers[static_cast<std::size_t>(i)].wait()), std::to_string(i));
  }
}

TEST_F(PipelineLiveTest, ADroppedReplyIsUnknownAndTheConnectionIsNotUsedAgain) {
  RedisServer server;
  FaultProxy proxy({.server_port = server.port(), .framing = Framing::kResp});
  Pipeline pipe(loop_.io, remote_of(server.url({.port = proxy.port()})));
  ASSERT_EQ(said(ask(pipe, {"PING"})), "PONG");
  proxy.add({.kind = Fault::Kind::kDropReplies, .containing = "INCR", .times = 1});
  EXPECT_EQ(code_of(ask(pipe, {"INCR", "n"}, 100ms)), "kOutcomeUnknown");
  EXPECT_EQ(said(ask(pipe, {"INCR", "n"})), "2");
  EXPECT_EQ(pipe.counts().connections, 2U);
}

TEST_F(PipelineLiveTest, WorksOverAUnixSocketAndInAnotherDatabase) {
  RedisServer server;
  Pipeline pipe(loop_.io, remote_of(server.url({.unix_socket = true, .query = {{"db", "3"}}})));
  EXPECT_EQ(said(ask(pipe, {"SET", "a", "1"})), "OK");
  EXPECT_EQ(server.command({"EXISTS", "a"}).integer, 0);
  EXPECT_EQ(said(ask(pipe, {"CLIENT", "GETNAME"})), "holdfast");
}

TEST_F(PipelineLiveTest, AWrongPasswordIsPermissionDenied) {
  RedisServer server({.requirepass = "right"});
  for (const std::string& url :
       {server.url({.password = "hunter2"}), server.url({.user = "hunter2", .password = "hunter2"}),
        "redis://127.0.0.1:" + std::to_string(server.port())}) {
    Pipeline pipe(loop_.io, remote_of(url));
    const auto answer = ask(pipe, {"SET", "a", "1"});
    EXPECT_EQ(code_of(answer), "kPermissionDenied") << said(answer);
    EXPECT_EQ(said(answer).find("hunter2"), std::string::npos) << said(answer);
  }
  Pipeline good(loop_.io, remote_of(server.url()));
  EXPECT_EQ(said(ask(good, {"SET", "a", "1"})), "OK");
}

TEST_F(PipelineLiveTest, AUserWithFewRightsIsLetIn) {
  RedisServer server({.users = {"alice on >secret ~a:* resetchannels -@all +set"}});
  Pipeline pipe(loop_.io, remote_of(server.url({.user = "alice", .password = "secret"})));
  EXPECT_EQ(said(ask(pipe, {"SET", "a:1", "1"})), "OK");
  EXPECT_EQ(ask(pipe, {"SET", "b:1", "1"})->error_word(), "NOPERM");
}

TEST_F(PipelineLiveTest, AServerThatLoadsIsWaitedFor) {
  // It loads slowly, and answers meanwhile.
  RedisServer server({.config = {"enable-debug-command yes", "key-load-delay 300",
                                 "loading-process-events-interval-bytes 1024"}});
  server.must({"DEBUG", "POPULATE", "3000", "k", "10"});
  auto witness = server.connect();
  support::RedisConnection loader(server.port(), 20s);
  loader.send({"DEBUG", "RELOAD"});
  ASSERT_TRUE(eventually([&] {
    return witness.command({"GET", "k:1"}).error_code() == "LOADING";
  }));
  Pipeline pipe(loop_.io, remote_of(server.url()));
  DirectLink link(remote_of(server.url()));
  auto hasty = send(pipe, {"GET", "k:1"}, 20ms);
  auto patient = send(pipe, {"GET", "k:1"}, 15s);
  EXPECT_EQ(code_of(link.try_take()->call(wire_of({"GET", "k:1"}), 1, BootClock::now() + 50ms)),
            "kUnavailable");
  EXPECT_EQ(code_of(hasty.wait()), "kUnavailable");
  EXPECT_TRUE(witness.command({"GET", "k:1"}).is_error());
  const auto direct = link.try_take()->call(wire_of({"GET", "k:1"}), 1, BootClock::now() + 15s);
  ASSERT_TRUE(direct) << direct.error().message();
  EXPECT_EQ(direct->at(0).text.substr(0, 7), "value:1");
  EXPECT_EQ(said(patient.wait()).substr(0, 7), "value:1");
}

TEST_F(PipelineLiveTest, TlsWorksAndItsFailuresNameTheCheck) {
  const support::TlsFiles& files = support::tls_files();
  RedisServer server({.tls = support::RedisTls::kClientMustAuthenticate});
  const auto say = [&](const std::map<std::string, std::string>& query,
                       const std::string& host = "127.0.0.1") {
    Pipeline pipe(loop_.io, remote_of(server.url({.tls = true, .host = host, .query = query})));
    return said(ask(pipe, {"PING"}));
  };
  const std::string cert = files.client.certificate;
  const std::string key = files.client.key;
  EXPECT_EQ(say({{"tls_ca", files.ca}, {"tls_cert", cert}, {"tls_key", key}}), "PONG");
  EXPECT_EQ(say({{"tls_ca", files.ca}, {"tls_cert", cert}, {"tls_key", key}}, "localhost"), "PONG");
  const auto expect = [](const std::string& answer, const char* code, const char* words) {
    EXPECT_TRUE(answer.starts_with(code)) << answer;
    EXPECT_NE(answer.find(words), std::string::npos) << answer;
  };
  expect(say({{"tls_ca", files.foreign_ca}, {"tls_cert", cert}, {"tls_key", key}}),
         "kPermissionDenied", "tls_ca");
  expect(say({{"tls_ca", files.ca}, {"tls_cert", cert}, {"tls_key", key}, {"tls_name", "other"}}),
         "kPermissionDenied", "tls_name");
  expect(say({{"tls_ca", files.ca}}), "kPermissionDenied", "tls_cert");
  expect(say({{"tls_ca", files.ca},
              {"tls_cert", files.foreign_client.certificate},
              {"tls_key", files.foreign_client.key}}),
         "kPermissionDenied", "tls_cert");
}

TEST_F(PipelineLiveTest, TlsCarriesMoreThanOneRecord) {
  RedisServer server({.tls = support::RedisTls::kServerOnly});
  Pipeline pipe(
      loop_.io,
      remote_of(server.url({.tls = true, .query = {{"tls_ca", support::tls_files().ca}}})));
  const std::string large(3'000'000, 'x');
  EXPECT_EQ(said(ask(pipe, {"SET", "a", large})), "OK");
  EXPECT_EQ(said(ask(pipe, {"GET", "a"})), large);
}

TEST_F(PipelineLiveTest, APlainPortIsNotMistakenForTls) {
  RedisServer server({.tls = support::RedisTls::kServerOnly});
  Pipeline pipe(loop_.io, remote_of(server.url({.tls = true,
                                                .port = server.port(),
                                                .query = {{"connect_timeout", "500ms"},
                                                          {"tls_ca", support::tls_files().ca}}})));
  EXPECT_EQ(code_of(ask(pipe, {"PING"})), "kUnavailable");
}

TEST_F(PipelineLiveTest, AfterADemotionItConnectsAnew) {
  RedisServer primary;
  RedisServer server({.replica_of = &primary});
  Pipeline pipe(loop_.io, remote_of(server.url()));
  // Operations that are under way with the refusal are answered.
  auto refused = send(pipe, {"SET", "a", "1"});
  auto with_it = send(pipe, {"ECHO", "still"});
  ASSERT_EQ(refused.wait()->error_word(), "READONLY");
  EXPECT_EQ(said(with_it.wait()), "still");
  EXPECT_TRUE(eventually([&] { return pipe.counts().connections == 2; }));
  server.must({"REPLICAOF", "NO", "ONE"});
  EXPECT_EQ(said(ask(pipe, {"SET", "a", "1"})), "OK");
}

TEST_F(PipelineLiveTest, ABusyPipelineWatchesOverDeadlinesOfWhatItHasNotSent) {
  RedisServer server;
  Pipeline pipe(loop_.io, remote_of(server.url()));
  // There are no replicas, so this takes long, and the server counts as far away.
  ASSERT_EQ(said(ask(pipe, {"WAIT", "1", "20"})), "0");
  server.pause();
  // More than it gives a busy server at once, and too few left over for another write.
  constexpr int kBefore = 40;
  std::vector<Awaited<Result<Reply>>> before;
  before.reserve(kBefore);
  for (int i = 0; i < kBefore; ++i) before.push_back(send(pipe, {"INCR", "n"}));
  const auto sent = [&] { return pipe.counts().commands >= 34; };
  ASSERT_TRUE(eventually(sent));
  auto later = send(pipe, {"INCR", "n"});
  auto hasty = send(pipe, {"SET", "a", "1"}, 50ms);
  EXPECT_EQ(code_of(hasty.wait()), "kUnavailable");
  EXPECT_FALSE(later.given());
  server.resume();
  for (auto& answer : before) EXPECT_TRUE(answer.wait());
  EXPECT_EQ(said(later.wait()), "41");
  EXPECT_EQ(said(ask(pipe, {"EXISTS", "a"})), "0");
}

TEST_F(PipelineLiveTest, NothingIsForgottenHoweverManySendAtOnce) {
  RedisServer server;
  Pipeline pipe(loop_.io, remote_of(server.url()));
  constexpr int kThreads = 4;
  constexpr int kEach = 3000;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  std::atomic<int> failed = 0;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      // Bursts around the numbers at which it holds back and begins again, then silence.
      for (int i = 0; i < kEach;) {
        std::vector<Awaited<Result<Reply>>> burst;
        for (int k = 0; k < 1 + (i * 7 + thread) % 70; ++k, ++i) {
          burst.push_back(send(pipe, {"INCR", "n"}));
        }
        for (auto& answer : burst) failed += answer.wait() ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
}

TEST_F(PipelineLiveTest, WhatIsTooLateAlreadyIsNotSent) {
  RedisServer server;
  Pipeline pipe(loop_.io, remote_of(server.url()));
  ASSERT_EQ(said(ask(pipe, {"PING"})), "PONG");
  EXPECT_EQ(code_of(ask(pipe, {"SET", "a", "1"}, 0ns)), "kUnavailable");
  EXPECT_EQ(said(ask(pipe, {"EXISTS", "a"})), "0");
  EXPECT_EQ(pipe.counts().connections, 1U);
}

TEST_F(PipelineLiveTest, TheQueueIsBounded) {
  RedisServer server;
  server.pause();
  Pipeline pipe(loop_.io, remote_of(server.url()), {.max_queued_bytes = 4096, .limits = {}});
  auto held = send(pipe, {"SET", "a", std::string(3000, 'x')});
  const auto refused = ask(pipe, {"SET", "a", std::string(3000, 'x')});
  EXPECT_EQ(code_of(refused), "kQueueFull");
  server.resume();
  EXPECT_EQ(said(held.wait()), "OK");
  EXPECT_EQ(said(ask(pipe, {"SET", "a", std::string(3000, 'x')})), "OK");
}

TEST_F(PipelineLiveTest, CloseEndsAllThatIsUnderWay) {
  RedisServer server;
  Pipeline pipe(loop_.io, remote_of(server.url()));
  ASSERT_EQ(said(ask(pipe, {"PING"})), "PONG");
  server.pause();
  auto held = send(pipe, {"SET", "a", "1"});
  pipe.close();
  EXPECT_TRUE(held.given());
  EXPECT_EQ(code_of(held.wait()), "kClosed");
  EXPECT_EQ(code_of(ask(pipe, {"PING"})), "kClosed");
  pipe.close();
}

TEST_F(PipelineLiveTest, CloseMayRaceWithSenders) {
  RedisServer server;
  for (int round = 0; round < 20; ++round) {
    auto pipe = std::make_unique<Pipeline>(loop_.io, remote_of(server.url()));
    std::atomic<int> sent = 0;
    std::atomic<int> ended = 0;
    std::atomic<bool> stop = false;
    std::thread sender([&] {
      while (!stop) {
        ++sent;
        pipe->send({wire_of({"PING"}), true}, BootClock::now() + 10s,
                   [&](const Result<Reply>&) { ++ended; });
        if (sent > 2000) break;
      }
    });
    while (sent < round * 20) std::this_thread::yield();
    pipe->close();
    stop = true;
    sender.join();
    EXPECT_TRUE(eventually([&] { return ended == sent; }));
  }
}

TEST_F(PipelineLiveTest, AForkedChildLeavesTheParentsConnectionAlone) {
  RedisServer server({.tls = support::RedisTls::kServerOnly});
  Pipeline pipe(
      loop_.io,
      remote_of(server.url({.tls = true, .query = {{"tls_ca", support::tls_files().ca}}})));
  ASSERT_EQ(said(ask(pipe, {"PING"})), "PONG");
  const pid_t child = ::fork();
  if (child == 0) {
    pipe.abandon();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(said(ask(pipe, {"PING"})), "PONG");
  EXPECT_EQ(pipe.counts().connections, 1U);
}

}  // namespace
}  // namespace holdfast::stores::redis::testing
