#include "src/stores/etcd/transport/http2_link.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <gtest/gtest.h>

#include "src/stores/etcd/transport/http2_test_server.h"

namespace holdfast::stores::etcd {
namespace {

using base::BootClock;
using namespace std::chrono_literals;

class Http2LinkTest : public testing::Test {
 protected:
  // The end and the messages of a call.
  struct Outcome {
    std::uint64_t number = 0;
    std::vector<std::string> messages;
    std::vector<Refusal> ends;

    bool ok() const { return ends.size() == 1 && ends[0].code == status::kOk; }
    bool unsent() const { return ends.size() == 1 && ends[0].unsent; }
    bool failed(int code) const {
      return ends.size() == 1 && ends[0].code == code && !ends[0].unsent;
    }
  };

  ~Http2LinkTest() override {
    link->close();
    io.poll();
  }

  std::shared_ptr<Http2Link> new_link(Http2Link::Patience patience = {10s, 5s},
                                      const char* host = "127.0.0.1") {
    return std::make_shared<Http2Link>(io, port::Endpoint{host, server.port()}, nullptr, patience);
  }
  void start(std::chrono::milliseconds connect_timeout = 20s) {
    link->start(connect_timeout, [this](const Refusal& why, bool was_up) {
      ++ends;
      ended = why;
      ended_up = was_up;
    });
  }
  Outcome& open(Http2Link::Call call) {
    Outcome& outcome = outcomes.emplace_back();
    const auto on_message = call.on_message;
    const auto on_end = call.on_end;
    call.path = "/a/b";
    call.on_message = [&outcome, on_message](std::string_view text) {
      outcome.messages.emplace_back(text);
      if (on_message) on_message(text);
    };
    call.on_end = [&outcome, on_end](const Refusal& refusal) {
      outcome.ends.push_back(refusal);
      if (on_end) on_end(refusal);
    };
    outcome.number = link->open(std::move(call));
    return outcome;
  }
  Outcome& ask(std::string text, base::BootInstant deadline = base::BootInstant::max()) {
    return open({.out = message(std::move(text)), .deadline = deadline});
  }
  // Runs the loop until it is so.
  template <typename Condition>
  bool await(Condition so) {
    const auto until = BootClock::now() + 20s;
    while (!so()) {
      if (BootClock::now() > until) return false;
      io.run_one_for(1s);
    }
    return true;
  }
  bool asked(std::int32_t id) {
    return await([&] { return server.streams[id].ended; });
  }
  bool over(const Outcome& outcome) {
    return await([&] { return !outcome.ends.empty(); });
  }
  bool link_over() {
    return await([&] { return ended.has_value(); });
  }

  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(io);
  Http2TestServer server{io};
  std::shared_ptr<Http2Link> link = new_link();
  std::deque<Outcome> outcomes;
  int ends = 0;
  std::optional<Refusal> ended;
  bool ended_up = false;
};

TEST_F(Http2LinkTest, ACallAndAnAnswerInPiecesOfOneByte) {
  server.piece = 1;
  server.greet();
  start();
  const Outcome& call = open({.token = "the token", .out = message("question")});
  ASSERT_TRUE(asked(1));
  server.answer(1, "answer");
  ASSERT_TRUE(over(call));
  EXPECT_TRUE(call.ok());
  EXPECT_EQ(call.messages, std::vector<std::string>{"answer"});
  EXPECT_EQ(server.streams[1].body, message("question"));
  EXPECT_EQ(server.streams[1].headers[":path"], "/a/b");
  EXPECT_EQ(server.streams[1].headers["token"], "the token");
  EXPECT_EQ(server.streams[1].headers.count("grpc-timeout"), 0U);
}

TEST_F(Http2LinkTest, AHostIsLookedUpAndMayBeForgottenMeanwhile) {
  link = new_link({}, "localhost");
  start();
  link->close();
  link = new_link({}, "localhost");
  server.greet();
  start();
  const Outcome& call = ask("question");
  ASSERT_TRUE(asked(1));
  server.answer(1, "answer");
  ASSERT_TRUE(over(call));
  EXPECT_TRUE(call.ok());
}

TEST_F(Http2LinkTest, OnlyARefusedStreamIsUnsent) {
  server.greet();
  start();
  const Outcome& refused = ask("1");
  const Outcome& broken = ask("2");
  ASSERT_TRUE(asked(1) && asked(3));
  server.reset(1, NGHTTP2_REFUSED_STREAM);
  server.reset(3, NGHTTP2_INTERNAL_ERROR);
  ASSERT_TRUE(over(refused) && over(broken));
  EXPECT_TRUE(refused.unsent());
  EXPECT_TRUE(broken.failed(status::kUnavailable));
}

TEST_F(Http2LinkTest, AServerThatLeavesAnswersWhatItTook) {
  server.greet();
  start();
  const Outcome& taken = ask("1");
  const Outcome& left = ask("2");
  ASSERT_TRUE(asked(1) && asked(3));
  server.leave(1);
  ASSERT_TRUE(over(left));
  EXPECT_TRUE(left.unsent());
  EXPECT_FALSE(link->usable());
  EXPECT_FALSE(ended);
  server.answer(1, "late");
  ASSERT_TRUE(link_over());
  EXPECT_TRUE(taken.ok());
  EXPECT_TRUE(ended_up);
}

TEST_F(Http2LinkTest, AConnectionLostInACallLeavesItsOutcomeOpen) {
  server.greet();
  start();
  const Outcome& call = ask("1");
  ASSERT_TRUE(asked(1));
  server.close();
  ASSERT_TRUE(over(call));
  EXPECT_TRUE(call.failed(status::kUnavailable));
  EXPECT_TRUE(ended_up);
}

TEST_F(Http2LinkTest, AConnectionClosedBeforeTheGreetingSentNothing) {
  start();
  const Outcome& one = ask("1");
  const Outcome& two = ask("2");
  ASSERT_TRUE(await([&] { return server.heard; }));
  server.close();
  ASSERT_TRUE(over(one) && over(two));
  EXPECT_TRUE(one.unsent() && two.unsent());
  EXPECT_EQ(one.ends[0].text.find(kCannotConnect), 0U) << one.ends[0].text;
  EXPECT_FALSE(ended_up);
}

TEST_F(Http2LinkTest, AServerOfHttp1IsToldAtOnce) {
  server.say("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\n");
  start();
  const Outcome& call = ask("1");
  ASSERT_TRUE(over(call));
  EXPECT_TRUE(call.unsent());
  EXPECT_EQ(call.ends[0].text.find(kCannotConnect), 0U) << call.ends[0].text;
  EXPECT_NE(call.ends[0].text.find("HTTP/2"), std::string::npos) << call.ends[0].text;
}

TEST_F(Http2LinkTest, ASilentServerTakesConnectTimeout) {
  start(30ms);
  const Outcome& call = ask("1");
  ASSERT_TRUE(over(call));
  EXPECT_TRUE(call.unsent());
  EXPECT_NE(call.ends[0].text.find("connect_timeout"), std::string::npos) << call.ends[0].text;
}

TEST_F(Http2LinkTest, AServerThatBreaksTheProtocolEndsTheLink) {
  server.greet();
  start();
  const Outcome& call = ask("1");
  ASSERT_TRUE(asked(1));
  server.say(std::string("\0\0\1\0\0\0\0\0\7x", 10));  // DATA of a stream nobody opened.
  ASSERT_TRUE(over(call));
  EXPECT_TRUE(call.failed(status::kUnavailable));
  EXPECT_TRUE(ended_up);
}

TEST_F(Http2LinkTest, FloodsThatWantAnswersEndTheLink) {
  server.greet();
  start();
  const Outcome& call = ask("1");
  ASSERT_TRUE(asked(1));
  std::string pings;
  for (int i = 0; i < 10'000; ++i)
    pings += std::string(
        "\0\0\10\6\0\0\0\0\0"
        "12345678",
        17);
  server.say(pings);
  ASSERT_TRUE(over(call));
  EXPECT_TRUE(call.failed(status::kUnavailable));
}

TEST_F(Http2LinkTest, ADeadlineEndsItsCallOnly) {
  server.greet();
  start();
  const Outcome& patient = ask("1");
  const Outcome& late = ask("2", BootClock::now() - 1s);
  ASSERT_TRUE(over(late));
  EXPECT_EQ(late.ends[0].code, status::kDeadlineExceeded);
  ASSERT_TRUE(asked(1));
  const Outcome& hasty = ask("3", BootClock::now() + 50ms);
  ASSERT_TRUE(over(hasty));
  EXPECT_EQ(hasty.ends[0].code, status::kDeadlineExceeded);
  server.answer(1, "fine");
  ASSERT_TRUE(over(patient));
  EXPECT_TRUE(patient.ok());
  EXPECT_TRUE(await([&] {
    return std::ranges::all_of(server.streams, [](const auto& each) {
      return each.second.closed == (each.first == 1 ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL);
    });
  }));
}

TEST_F(Http2LinkTest, NoCallEndsBeforeItsDeadline) {
  server.greet();
  start();
  const auto first = BootClock::now() + 20ms;
  int early = 0;
  for (int i = 0; i < 10; ++i) {
    const auto deadline = first + i * 400us;
    open({.out = message("1"), .deadline = deadline, .on_end = [&early, deadline](const Refusal&) {
            if (BootClock::now() < deadline) ++early;
          }});
  }
  ASSERT_TRUE(over(outcomes.back()));
  EXPECT_EQ(early, 0);
}

TEST_F(Http2LinkTest, AServerThatTakesNoBytesHoldsACallUntilItsDeadline) {
  server.greet({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}});
  start();
  const Outcome& call = ask("1", BootClock::now() + 50ms);
  ASSERT_TRUE(over(call));
  EXPECT_EQ(call.ends[0].code, status::kDeadlineExceeded);
  EXPECT_TRUE(await([&] { return server.streams[1].closed == NGHTTP2_CANCEL; }));
  EXPECT_FALSE(ended);
}

TEST_F(Http2LinkTest, AnAnswerThatIsTooLongIsCutOffByItsLength) {
  server.greet();
  start();
  const Outcome& call = ask("1");
  ASSERT_TRUE(asked(1));
  server.begin(1);
  server.say(1, std::string("\0\x02\0\0\1", 5));
  ASSERT_TRUE(over(call));
  EXPECT_TRUE(is_too_large(call.ends[0]));
  EXPECT_TRUE(await([&] { return server.streams[1].closed == NGHTTP2_CANCEL; }));
}

TEST_F(Http2LinkTest, ACompressedAnswerIsRefused) {
  server.greet();
  start();
  const Outcome& call = ask("1");
  ASSERT_TRUE(asked(1));
  server.begin(1);
  server.say(1, std::string("\1\0\0\0\1x", 6));
  ASSERT_TRUE(over(call));
  EXPECT_TRUE(call.failed(status::kUnknown));
}

TEST_F(Http2LinkTest, TheServersStatusIsRead) {
  server.greet();
  start();
  const auto refused = [&](const Headers& headers) {
    const std::int32_t id = static_cast<std::int32_t>(outcomes.size()) * 2 + 1;
    const Outcome& call = ask("1");
    EXPECT_TRUE(asked(id));
    server.refuse(id, headers);
    EXPECT_TRUE(over(call));
    return call.ends.empty() ? Refusal{} : call.ends[0];
  };
  Refusal refusal = refused({{":status", "200"}, {"grpc-status", "5"}});
  EXPECT_EQ(refusal.code, status::kNotFound);
  EXPECT_EQ(refusal.text, "");
  EXPECT_FALSE(refusal.ours);
  refusal =
      refused({{":status", "200"}, {"grpc-message", "a%20%c3%a4%%zz%4"}, {"grpc-status", "9"}});
  EXPECT_EQ(refusal.text, "a \xc3\xa4%%zz%4");
  refusal = refused({{":status", "200"}, {"grpc-status", "many"}});
  EXPECT_EQ(refusal.code, status::kUnknown);
  refusal = refused({{":status", "503"}});
  EXPECT_EQ(refusal.text, "HTTP status 503");
  EXPECT_TRUE(refusal.ours);
  EXPECT_FALSE(refusal.unsent);
  refusal = refused({{":status", "200"}});
  EXPECT_EQ(refusal.code, status::kUnknown);
}

TEST_F(Http2LinkTest, AnAnswerThatIsNoGrpcIsToldAtOnce) {
  server.greet();
  start();
  const Outcome& page = ask("1");
  const Outcome& error = ask("2");
  const Outcome& grpc = ask("3");
  ASSERT_TRUE(asked(1) && asked(3) && asked(5));
  server.begin(1, {{":status", "200"}, {"content-type", "text/html"}, {"grpc-status", "0"}});
  server.begin(3, {{":status", "502"}, {"content-type", "text/html"}});
  server.begin(5, {{":status", "200"}, {"content-type", "application/grpc+proto"}});
  ASSERT_TRUE(over(page) && over(error));
  EXPECT_TRUE(page.failed(status::kUnknown) && error.failed(status::kUnknown));
  EXPECT_TRUE(page.ends[0].ours && error.ends[0].ours);
  EXPECT_EQ(page.ends[0].text, "HTTP status 200, content-type text/html");
  EXPECT_EQ(error.ends[0].text, "HTTP status 502");
  server.say(5, message("answer"));
  server.end(5);
  ASSERT_TRUE(over(grpc));
  EXPECT_TRUE(grpc.ok());
}

TEST_F(Http2LinkTest, AStreamSendsWhatWasWrittenBeforeAndAfterTheGreeting) {
  start();
  const Outcome& call = open({.out = message("a"), .streams = true});
  link->write(call.number, message("b"));
  ASSERT_TRUE(await([&] { return server.heard; }));
  link->write(call.number, message("c"));
  server.greet();
  const auto got = [&](const std::string& all) {
    return await([&] { return server.streams[1].body == all; });
  };
  ASSERT_TRUE(got(message("a") + message("b") + message("c")));
  link->write(call.number, message("d"));
  ASSERT_TRUE(got(message("a") + message("b") + message("c") + message("d")));
  server.begin(1);
  server.say(1, message("x") + message("") + message("yz").substr(0, 6));
  server.say(1, "z");
  ASSERT_TRUE(await([&] { return call.messages.size() == 3; }));
  EXPECT_EQ(call.messages, (std::vector<std::string>{"x", "", "yz"}));
  server.end(1);
  ASSERT_TRUE(over(call));
  EXPECT_TRUE(call.ok());
  link->write(call.number, message("after the end"));
}

TEST_F(Http2LinkTest, ADroppedCallNeverEnds) {
  server.greet({{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 2}});
  start();
  const Outcome& waiting = ask("before the connection");
  link->drop(waiting.number);
  std::uint64_t number = 0;
  const Outcome& itself =
      open({.out = message("1"), .streams = true, .on_message = [&](std::string_view) {
              link->drop(number);
            }});
  number = itself.number;
  const Outcome& under_way = ask("2");
  const Outcome& queued = ask("3");
  ASSERT_TRUE(asked(3));
  link->drop(queued.number);
  link->drop(under_way.number);
  ASSERT_TRUE(await([&] { return server.streams[3].closed == NGHTTP2_CANCEL; }));
  server.begin(1);
  server.say(1, message("one") + message("two"));
  ASSERT_TRUE(await([&] { return server.streams[1].closed == NGHTTP2_CANCEL; }));
  EXPECT_EQ(itself.messages.size(), 1U);
  const Outcome& last = ask("4");
  ASSERT_TRUE(asked(7));
  server.answer(7, "last");
  ASSERT_TRUE(over(last));
  EXPECT_TRUE(waiting.ends.empty() && itself.ends.empty() && under_way.ends.empty() &&
              queued.ends.empty());
  EXPECT_EQ(server.streams.count(5), 0U);
}

TEST_F(Http2LinkTest, CallsAboveTheServersLimitWaitTheirTurn) {
  server.greet({{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1}});
  start();
  const Outcome& first = ask("1");
  const Outcome& hasty = ask("2", BootClock::now() + 50ms);
  const Outcome& last = ask("3");
  ASSERT_TRUE(over(hasty));
  EXPECT_EQ(hasty.ends[0].code, status::kDeadlineExceeded);
  EXPECT_TRUE(hasty.unsent());
  ASSERT_TRUE(asked(1));
  server.answer(1, "first");
  ASSERT_TRUE(asked(5));
  server.answer(5, "last");
  ASSERT_TRUE(over(first) && over(last));
  EXPECT_TRUE(first.ok() && last.ok());
  EXPECT_EQ(server.streams.count(3), 0U);
}

TEST_F(Http2LinkTest, CallsThatWaitTheirTurnDoNotWaitForAServerThatLeaves) {
  server.greet({{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1}});
  start();
  const Outcome& taken = ask("1");
  const Outcome& queued = ask("2");
  const Outcome& dropped = ask("3");
  ASSERT_TRUE(asked(1));
  link->drop(dropped.number);
  server.leave(1);
  ASSERT_TRUE(over(queued));
  EXPECT_TRUE(queued.unsent());
  EXPECT_EQ(queued.ends[0].code, status::kUnavailable);
  EXPECT_FALSE(ended);
  server.answer(1, "late");
  ASSERT_TRUE(link_over());
  EXPECT_TRUE(taken.ok());
  EXPECT_TRUE(dropped.ends.empty());
  EXPECT_EQ(server.streams.size(), 1U);
}

TEST_F(Http2LinkTest, TheServersPingIsAnsweredWithoutARequest) {
  server.greet();
  start();
  const Outcome& call = ask("1");
  ASSERT_TRUE(asked(1));
  server.answer(1, "answer");
  ASSERT_TRUE(over(call));
  nghttp2_submit_ping(server.session, NGHTTP2_FLAG_NONE, nullptr);
  server.flush();
  EXPECT_TRUE(await([&] { return server.pongs == 1; }));
}

// A caller with an answer does not wait until a ping beside it is answered.
TEST_F(Http2LinkTest, AnAnswerIsToldBeforeAPingIsAnswered) {
  server.greet();
  start();
  const Outcome& first = ask("1");
  ASSERT_TRUE(asked(1));
  nghttp2_submit_ping(server.session, NGHTTP2_FLAG_NONE, nullptr);
  server.answer(1, "answer");
  ASSERT_TRUE(over(first));
  EXPECT_EQ(server.waiting(), 0U) << "the ping is answered already";
  ask("2");
  ASSERT_TRUE(asked(3));
  EXPECT_EQ(server.pongs, 1);
}

TEST_F(Http2LinkTest, ASilentServerIsAskedForASignOfLife) {
  link = new_link({.before_ping = 20ms, .answer = 300ms});
  server.greet();
  start();
  const Outcome& call = ask("1");
  ASSERT_TRUE(await([&] { return server.pings >= 2; }));  // The first was answered.
  EXPECT_FALSE(ended);
  server.answer(1, "at last");
  ASSERT_TRUE(over(call));
  EXPECT_TRUE(call.ok());
}

TEST_F(Http2LinkTest, AServerWithoutASignOfLifeEndsTheLink) {
  link = new_link({.before_ping = 20ms, .answer = 200ms});
  server.greet();
  start();
  const Outcome& call = ask("1");
  ASSERT_TRUE(asked(1));
  server.mute = true;
  ASSERT_TRUE(over(call));
  EXPECT_TRUE(call.failed(status::kUnavailable));
  EXPECT_NE(call.ends[0].text.find("silent"), std::string::npos) << call.ends[0].text;
}

TEST_F(Http2LinkTest, NothingIsCalledAfterClose) {
  server.greet();
  start();
  const Outcome& call = ask("1", BootClock::now() + 10ms);
  ASSERT_TRUE(asked(1));
  server.answer(1, "answer");
  link->close();
  ASSERT_TRUE(await([&] { return server.gone; }));
  EXPECT_TRUE(call.messages.empty() && call.ends.empty());
  EXPECT_EQ(ends, 0);
  EXPECT_FALSE(link->usable());
}

TEST_F(Http2LinkTest, TheFirstFailureCounts) {
  server.greet();
  start();
  const Outcome& call = ask("1");
  ASSERT_TRUE(asked(1));
  link->fail({status::kCancelled, "first", false, /*ours=*/true});
  link->fail({status::kCancelled, "second", false, /*ours=*/true});
  EXPECT_TRUE(call.ends.empty());
  ASSERT_TRUE(over(call));
  ASSERT_TRUE(await([&] { return server.gone; }));
  EXPECT_TRUE(call.failed(status::kCancelled));
  EXPECT_EQ(call.ends[0].text, "first");
  EXPECT_EQ(ends, 1);
}

TEST_F(Http2LinkTest, AHandlerMayOpenFailAndClose) {
  server.greet();
  start();
  const Outcome& first = open({.out = message("1"), .on_end = [&](const Refusal&) {
                                 ask("opened inside");
                                 link->fail({status::kCancelled, "inside", false, /*ours=*/true});
                               }});
  const Outcome& second = open({.out = message("2"), .on_end = [&](const Refusal&) {
                                  link->close();
                                  link.reset();
                                }});
  const Outcome& third = ask("3");
  ASSERT_TRUE(asked(1) && asked(3) && asked(5));
  server.answer(1, "1");
  ASSERT_TRUE(over(second));
  ASSERT_TRUE(await([&] { return server.gone; }));
  EXPECT_TRUE(first.ok());
  EXPECT_LE(third.ends.size(), 1U);
  link = new_link();
}

}  // namespace
}  // namespace holdfast::stores::etcd
