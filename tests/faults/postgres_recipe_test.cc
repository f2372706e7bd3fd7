// recipe=advisory and recipe=advisory-xact: Holdfast beside programs that use PostgreSQL's
// advisory locks.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <libpq-fe.h>

#include "tests/faults/recipe_scenes.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/pgbouncer.h"
#include "tests/support/postgres_server.h"

namespace holdfast::faults {
namespace {

using support::PostgresServer;

PostgresServer& server() {
  static PostgresServer one({.tcp = true});
  return one;
}

class PlainSession final : public PlainProgram {
 public:
  explicit PlainSession(std::string key = "hashtextextended($1, 0)")
      : connection_(PQconnectdb(server().connection_string().c_str()), &PQfinish),
        key_(std::move(key)) {
    if (PQstatus(connection_.get()) != CONNECTION_OK) {
      throw std::runtime_error(PQerrorMessage(connection_.get()));
    }
  }
  bool try_lock(const std::string& name) override {
    return ask("SELECT pg_try_advisory_lock(" + key_ + ")", name) == "t";
  }
  bool unlock(const std::string& name) override {
    return ask("SELECT pg_advisory_unlock(" + key_ + ")", name) == "t";
  }

 private:
  std::string ask(const std::string& text, const std::string& name) {
    const char* const value = name.c_str();
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(
        PQexecParams(connection_.get(), text.c_str(), 1, nullptr, &value, nullptr, nullptr, 0),
        &PQclear);
    if (PQresultStatus(result.get()) != PGRES_TUPLES_OK) {
      throw std::runtime_error(PQerrorMessage(connection_.get()));
    }
    return PQgetvalue(result.get(), 0, 0);
  }

  const std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
  const std::string key_;
};

std::string url_at(std::uint16_t port, const std::string& options) {
  return "postgres://postgres@127.0.0.1:" + std::to_string(port) + "/postgres?" + options;
}

class PostgresRecipeTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_POSTGRES(); }
  static RecipePlace place(milliseconds session = 15s) {
    return {url_at(server().port(),
                   std::string("recipe=") + GetParam() +
                       "&connect_timeout=30s&session=" + std::to_string(session.count()) + "ms"),
            session, [] { return std::make_unique<PlainSession>(); }};
  }
};

TEST_P(PostgresRecipeTest, ItExcludesAPlainProgramAndIsExcludedByIt) {
  exclude_each_other(place(), "orders/42");
}
TEST_P(PostgresRecipeTest, ALockIsOneLockOverClients) { a_lock_is_one_lock(place(), "a", "b"); }
TEST_P(PostgresRecipeTest, ThreadsOfOneClientTakeTurns) { threads_take_turns(place(), "threads"); }
TEST_P(PostgresRecipeTest, SixteenProcessesNeverOverlap) {
  processes_never_overlap(place(), "crowd", 16);
}
TEST_P(PostgresRecipeTest, AKilledHolderHoldsNoMore) {
  a_killed_holder_holds_no_more(place(), "killed");
}
TEST_P(PostgresRecipeTest, AForkedChildLeavesTheLockAlone) {
  a_forked_child_leaves_the_lock_alone(place(1s), "forked");
}
TEST_P(PostgresRecipeTest, APausedHolderIsToldBeforeAnotherHolds) {
  a_paused_holder_is_told_first(place(1s), "paused");
}

// The server says nothing for a while, and then takes the session for dead.
TEST_P(PostgresRecipeTest, APartedHolderIsToldBeforeAnotherHolds) {
  support::FaultProxy proxy({.server_port = server().port()});
  Client client = connect(url_at(proxy.port(), std::string("session=1s&recipe=") + GetParam()));
  PlainSession other;
  const Lease lease = hold(client, "parted");
  proxy.add({.kind = support::Fault::Kind::kBlackhole});
  proxy.add({.kind = support::Fault::Kind::kBlackhole, .direction = support::Direction::kToClient});
  ASSERT_TRUE(eventually([&] { return other.try_lock("parted"); }));
  EXPECT_FALSE(lease.held());
}

