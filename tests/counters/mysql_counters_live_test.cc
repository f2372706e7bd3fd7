// Counter tables of a MariaDB that other programs raise, too.
#include <cstdint>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/ids/store_counter.h"
#include "tests/counters/counters.h"
#include "tests/support/mariadb_server.h"

namespace holdfast::testing {
namespace {

using ids::StoreCounter;
using ::testing::HasSubstr;

support::MariadbServer& server() {
  static support::MariadbServer one({.settings = {"--innodb-flush-log-at-trx-commit=1"}});
  return one;
}

class MysqlCountersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_MARIADB();
    url_ = server().url();
    sql("DROP TABLE IF EXISTS orders");
  }
  static std::string sql(const std::string& statement) {
    return without_line_end(server().sql("USE test; " + statement));
  }

  std::string url_;
};

TEST_F(MysqlCountersTest, OnlyCreateMakesACounter) {
  EXPECT_EQ(refusal(url_, "orders").code(), Errc::kInvalidArgument);
  ASSERT_TRUE(StoreCounter::create(url_, "orders", 100));
  EXPECT_EQ(StoreCounter::create(url_, "orders").error().code(), Errc::kStoreInUse);
  const auto ids = open_counter(url_, "test.orders", 5);
  EXPECT_EQ(number(*ids), 100U);
  EXPECT_EQ(sql("SELECT id FROM orders"), "104");
  EXPECT_EQ(ids->guarantees().forgets, "");
  ASSERT_TRUE(StoreCounter::create(url_, "odd` name", 0));
  EXPECT_EQ(number(*open_counter(url_, "odd` name", 1)), 0U);
}

TEST_F(MysqlCountersTest, OtherProgramsRaiseTheSameRow) {
  sql("CREATE TABLE orders (seq INT UNSIGNED NOT NULL); INSERT INTO orders VALUES (6)");
  const auto ids = open_counter(url_, "orders", 2);
  EXPECT_EQ(number(*ids), 7U);
  EXPECT_EQ(sql("UPDATE orders SET seq = LAST_INSERT_ID(seq + 1); SELECT LAST_INSERT_ID()"), "9");
  EXPECT_EQ(number(*ids), 8U);
  EXPECT_EQ(number(*ids), 10U);
}

TEST_F(MysqlCountersTest, WhatIsNoCounterIsRefused) {
  sql("CREATE OR REPLACE SEQUENCE numbers; CREATE OR REPLACE TABLE two (id INT, other INT);"
      "CREATE OR REPLACE TABLE words (id TEXT); CREATE OR REPLACE TABLE rows2 (id INT);"
      "INSERT INTO rows2 VALUES (1), (2); CREATE OR REPLACE TABLE bare (id INT);"
      "CREATE OR REPLACE VIEW seen AS SELECT id FROM bare");
  EXPECT_EQ(refusal(url_, "numbers").code(), Errc::kUnsupported);
  for (const char* name : {"two", "words", "rows2", "bare", "seen"}) {
    const Error why = refusal(url_, name);
    EXPECT_EQ(why.code(), Errc::kInvalidArgument) << name << ": " << why;
  }
}

TEST_F(MysqlCountersTest, ARowThatIsGoneOrChangedEndsTheObject) {
  for (const char* harm :
       {"DROP TABLE orders", "DELETE FROM orders", "UPDATE orders SET id = 3",
        "INSERT INTO orders VALUES (500)", "ALTER TABLE orders CHANGE id other BIGINT"}) {
    sql("DROP TABLE IF EXISTS orders; CREATE TABLE orders (id BIGINT);"
        "INSERT INTO orders VALUES (99)");
    const auto ids = open_counter(url_, "orders", 2);
    EXPECT_EQ(number(*ids) + number(*ids), 201U);
    sql(harm);
    for (int i = 0; i < 2; ++i) {
      const auto lost = ids->next();
      ASSERT_FALSE(lost) << harm;
      EXPECT_EQ(lost.error().code(), Errc::kCorruptState) << harm << ": " << lost.error();
    }
  }
}

