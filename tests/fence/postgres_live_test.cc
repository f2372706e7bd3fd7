// The guard on a real PostgreSQL: the suite's database, and what is PostgreSQL's alone.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include <gtest/gtest.h>
#include <libpq-fe.h>

#include "holdfast/fence/postgres.h"
#include "tests/fence/database.h"
#include "tests/support/postgres_server.h"
#include "tests/support/tries.h"

namespace holdfast::fence {
namespace {

const support::PostgresServer& server() {
  static const support::PostgresServer instance;
  return instance;
}

class PostgresSession : public Session {
 public:
  explicit PostgresSession(const std::string& user = "postgres")
      : connection_(::PQconnectdb(server().connection_string(user).c_str())) {
    if (::PQstatus(connection_) != CONNECTION_OK) {
      throw std::runtime_error(::PQerrorMessage(connection_));
    }
    run("SET client_min_messages = error");
  }
  ~PostgresSession() override { ::PQfinish(connection_); }
  PostgresSession(const PostgresSession&) = delete;
  PostgresSession& operator=(const PostgresSession&) = delete;

  void run(const std::string& sql) override { (void)answer(sql); }
  std::string ask(const std::string& sql) override {
    const Answer found = answer(sql);
    return found.row.empty() ? "" : found.row.front();
  }
  std::size_t change(const std::string& sql) override { return answer(sql).matched; }
  void be_impatient() override { run("SET lock_timeout = '50ms'"); }
  Result<void> create_table() override { return postgres::create_table(connection_); }
  Result<void> guard(const std::string& resource, const Token& token, const Mode& mode) override {
    return postgres::guard(connection_, resource, token, mode);
  }
  Answer execute(const optimistic::Statement& statement) override {
    std::vector<const char*> values;
    for (const std::string& value : statement.values) values.push_back(value.c_str());
    return taken(statement.text,
                 ::PQexecParams(connection_, statement.text.c_str(),
                                static_cast<int>(values.size()), nullptr, values.data(), nullptr,
                                nullptr, 0));
  }
  PGconn* connection() { return connection_; }

 private:
  Answer answer(const std::string& sql) { return taken(sql, ::PQexec(connection_, sql.c_str())); }
  Answer taken(const std::string& sql, PGresult* result) {
    const auto status = ::PQresultStatus(result);
    const bool fine = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
    Answer out;
    for (int i = 0; fine && ::PQntuples(result) > 0 && i < ::PQnfields(result); ++i) {
      out.row.emplace_back(::PQgetvalue(result, 0, i));
    }
    const std::string rows = fine ? ::PQcmdTuples(result) : "";
    if (!rows.empty()) out.matched = std::stoul(rows);
    ::PQclear(result);
    if (!fine) throw std::runtime_error(sql + ": " + ::PQerrorMessage(connection_));
    return out;
  }

  PGconn* connection_;
};

class Postgres : public Database {
 public:
  std::unique_ptr<Session> connect() override { return std::make_unique<PostgresSession>(); }
  sql::Dialect dialect() const override { return sql::Dialect::kPostgres; }
  std::vector<std::vector<std::string>> beginnings() const override {
    return {{"BEGIN ISOLATION LEVEL READ COMMITTED"},
            {"BEGIN ISOLATION LEVEL REPEATABLE READ"},
            {"BEGIN ISOLATION LEVEL SERIALIZABLE"}};
  }
  std::vector<std::string> without_check() const override {
    return {"ALTER TABLE holdfast_fence DROP CONSTRAINT holdfast_fence_token_check"};
  }
};

class PostgresFenceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    session_.run("DROP TABLE IF EXISTS holdfast_fence");
    ASSERT_TRUE(session_.create_table().has_value());
  }
  Errc code(Session& session, const Mode& mode = Mode::exclusive()) {
    const auto answer = session.guard("stock", Token{0, 5}, mode);
    return answer ? Errc{} : answer.error().code();
  }

  PostgresSession session_;
};

TEST_F(PostgresFenceTest, ATransactionThatHasFailedIsToldApart) {
  session_.run("BEGIN");
  EXPECT_THROW(session_.run("SELECT 1 / 0"), std::runtime_error);
  const auto answer = session_.guard("stock", Token{0, 5}, Mode::exclusive());
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code(), Errc::kInvalidArgument);
  EXPECT_NE(answer.error().message().find("roll back"), std::string::npos);
}

TEST_F(PostgresFenceTest, ALostConnectionHasTakenEverythingBack) {
  PostgresSession victim;
  victim.run("BEGIN");
  session_.run("SELECT pg_terminate_backend(" +
               std::to_string(::PQbackendPID(victim.connection())) + ")");
  EXPECT_EQ(code(victim), Errc::kUnavailable);
  EXPECT_EQ(code(victim), Errc::kUnavailable) << "also once it is known to be down";
}

