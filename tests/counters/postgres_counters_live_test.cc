// Sequences of a PostgreSQL that other programs raise, too.
#include <cstdint>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>

#include "holdfast/ids/store_counter.h"
#include "tests/counters/counters.h"
#include "tests/support/eventually.h"
#include "tests/support/postgres_server.h"

namespace holdfast::testing {
namespace {

using ids::StoreCounter;
using ::testing::HasSubstr;

support::PostgresServer& server() {
  static support::PostgresServer one({.settings = {"fsync=on", "full_page_writes=on"}});
  return one;
}

class PostgresCountersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_POSTGRES();
    sql("DROP SEQUENCE IF EXISTS orders");
    url_ = server().url();
  }
  static std::string sql(const std::string& statement) {
    return without_line_end(server().sql(statement));
  }

  std::string url_;
};

TEST_F(PostgresCountersTest, OnlyCreateMakesASequence) {
  EXPECT_EQ(refusal(url_, "orders").code(), Errc::kInvalidArgument);
  ASSERT_TRUE(StoreCounter::create(url_, "orders", 100));
  EXPECT_EQ(StoreCounter::create(url_, "orders").error().code(), Errc::kStoreInUse);
  const auto ids = open_counter(url_, "public.orders", 5);
  EXPECT_EQ(number(*ids), 100U);
  EXPECT_EQ(sql("SELECT nextval('orders')"), "105");
  EXPECT_EQ(ids->guarantees().forgets, "");
  ASSERT_TRUE(StoreCounter::create(url_, "\"Odd; Name\"", 0));
  EXPECT_EQ(number(*open_counter(url_, "\"Odd; Name\"", 1)), 0U);
  EXPECT_EQ(StoreCounter::create(url_, "no; name").error().code(), Errc::kInvalidArgument);
}

TEST_F(PostgresCountersTest, OtherProgramsRaiseTheSameSequence) {
  sql("CREATE SEQUENCE orders INCREMENT BY 10 START 7");
  const auto ids = open_counter(url_, "orders", 2);
  EXPECT_EQ(number(*ids), 7U);
  EXPECT_EQ(sql("SELECT nextval('orders')"), "27");
  EXPECT_EQ(number(*ids), 17U);
  EXPECT_EQ(number(*ids), 37U);
}

TEST_F(PostgresCountersTest, WhatRepeatsOrFallsIsRefused) {
  sql("CREATE SEQUENCE orders CYCLE");
  EXPECT_THAT(refusal(url_, "orders").message(), HasSubstr("CYCLE"));
  sql("ALTER SEQUENCE orders NO CYCLE INCREMENT BY -1 MINVALUE -10 MAXVALUE 10 START 10 RESTART");
  EXPECT_THAT(refusal(url_, "orders").message(), HasSubstr("increment is -1"));
  EXPECT_THAT(refusal(url_, "pg_class").message(), HasSubstr("no sequence"));
  sql("ALTER SEQUENCE orders INCREMENT BY 1 RESTART WITH -5");
  EXPECT_EQ(open_counter(url_, "orders", 1)->next().error().code(), Errc::kCorruptState);
}

TEST_F(PostgresCountersTest, ASequenceThatIsChangedEndsTheObject) {
  for (const char* harm :
       {"SELECT setval('orders', 3)", "DROP SEQUENCE orders", "ALTER SEQUENCE orders CYCLE",
        "ALTER SEQUENCE orders INCREMENT BY 5", "DROP SEQUENCE orders; CREATE SEQUENCE orders",
        "ALTER SEQUENCE orders RENAME TO gone; CREATE SEQUENCE orders START 300",
        "ALTER SEQUENCE orders CACHE 50"}) {
    sql("DROP SEQUENCE IF EXISTS orders, gone; CREATE SEQUENCE orders START 100");
    const auto ids = open_counter(url_, "orders", 2);
    EXPECT_EQ(number(*ids) + number(*ids), 201U);
    sql(harm);
    const auto lost = ids->next();
    ASSERT_FALSE(lost) << harm;
    EXPECT_EQ(lost.error().code(), Errc::kCorruptState) << harm << ": " << lost.error();
  }
}