TEST_P(PostgresRecipeTest, AHolderIsToldWhenItsBackendIsTerminated) {
  Client client = connect(place().url);
  const Lease lease = hold(client, "ended");
  server().sql(
      "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted");
  EXPECT_TRUE(fires(lease.lost()));
  EXPECT_FALSE(lease.held());
  EXPECT_EQ(lease.loss()->code(), Errc::kLost);
  // The next lock goes over a new connection.
  EXPECT_TRUE(eventually([&] { return is_free(client, "ended"); }));
}

TEST_P(PostgresRecipeTest, ALostReplyLeavesNothingBehind) {
  support::FaultProxy proxy({.server_port = server().port()});
  RecipePlace by_proxy = place();
  by_proxy.url = url_at(proxy.port(), std::string("connect_timeout=500ms&recipe=") + GetParam());
  a_lost_reply_leaves_nothing_behind(by_proxy, proxy, "pg_try_advisory");
}

TEST_P(PostgresRecipeTest, AHolderIsToldWhenTheServerIsKilledAndGoesOnAfterwards) {
  Client client = connect(place().url);
  const Lease lease = hold(client, "restart");
  server().kill9();
  EXPECT_TRUE(fires(lease.lost()));
  server().start();
  EXPECT_TRUE(eventually([&] {
    const auto again = client.mutex("restart").try_acquire();
    return again && *again;
  }));
}

TEST_P(PostgresRecipeTest, ItShowsWhoHolds) {
  Client client = connect(place().url);
  PlainSession other;
  ASSERT_TRUE(other.try_lock("shown"));
  const auto shown = client.inspect("shown");
  ASSERT_TRUE(shown && *shown) << (shown ? "nobody" : shown.error().message());
  ASSERT_EQ((*shown)->holders.size(), 1U);
  EXPECT_GT((*shown)->holders[0].who.pid, 0);
  ASSERT_TRUE(other.unlock("shown"));
  const auto after = client.inspect("shown");
  ASSERT_TRUE(after);
  EXPECT_FALSE(*after);
}

TEST_P(PostgresRecipeTest, ItPromisesNoMoreThanTheFormGives) {
  Client client = connect(place().url);
  const Guarantees all = client.guarantees();
  EXPECT_FALSE(all.fenced || all.fair || all.shared || all.permits || all.list || all.values);
  EXPECT_TRUE(all.bound_to_client);
  EXPECT_EQ(client.list().error().code(), Errc::kUnsupported);
  EXPECT_EQ(client.shared_mutex("a").acquire_shared({.wait = 1s}).error().code(),
            Errc::kUnsupported);
  EXPECT_EQ(client.mutex("a").acquire({.wait = 1s, .ttl = 1s}).error().code(),
            Errc::kInvalidArgument);
  const auto report = client.doctor();
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(report->healthy());
  EXPECT_TRUE(std::any_of(report->findings.begin(), report->findings.end(), [](const auto& each) {
    return each.topic == "recipe" && each.severity == Severity::kWarning;
  }));
}

INSTANTIATE_TEST_SUITE_P(Recipes, PostgresRecipeTest,
                         ::testing::Values("advisory", "advisory-xact"), [](const auto& one) {
                           const bool session = one.param == std::string("advisory");
                           return std::string(session ? "Session" : "Transaction");
                         });

class PostgresRecipeUrlTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_POSTGRES(); }
  static Error refusal(const std::string& options) {
    const auto client = Client::connect(url_at(server().port(), options));
    return client ? Error(Errc::kClosed, "it was not refused") : client.error();
  }
};

