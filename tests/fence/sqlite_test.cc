// The guard on SQLite: the suite's database, and what is SQLite's alone.
#include "holdfast/fence/sqlite.h"

#include <sqlite3.h>

#include <stdexcept>

#include <gtest/gtest.h>

#include "tests/fence/database.h"
#include "tests/support/temp_folder.h"

namespace holdfast::fence {
namespace {

class SqliteSession : public Session {
 public:
  explicit SqliteSession(const std::string& path,
                         int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) {
    if (::sqlite3_open_v2(path.c_str(), &connection_, flags, nullptr) != SQLITE_OK) {
      throw std::runtime_error(::sqlite3_errmsg(connection_));
    }
    ::sqlite3_busy_timeout(connection_, 60'000);
  }
  ~SqliteSession() override { ::sqlite3_close(connection_); }
  SqliteSession(const SqliteSession&) = delete;
  SqliteSession& operator=(const SqliteSession&) = delete;

  void run(const std::string& sql) override { (void)ask(sql); }
  std::string ask(const std::string& sql) override {
    std::string value;
    char* problem = nullptr;
    const auto take = [](void* into, int, char** values, char**) {
      if (values[0] != nullptr) *static_cast<std::string*>(into) = values[0];
      return 0;
    };
    if (::sqlite3_exec(connection_, sql.c_str(), take, &value, &problem) != SQLITE_OK) {
      const std::string text = problem == nullptr ? "" : problem;
      ::sqlite3_free(problem);
      throw std::runtime_error(sql + ": " + text);
    }
    return value;
  }
  std::size_t change(const std::string& sql) override {
    run(sql);
    return static_cast<std::size_t>(::sqlite3_changes(connection_));
  }
  Answer execute(const optimistic::Statement& statement) override {
    sqlite3_stmt* prepared = nullptr;
    const int told =
        ::sqlite3_prepare_v2(connection_, statement.text.c_str(), -1, &prepared, nullptr);
    for (std::size_t i = 0; i < statement.values.size(); ++i) {
      ::sqlite3_bind_text(prepared, static_cast<int>(i) + 1, statement.values[i].c_str(), -1,
                          SQLITE_TRANSIENT);
    }
    Answer out;
    int stepped = told;
    while (told == SQLITE_OK && (stepped = ::sqlite3_step(prepared)) == SQLITE_ROW) {
      for (int i = 0; out.row.size() < static_cast<std::size_t>(::sqlite3_column_count(prepared));
           ++i) {
        out.row.emplace_back(reinterpret_cast<const char*>(::sqlite3_column_text(prepared, i)));
      }
    }
    ::sqlite3_finalize(prepared);
    if (stepped != SQLITE_DONE)
      throw std::runtime_error(statement.text + ": " + ::sqlite3_errmsg(connection_));
    out.matched = static_cast<std::size_t>(::sqlite3_changes(connection_));
    return out;
  }
  void be_impatient() override { ::sqlite3_busy_timeout(connection_, 0); }
  Result<void> create_table() override { return sqlite::create_table(connection_); }
  Result<void> guard(const std::string& resource, const Token& token, const Mode& mode) override {
    return sqlite::guard(connection_, resource, token, mode);
  }

 private:
  sqlite3* connection_ = nullptr;
};

class Sqlite : public Database {
 public:
  std::unique_ptr<Session> connect() override { return std::make_unique<SqliteSession>(path()); }
  sql::Dialect dialect() const override { return sql::Dialect::kSqlite; }
  std::vector<std::vector<std::string>> beginnings() const override {
    return {{"BEGIN IMMEDIATE"}, {"BEGIN"}, {"BEGIN EXCLUSIVE"}};
  }
  std::vector<std::string> without_check() const override {
    return {"DROP TABLE holdfast_fence",
            "CREATE TABLE holdfast_fence (resource TEXT PRIMARY KEY, token TEXT)"};
  }
  bool shared_locks() const override { return false; }

  std::string path() const { return folder_.file("data.db"); }

 private:
  support::TempFolder folder_{"fence-sqlite"};
};

Sqlite& instance() {
  static Sqlite the_one;
  return the_one;
}

class SqliteFenceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    session_.run("DROP TABLE IF EXISTS holdfast_fence");
    ASSERT_TRUE(session_.create_table().has_value());
  }
  static Errc code(Session& session, std::uint64_t counter = 5,
                   const Mode& mode = Mode::exclusive()) {
    const auto answer = session.guard("stock", Token{0, counter}, mode);
    return answer ? Errc{} : answer.error().code();
  }

  SqliteSession session_{instance().path()};
};

TEST_F(SqliteFenceTest, ASharedHolderReadsWhatWasThereAtItsCheck) {
  session_.run("PRAGMA journal_mode = WAL");
  session_.run("BEGIN");
  ASSERT_EQ(code(session_, 5, Mode::shared()), Errc{});
  SqliteSession writer(instance().path());
  writer.run("BEGIN IMMEDIATE");
  ASSERT_EQ(code(writer, 6), Errc{});
  writer.run("COMMIT");
  EXPECT_EQ(session_.ask("SELECT count(*) FROM holdfast_fence"), "0") << "its snapshot";
  EXPECT_EQ(code(session_, 5), Errc::kUnavailable) << "which it cannot write from";
  session_.run("ROLLBACK");
  session_.run("BEGIN");
  EXPECT_EQ(code(session_, 5, Mode::shared()), Errc::kLost);
  session_.run("ROLLBACK");
}

TEST_F(SqliteFenceTest, AReadOnlyDatabaseIsNamed) {
  SqliteSession reader(instance().path(), SQLITE_OPEN_READONLY);
  reader.run("BEGIN");
  EXPECT_EQ(code(reader), Errc::kPermissionDenied);
}

TEST_F(SqliteFenceTest, ATemporaryTableOfThatNameIsNotAsked) {
  session_.run("BEGIN");
  ASSERT_EQ(code(session_, 6), Errc{});
  session_.run("COMMIT");
  session_.run("CREATE TEMPORARY TABLE holdfast_fence (resource TEXT PRIMARY KEY, token TEXT)");
  session_.run("BEGIN");
  EXPECT_EQ(code(session_, 5), Errc::kLost);
  session_.run("ROLLBACK");
}

}  // namespace

Database& database() { return instance(); }

}  // namespace holdfast::fence
