// The guard on a real MariaDB: the suite's database, and what is MySQL's alone.
#include <mysql.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include <gtest/gtest.h>

#include "holdfast/fence/mysql.h"
#include "tests/fence/database.h"
#include "tests/support/mariadb_server.h"
#include "tests/support/tries.h"

namespace holdfast::fence {
namespace {

const support::MariadbServer& server() {
  static const support::MariadbServer instance;
  return instance;
}

class MysqlSession : public Session {
 public:
  explicit MysqlSession(unsigned long flags = CLIENT_FOUND_ROWS)
      : connection_(::mysql_init(nullptr)) {
    const std::string socket = server().socket_path();
    if (::mysql_real_connect(connection_, nullptr, "root", "", "test", 0, socket.c_str(),
                             flags) == nullptr) {
      throw std::runtime_error(::mysql_error(connection_));
    }
  }
  ~MysqlSession() override { ::mysql_close(connection_); }
  MysqlSession(const MysqlSession&) = delete;
  MysqlSession& operator=(const MysqlSession&) = delete;

  void run(const std::string& sql) override { (void)answer(sql); }
  std::string ask(const std::string& sql) override {
    const Answer found = answer(sql);
    return found.row.empty() ? "" : found.row.front();
  }
  std::size_t change(const std::string& sql) override { return answer(sql).matched; }
  Answer execute(const optimistic::Statement& statement) override {
    std::string parameters;
    for (std::size_t i = 0; i < statement.values.size(); ++i) {
      const std::string name = "@p" + std::to_string(i);
      run("SET " + name + " = '" + statement.values[i] + "'");
      parameters += (i == 0 ? " USING " : ", ") + name;
    }
    run("PREPARE one FROM '" + statement.text + "'");
    return answer("EXECUTE one" + parameters);
  }
  void be_impatient() override { run("SET innodb_lock_wait_timeout = 1"); }
  Result<void> create_table() override { return mysql::create_table(connection_); }
  Result<void> guard(const std::string& resource, const Token& token, const Mode& mode) override {
    return mysql::guard(connection_, resource, token, mode);
  }
  MYSQL* connection() { return connection_; }

 private:
  Answer answer(const std::string& sql) {
    if (::mysql_query(connection_, sql.c_str()) != 0) {
      throw std::runtime_error(sql + ": " + ::mysql_error(connection_));
    }
    Answer out;
    if (MYSQL_RES* result = ::mysql_store_result(connection_)) {
      const MYSQL_ROW row = ::mysql_fetch_row(result);
      for (unsigned i = 0; row != nullptr && i < ::mysql_num_fields(result); ++i) {
        out.row.emplace_back(row[i] == nullptr ? "" : row[i]);
      }
      ::mysql_free_result(result);
    } else {
      out.matched = ::mysql_affected_rows(connection_);
    }
    return out;
  }

  MYSQL* connection_;
};

class Mysql : public Database {
 public:
  std::unique_ptr<Session> connect() override { return std::make_unique<MysqlSession>(); }
  sql::Dialect dialect() const override { return sql::Dialect::kMySql; }
  std::vector<std::vector<std::string>> beginnings() const override {
    std::vector<std::vector<std::string>> all;
    for (const char* level : {"REPEATABLE READ", "READ COMMITTED", "READ UNCOMMITTED"}) {
      all.push_back({std::string("SET TRANSACTION ISOLATION LEVEL ") + level, "START TRANSACTION"});
    }
    return all;
  }
  std::vector<std::string> without_check() const override {
    return {
        "ALTER TABLE holdfast_fence MODIFY token char(31) CHARACTER SET ascii"
        " COLLATE ascii_bin NOT NULL"};
  }
};

class MysqlFenceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    session_.run("DROP TABLE IF EXISTS holdfast_fence");
    ASSERT_TRUE(session_.create_table().has_value());
  }
  Errc code(MysqlSession& session, std::uint64_t counter = 5) {
    const auto answer = session.guard("stock", Token{0, counter}, Mode::exclusive());
    return answer ? Errc{} : answer.error().code();
  }

