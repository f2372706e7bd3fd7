// The link of the SQL stores, and the store's examination, on a real server.
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/port/store_url.h"
#include "src/sql/link.h"
#include "src/sql/sql_store.h"
#include "src/stores/postgres/connection.h"
#include "src/stores/postgres/dialect.h"
#include "src/stores/postgres/url.h"
#include "tests/support/eventually.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/loop_thread.h"
#include "tests/support/pgbouncer.h"
#include "tests/support/postgres_server.h"

namespace holdfast::stores::postgres {
namespace {

using namespace std::chrono_literals;
using base::BootClock;

using sql::Answer;
using sql::Fate;
using sql::Link;

// `prepares`: as of PostgresConnection.
Link::Settings settings_at(const std::string& text, bool prepares) {
  auto url = *port::StoreUrl::parse(text);
  return {[address = *parse_postgres_url(url), prepares] {
            return std::make_unique<PostgresConnection>(
                address, std::make_shared<std::atomic<bool>>(prepares));
          },
          400ms, "test", /*keep=*/true};
}
Link::Settings settings_for(const support::PostgresServer& server) {
  return settings_at(server.url(), /*prepares=*/true);
}

class LinkLiveTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_POSTGRES(); }
};

// Each of these takes half of connect_timeout, so the last ones are answered long after it. A
// second try would only add to what the server has to do.
TEST_F(LinkLiveTest, AStatementBehindOthersIsAwaitedWhileTheyAreAnswered) {
  support::PostgresServer server{{}};
  std::vector<std::promise<Answer>> answers(8);
  Link link(settings_for(server), {});
  link.start();
  link.post([&] {
    for (auto& answer : answers) {
      link.send({{"SELECT 7 FROM pg_sleep(0.2)"}, BootClock::now() + 60s, [&answer](Answer given) {
                   answer.set_value(std::move(given));
                 }});
    }
  });
  for (auto& answer : answers) {
    const Answer given = answer.get_future().get();
    ASSERT_EQ(given.fate, Fate::kDone) << given.message;
    EXPECT_EQ(given.rows->number(0, 0), 7);
  }
  link.close();
}

TEST_F(LinkLiveTest, AServerThatOwesAnAnswerAndSaysNothingIsGivenUp) {
  support::PostgresServer server{{}};
  std::promise<Answer> answer;
  Link link(settings_for(server), {});
  link.start();
  link.post([&] {
    link.send({{"SELECT pg_sleep(20)"}, BootClock::now() + 60s, [&answer](Answer given) {
                 answer.set_value(std::move(given));
               }});
  });
  const auto begun = BootClock::now();
  EXPECT_EQ(answer.get_future().get().fate, Fate::kUnknown);
  EXPECT_GE(BootClock::now() - begun, 400ms);
  EXPECT_LT(BootClock::now() - begun, 15s);
  link.close();
}

// A slow answer is left to the loop; so is the next one, for which nobody waits here.
TEST_F(LinkLiveTest, ACallerReadsItsOwnAnswerUnlessItIsSlow) {
  support::PostgresServer server{{}};
  support::LoopThread loop;
  Link::Settings settings = settings_for(server);
  settings.connect_timeout = 20s;
  settings.longest_silence = 60s;  // Until then the link's own thread reads nothing.
  Link link(std::move(settings), {});
  link.start();
  link.lend(loop.io);
  std::atomic<bool> done{false};
  std::thread::id read_by;
  std::future<Answer> given;
  const auto asks = [&](const char* text) -> port::Task {
    auto answer = std::make_shared<std::promise<Answer>>();
    given = answer->get_future();
    return [&, text, answer] {
      link.send({{text}, BootClock::now() + 60s, [&, answer](Answer got) {
                   read_by = std::this_thread::get_id();
                   done = true;
                   answer->set_value(std::move(got));
                 }});
    };
  };
  const auto answered = [&] { return given.get().fate == Fate::kDone; };
  link.post(asks("SELECT 7"));
  ASSERT_TRUE(answered());
  for (int quick = 0; quick < 1'000 && read_by != std::this_thread::get_id(); ++quick) {
    done = false;
    // False: the link's own thread or the loop had a turn.
    const port::Task quickly = asks("SELECT 7");
    while (!link.post_and_read(quickly, done)) std::this_thread::yield();
    ASSERT_TRUE(answered());
  }
  EXPECT_EQ(read_by, std::this_thread::get_id());

  for (const bool waits : {true, false}) {
    done = false;
    const port::Task slow = asks("SELECT 7 FROM pg_sleep(0.1)");
    if (waits) {
      while (!link.post_and_read(slow, done)) std::this_thread::yield();
    } else {
      link.post(slow);
    }
    ASSERT_TRUE(answered());
    EXPECT_NE(read_by, std::this_thread::get_id());
  }
  link.close();
}

// Whenever the answer comes: the loop's thread may be reading before the link's own goes on.
TEST_F(LinkLiveTest, ALoopThatIsLentReadsTheAnswerThatComesMeanwhile) {
  support::PostgresServer server{{}};
  support::LoopThread loop;
  for (int round = 0; round < 300; ++round) {
    std::promise<Answer> connected;
    std::promise<Answer> answer;
    Link::Settings settings = settings_for(server);
    settings.connect_timeout = 20s;  // Three hundred are made, on a busy machine, too.
    settings.longest_silence = 60s;  // Until then nothing else reads it.
    Link link(std::move(settings), {});
    link.start();
    const auto send = [&link](std::promise<Answer>& to) {
      link.post([&link, &to] {
        link.send({{"SELECT 7"}, BootClock::now() + 60s, [&to](Answer given) {
                     to.set_value(std::move(given));
                   }});
      });
    };
    send(connected);
    ASSERT_EQ(connected.get_future().get().fate, Fate::kDone);
    send(answer);
    for (int turns = 0; turns < round % 30; ++turns) std::this_thread::yield();
    link.lend(loop.io);
    auto given = answer.get_future();
    ASSERT_EQ(given.wait_for(20s), std::future_status::ready) << "round " << round;
    link.close();
  }
}