TEST_F(PostgresFenceTest, MissingRightsAndReadOnlyTransactionsAreNamed) {
  session_.run("DROP ROLE IF EXISTS stranger");
  session_.run("CREATE ROLE stranger LOGIN");
  {
    PostgresSession stranger("stranger");
    stranger.run("BEGIN");
    EXPECT_EQ(code(stranger), Errc::kPermissionDenied);
  }
  session_.run("BEGIN READ ONLY");
  EXPECT_EQ(code(session_), Errc::kPermissionDenied);
  session_.run("ROLLBACK");
}

TEST_F(PostgresFenceTest, AResourceThatIsNotUtf8IsTheCallersMistake) {
  session_.run("BEGIN");
  const auto answer = session_.guard("a\xff", Token{0, 5}, Mode::exclusive());
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code(), Errc::kInvalidArgument) << answer.error().message();
}

// Names are bytes of UTF-8, whatever the connection takes its own text for.
TEST_F(PostgresFenceTest, ANameIsOneResourceUnderEveryClientEncoding) {
  const std::string resource =
      "st\xc3\xb6"
      "ck";
  const std::vector<std::string> encodings{"UTF8", "LATIN1", "WIN1252", "SQL_ASCII", "EUC_JP"};
  int newest = 10;
  for (const std::string& newer : encodings) {
    PostgresSession holder;
    ASSERT_EQ(::PQsetClientEncoding(holder.connection(), newer.c_str()), 0);
    const Token token{0, static_cast<std::uint64_t>(++newest)};
    holder.run("BEGIN");
    const auto admitted = holder.guard(resource, token, Mode::exclusive());
    ASSERT_TRUE(admitted.has_value()) << newer << ": " << admitted.error().message();
    holder.run("COMMIT");
    for (const std::string& older : encodings) {
      for (const Mode& mode : {Mode::exclusive(), Mode::shared()}) {
        PostgresSession zombie;
        ASSERT_EQ(::PQsetClientEncoding(zombie.connection(), older.c_str()), 0);
        zombie.run("BEGIN");
        const auto answer = zombie.guard(resource, Token{0, 5}, mode);
        ASSERT_FALSE(answer.has_value()) << newer << ", then " << older;
        EXPECT_EQ(answer.error().code(), Errc::kLost) << answer.error().message();
        zombie.run("ROLLBACK");
      }
    }
  }
  EXPECT_EQ(session_.ask("SELECT count(*) FROM holdfast_fence"), "1");
}

// Records made before, by a client that speaks UTF-8 or by hand, count.
TEST_F(PostgresFenceTest, ARowWrittenAsTextIsTheSameResource) {
  for (const char* const name : {"stock",
                                 "st\xc3\xb6"
                                 "ck",
                                 "a\\b\\\\c", "\\x41", "it's"}) {
    const char* const values[] = {name, "0000000000.00000000000000000009"};
    ::PQclear(::PQexecParams(session_.connection(),
                             "INSERT INTO holdfast_fence (resource, token) VALUES ($1, $2)", 2,
                             nullptr, values, nullptr, nullptr, 0));
    session_.run("BEGIN");
    const auto answer = session_.guard(name, Token{0, 5}, Mode::exclusive());
    ASSERT_FALSE(answer.has_value()) << name;
    EXPECT_EQ(answer.error().code(), Errc::kLost) << answer.error().message();
    session_.run("ROLLBACK");
  }
  EXPECT_EQ(session_.ask("SELECT count(*) FROM holdfast_fence"), "5");
}

TEST_F(PostgresFenceTest, AStatementUnderWayIsToldApart) {
  session_.run("BEGIN");
  ASSERT_EQ(::PQsendQuery(session_.connection(), "SELECT 1"), 1);
  EXPECT_EQ(code(session_), Errc::kInvalidArgument);
  while (PGresult* rest = ::PQgetResult(session_.connection())) ::PQclear(rest);
  EXPECT_EQ(code(session_), Errc{});
}

#ifdef HOLDFAST_EXAMPLE_FENCE
TEST_F(PostgresFenceTest, TheExampleRefusesTheZombie) {
  const std::string said =
      support::run({HOLDFAST_EXAMPLE_FENCE, "postgres", server().connection_string()});
  EXPECT_NE(said.find("refused"), std::string::npos) << said;
}
#endif

}  // namespace

Database& database() {
  static Postgres instance;
  return instance;
}

}  // namespace holdfast::fence

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (const auto why = holdfast::support::PostgresServer::unavailable()) {
    const bool required = std::getenv("HOLDFAST_REQUIRE_POSTGRES") != nullptr;
    std::printf("%s: no PostgreSQL: %s\n", required ? "FAILED" : "SKIPPED", why->c_str());
    return required ? 1 : 77;
  }
  return holdfast::support::run_all_cases();
}