TEST_F(PostgresCountersTest, ACacheOrdersEachConnectionByItself) {
  sql("CREATE SEQUENCE orders CACHE 10");
  const auto one = open_counter(url_, "orders", 1);
  const auto two = open_counter(url_, "orders", 1);
  EXPECT_EQ(number(*one), 1U);
  EXPECT_EQ(number(*two), 11U);
  EXPECT_EQ(number(*one), 2U);
  EXPECT_EQ(one->guarantees().order, ids::IdOrder::kObject);
  sql("SELECT setval('orders', 1, false)");  // Its connection has numbers left.
  EXPECT_EQ(one->next().error().code(), Errc::kCorruptState);
}

TEST_F(PostgresCountersTest, TheLastNumberIsAnError) {
  sql("CREATE SEQUENCE orders START 9223372036854775806");
  const auto ids = open_counter(url_, "orders", 1);
  EXPECT_EQ(number(*ids), 9223372036854775806U);
  EXPECT_EQ(number(*ids), 9223372036854775807U);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ids->next().error().code(), Errc::kUnsupported);
}

// Without a commit of its own the answered number would be on no disk: the session beside has
// logged it, and its transaction is open.
TEST_F(PostgresCountersTest, AKilledServerRepeatsNoAnsweredNumber) {
  sql("CREATE SEQUENCE orders");
  sql("CHECKPOINT");
  {
    const auto ids = open_counter(url_, "orders", 1);
    const std::unique_ptr<PGconn, decltype(&PQfinish)> beside(
        PQconnectdb(server().connection_string().c_str()), &PQfinish);
    PQclear(PQexec(beside.get(), "BEGIN"));
    PQclear(PQexec(beside.get(), "SELECT nextval('orders')"));
    EXPECT_EQ(number(*ids), 2U);
    server().kill9();
  }
  server().start();
  EXPECT_GT(std::stoi(sql("SELECT nextval('orders')")), 2);
}

TEST_F(PostgresCountersTest, ALostReplyIsAGap) {
  ASSERT_TRUE(StoreCounter::create(url_, "orders"));
  const auto ids = open_counter(url_, "orders", 1, std::chrono::milliseconds(300));
  EXPECT_EQ(number(*ids), 1U);
  server().pause();
  EXPECT_EQ(ids->next().error().code(), Errc::kUnavailable);
  server().resume();
  EXPECT_GE(number_in_the_end(*ids), 2U);
}

TEST_F(PostgresCountersTest, SaysWhatItForgets) {
  sql("CREATE UNLOGGED SEQUENCE orders");
  EXPECT_THAT(open_counter(url_, "orders", 1)->guarantees().forgets, HasSubstr("UNLOGGED"));
  EXPECT_EQ(StoreCounter::open(url_, "orders", {.require_durable = true}).error().code(),
            Errc::kUnsupported);
}

TEST_F(PostgresCountersTest, AUserNeedsFewRights) {
  sql("CREATE SEQUENCE orders; CREATE ROLE app LOGIN; GRANT USAGE ON SEQUENCE orders TO app");
  std::string url = url_;
  const std::string user = "user=postgres";
  url.replace(url.find(user), user.size(), "user=app");
  EXPECT_EQ(number(*open_counter(url, "orders", 1)), 1U);
  sql("CREATE SEQUENCE others");
  EXPECT_EQ(open_counter(url, "others", 1)->next().error().code(), Errc::kPermissionDenied);
}

TEST_F(PostgresCountersTest, KilledProcessesRepeatNothing) {
  ASSERT_TRUE(StoreCounter::create(url_, "orders"));
  killed_processes_repeat_nothing(url_, "orders");
}

}  // namespace
}  // namespace holdfast::testing