  MysqlSession session_;
};

TEST_F(MysqlFenceTest, WithAutocommitOffTheGuardBeginsTheTransaction) {
  session_.run("SET autocommit = 0");
  EXPECT_EQ(code(session_), Errc{});
  MysqlSession other;
  other.be_impatient();
  other.run("START TRANSACTION");
  EXPECT_EQ(code(other, 6), Errc::kUnavailable) << "the row is locked";
  session_.run("ROLLBACK");
}

TEST_F(MysqlFenceTest, ATableWithoutTransactionsIsRefusedWhenItIsMade) {
  session_.run("DROP TABLE holdfast_fence");
  session_.run(
      "CREATE TABLE holdfast_fence (resource varbinary(256) PRIMARY KEY, token char(31))"
      " ENGINE = MEMORY");
  const auto made = session_.create_table();
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), Errc::kCorruptState);
  EXPECT_NE(made.error().message().find("InnoDB"), std::string::npos) << made.error().message();
}

TEST_F(MysqlFenceTest, TheTableIsNotMadeInAnOpenTransaction) {
  session_.run("START TRANSACTION");
  const auto made = session_.create_table();
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), Errc::kInvalidArgument);
}

TEST_F(MysqlFenceTest, ALostConnectionHasTakenEverythingBack) {
  MysqlSession victim;
  victim.run("START TRANSACTION");
  session_.run("KILL " + std::to_string(::mysql_thread_id(victim.connection())));
  EXPECT_EQ(code(victim), Errc::kUnavailable);
}

TEST_F(MysqlFenceTest, AReadOnlyTransactionIsNamed) {
  session_.run("START TRANSACTION READ ONLY");
  EXPECT_EQ(code(session_), Errc::kPermissionDenied);
}

TEST_F(MysqlFenceTest, AResultThatWasNotReadIsToldApart) {
  session_.run("START TRANSACTION");
  ASSERT_EQ(::mysql_query(session_.connection(), "SELECT 1"), 0);
  EXPECT_EQ(code(session_), Errc::kInvalidArgument);
}

// Without CLIENT_FOUND_ROWS the server counts the rows that a statement has changed.
TEST_F(MysqlFenceTest, OptimisticStatementsCountAlsoAsChangedRows) {
  session_.run("DROP TABLE IF EXISTS payment");
  session_.run("CREATE TABLE payment (id int PRIMARY KEY, state varchar(9), version int NOT NULL)");
  session_.run("INSERT INTO payment VALUES (1, 'open', 0)");
  MysqlSession plain(0);
  const optimistic::Row row{.table = "payment", .key = "1"};
  const auto same = optimistic::update(sql::Dialect::kMySql, row, {{"state", "open"}}, 0);
  EXPECT_EQ(plain.execute(same).matched, 1U);
  EXPECT_EQ(plain.execute(same).matched, 0U);
  const auto paid = optimistic::transition(sql::Dialect::kMySql, row, "open", "paid");
  ASSERT_TRUE(paid.has_value());
  EXPECT_EQ(plain.execute(*paid).matched, 1U);
  EXPECT_EQ(plain.execute(*paid).matched, 0U);
}

#ifdef HOLDFAST_EXAMPLE_FENCE
TEST_F(MysqlFenceTest, TheExampleRefusesTheZombie) {
  const std::string said = support::run({HOLDFAST_EXAMPLE_FENCE, "mysql", server().socket_path()});
  EXPECT_NE(said.find("refused"), std::string::npos) << said;
}
#endif

}  // namespace

Database& database() {
  static Mysql instance;
  return instance;
}

}  // namespace holdfast::fence

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (const auto why = holdfast::support::MariadbServer::unavailable()) {
    const bool required = std::getenv("HOLDFAST_REQUIRE_MARIADB") != nullptr;
    std::printf("%s: no MariaDB: %s\n", required ? "FAILED" : "SKIPPED", why->c_str());
    return required ? 1 : 77;
  }
  return holdfast::support::run_all_cases();
}