TEST_F(MysqlCountersTest, ATableWithoutAValueTellsWhatIsMissing) {
  const std::pair<const char*, const char*> tables[] = {
      {"(id BIGINT)", "no row"},
      {"(id BIGINT) SELECT NULL AS id", "NULL"},
      {"(id BIGINT) SELECT -2 AS id", "it is at -2"},
      {"(id BIGINT) SELECT -9223372036854775808 AS id", "it is at -9223372036854775808"}};
  for (const auto& [table, words] : tables) {
    sql("DROP TABLE IF EXISTS orders; CREATE TABLE orders " + std::string(table));
    const Error why = refusal(url_, "orders");
    EXPECT_EQ(why.code(), Errc::kInvalidArgument) << table;
    EXPECT_THAT(why.message(), HasSubstr(words)) << table;
  }
}

TEST_F(MysqlCountersTest, ARowThatIsSetBelowZeroEndsTheObject) {
  // The second one would be above zero after one batch.
  const std::pair<const char*, const char*> values[] = {{"-1000", "it is at -1000"},
                                                        {"-3", "it is at -3"}};
  for (const auto& [value, words] : values) {
    sql("DROP TABLE IF EXISTS orders; CREATE TABLE orders (id BIGINT) SELECT 0 AS id");
    const auto ids = open_counter(url_, "orders", 10);
    sql("UPDATE orders SET id = " + std::string(value));
    for (int i = 0; i < 2; ++i) {
      const auto lost = ids->next();
      ASSERT_FALSE(lost) << value;
      EXPECT_EQ(lost.error().code(), Errc::kCorruptState) << lost.error();
      EXPECT_THAT(lost.error().message(), HasSubstr(words));
    }
  }
}

TEST_F(MysqlCountersTest, TheLastNumberIsAnError) {
  for (const char* row : {"(id BIGINT) SELECT 9223372036854775805 AS id",
                          "(id BIGINT UNSIGNED) SELECT 9223372036854775805 AS id"}) {
    sql("DROP TABLE IF EXISTS orders; CREATE TABLE orders " + std::string(row));
    const auto ids = open_counter(url_, "orders", 2);
    EXPECT_EQ(number(*ids), 9223372036854775806U);
    EXPECT_EQ(number(*ids), 9223372036854775807U);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(ids->next().error().code(), Errc::kUnsupported);
  }
  sql("DROP TABLE orders; CREATE TABLE orders (id TINYINT) SELECT 126 AS id");
  const auto few = open_counter(url_, "orders", 10);
  EXPECT_EQ(number(*few), 127U);
  EXPECT_EQ(few->next().error().code(), Errc::kUnsupported);
}

TEST_F(MysqlCountersTest, AKilledServerRepeatsNoAnsweredNumber) {
  ASSERT_TRUE(StoreCounter::create(url_, "orders"));
  const auto ids = open_counter(url_, "orders", 1);
  for (std::uint64_t i = 1; i <= 5; ++i) EXPECT_EQ(number(*ids), i);
  server().kill9();
  server().start();
  EXPECT_GE(number_in_the_end(*ids), 6U);
}

TEST_F(MysqlCountersTest, ALostReplyIsAGap) {
  ASSERT_TRUE(StoreCounter::create(url_, "orders"));
  const auto ids = open_counter(url_, "orders", 1, std::chrono::milliseconds(300));
  EXPECT_EQ(number(*ids), 1U);
  server().pause();
  EXPECT_EQ(ids->next().error().code(), Errc::kUnavailable);
  server().resume();
  EXPECT_GE(number_in_the_end(*ids), 2U);
}

TEST_F(MysqlCountersTest, SaysWhatItForgets) {
  sql("CREATE TABLE orders (id INT) ENGINE=MyISAM; INSERT INTO orders VALUES (1)");
  EXPECT_THAT(open_counter(url_, "orders", 1)->guarantees().forgets, HasSubstr("MyISAM"));
  EXPECT_EQ(StoreCounter::open(url_, "orders", {.require_durable = true}).error().code(),
            Errc::kUnsupported);
}

TEST_F(MysqlCountersTest, KilledProcessesRepeatNothing) {
  ASSERT_TRUE(StoreCounter::create(url_, "orders"));
  killed_processes_repeat_nothing(url_, "orders");
}

}  // namespace
}  // namespace holdfast::testing