// Stands for a busy machine: the first notification comes late, or never.
class LateWakeUps final : public sql::WakeUps {
 public:
  LateWakeUps(sql::Engine& engine, std::optional<std::chrono::milliseconds> after)
      : engine_(engine), after_(after) {}

  void start(base::BootInstant) override {
    if (!after_) return;
    engine_.link().post([this] {
      engine_.link().at(BootClock::now() + *after_, [this] { engine_.set_listening(true); });
    });
  }
  void close() override {}
  port::WatchHandle watch_value(const std::string&, port::Task) override { return {}; }

 private:
  sql::Engine& engine_;
  const std::optional<std::chrono::milliseconds> after_;
};

std::future<Answer> ask(Link& link, const std::string& sql) {
  auto answer = std::make_shared<std::promise<Answer>>();
  link.post([&link, sql, answer] {
    link.send({{sql}, BootClock::now() + 60s, [answer](Answer given) {
                 answer->set_value(std::move(given));
               }});
  });
  return answer->get_future();
}

// A pooler would give the answer of a client that has gone to somebody else.
TEST_F(LinkLiveTest, BehindAPoolerAStatementWaitsForTheAnswerAheadOfIt) {
  if (const auto why = support::Pgbouncer::unavailable()) GTEST_SKIP() << "SKIPPED: " << *why;
  const support::PostgresServer server({.tcp = true});
  const support::Pgbouncer by_transaction(server.port());
  const support::Pgbouncer by_session(server.port(), 4, "session");
  struct Way {
    std::uint16_t port;
    bool prepares;
    bool direct;
  };
  for (const Way& way : {Way{server.port(), true, true}, Way{by_session.port(), true, false},
                         Way{by_transaction.port(), false, false}}) {
    SCOPED_TRACE(way.port);
    support::FaultProxy proxy({.server_port = way.port});
    Link link(settings_at("postgres://postgres@127.0.0.1:" + std::to_string(proxy.port()) +
                              "/postgres",
                          way.prepares),
              {});
    link.start();
    ASSERT_TRUE(
        support::eventually([&] { return ask(link, "SELECT 1").get().fate == Fate::kDone; }));
    const int answer = proxy.add({.kind = support::Fault::Kind::kHold,
                                  .direction = support::Direction::kToClient,
                                  .containing = "one and two"});
    auto first = ask(link, "SELECT 'one and ' || 'two'");
    ASSERT_TRUE(proxy.wait_for_hits(answer));
    const int question =
        proxy.add({.kind = support::Fault::Kind::kHold, .containing = "SELECT 'three'"});
    auto second = ask(link, "SELECT 'three'");
    EXPECT_EQ(proxy.wait_for_hits(question, 1, way.direct ? 30s : 300ms), way.direct);
    proxy.remove_all();
    EXPECT_EQ(first.get().fate, Fate::kDone);
    EXPECT_EQ(second.get().fate, Fate::kDone);
    link.close();
  }
}

class NoListener final : public port::Listener {
  void on_push(const port::Push&) override {}
};

class ExaminationLiveTest : public LinkLiveTest {
 protected:
  std::unique_ptr<port::Store> open(std::optional<std::chrono::milliseconds> after) {
    auto url = *port::StoreUrl::parse(server().url());
    sql::StoreParts parts;
    parts.dialect = std::make_unique<PostgresDialect>(*parse_postgres_url(url));
    parts.requests = parts.renewals = settings_for(server());
    parts.wake_ups = [after](sql::Engine& engine) {
      return std::make_unique<LateWakeUps>(engine, after);
    };
    port::StoreContext context;
    context.loop = &loop_;
    context.listener = &listener_;
    context.owner = "alice";
    return *sql::open_store(std::move(parts), context, {});
  }

  static std::future<Result<std::vector<Finding>>> probe(port::Store& store) {
    auto answer = std::make_shared<std::promise<Result<std::vector<Finding>>>>();
    store.probe(BootClock::now() + 60s, [answer](Result<std::vector<Finding>> findings) {
      answer->set_value(std::move(findings));
    });
    return answer->get_future();
  }

  static Severity wake_ups_of(const Result<std::vector<Finding>>& findings) {
    for (const Finding& finding : findings ? *findings : std::vector<Finding>()) {
      if (finding.topic == "wake-ups") return finding.severity;
    }
    return Severity::kProblem;
  }

  static support::PostgresServer& server() {
    static support::PostgresServer one{{}};
    return one;
  }

 private:
  support::LoopThread loop_;
  NoListener listener_;
};

TEST_F(ExaminationLiveTest, ItWaitsForTheFirstNotification) {
  const auto store = open(300ms);
  EXPECT_EQ(wake_ups_of(probe(*store).get()), Severity::kOk);
}

TEST_F(ExaminationLiveTest, NotificationsThatNeverArriveAreAWarning) {
  const auto store = open(std::nullopt);
  EXPECT_EQ(wake_ups_of(probe(*store).get()), Severity::kWarning);
}

TEST_F(ExaminationLiveTest, AStoreThatClosesMeanwhileEndsIt) {
  auto store = open(std::nullopt);
  auto answer = probe(*store);
  store->close({});
  const auto findings = answer.get();
  ASSERT_FALSE(findings);
  EXPECT_EQ(findings.error().code(), Errc::kClosed);
}

}  // namespace
}  // namespace holdfast::stores::postgres