TEST_F(PostgresRecipeUrlTest, WrongOptionsAreRefusedByName) {
  for (const auto& [options, word] : std::vector<std::pair<std::string, std::string>>{
           {"recipe=row", "recipe"},
           {"session=5s", "session needs recipe="},
           {"key=number", "key needs recipe="},
           {"connections=3", "connections needs recipe="},
           {"recipe=advisory&connections=3", "connections needs recipe=advisory-xact"},
           {"recipe=advisory-xact&connections=0", "connections"},
           {"recipe=advisory&key=md5", "key"},
           {"recipe=advisory&session=10ms", "session"},
           {"recipe=advisory&schema=a", "schema"}}) {
    const Error error = refusal(options);
    EXPECT_EQ(error.code(), Errc::kInvalidArgument) << options;
    EXPECT_NE(error.message().find(word), std::string::npos) << error.message();
  }
}

TEST_F(PostgresRecipeUrlTest, ANumberAndAShorterHashAreKeysToo) {
  Client numbers = connect(url_at(server().port(), "recipe=advisory&key=number"));
  exclude_each_other({url_at(server().port(), "recipe=advisory&key=number"), 15s,
                      [] { return std::make_unique<PlainSession>("$1::bigint"); }},
                     "-42");
  const auto word = numbers.mutex("orders").try_acquire();
  ASSERT_FALSE(word);
  EXPECT_EQ(word.error().code(), Errc::kInvalidArgument);
  exclude_each_other({url_at(server().port(), "recipe=advisory&key=hashtext"), 15s,
                      [] { return std::make_unique<PlainSession>("hashtext($1)"); }},
                     "orders");
}

// Two names of one number are found by a search: hashtext() has 32 bits.
TEST_F(PostgresRecipeUrlTest, TwoNamesOfOneKeyExcludeEachOtherWithinOneSession) {
  const std::string pair = server().sql(
      "SELECT min(n) || ' ' || max(n) FROM (SELECT 'n' || i AS n FROM generate_series(1, 300000) "
      "i) names GROUP BY hashtext(n) HAVING count(*) > 1 LIMIT 1");
  ASSERT_NE(pair.find(' '), std::string::npos) << pair;
  const std::string first = pair.substr(0, pair.find(' '));
  const std::string second = pair.substr(first.size() + 1, pair.find('\n') - first.size() - 1);
  Client client = connect(url_at(server().port(), "recipe=advisory&key=hashtext"));
  PlainSession other("hashtext($1)");
  Lease lease = hold(client, first);
  EXPECT_FALSE(is_free(client, second)) << second;
  EXPECT_FALSE(other.try_lock(first)) << "the try must not have freed the first hold";
  expect_released(lease);
  EXPECT_TRUE(other.try_lock(first)) << "nor left a second one behind";
}

TEST_F(PostgresRecipeUrlTest, APoolerIsRefusedForSessionLocksAndServesTransactionLocks) {
  if (const auto why = support::Pgbouncer::unavailable()) GTEST_SKIP() << "SKIPPED: " << *why;
  const support::Pgbouncer pooler(server().port());
  const std::string by_transaction = url_at(pooler.port(), "recipe=advisory-xact");
  ASSERT_TRUE(eventually([&] { return Client::connect(by_transaction).has_value(); }));
  const auto refused = Client::connect(url_at(pooler.port(), "recipe=advisory"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kUnsupported);
  EXPECT_NE(refused.error().message().find("pooler"), std::string::npos);
  exclude_each_other({by_transaction, 15s, [] { return std::make_unique<PlainSession>(); }},
                     "pooled");
}

TEST_F(PostgresRecipeUrlTest, AClientHoldsAsManyTransactionLocksAsItHasConnections) {
  Client client = connect(url_at(server().port(), "recipe=advisory-xact&connections=2"));
  Lease first = hold(client, "one");
  Lease second = hold(client, "two");
  const auto third = client.mutex("three").try_acquire();
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code(), Errc::kQueueFull);
  EXPECT_NE(third.error().message().find("connections="), std::string::npos);
  expect_released(first);
  EXPECT_TRUE(is_free(client, "three"));
  EXPECT_FALSE(is_free(connect(url_at(server().port(), "recipe=advisory-xact")), "two"));
}

}  // namespace
}  // namespace holdfast::faults
