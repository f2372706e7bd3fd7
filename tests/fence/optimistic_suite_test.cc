// Optimistic locking on every database that has a guard: two sessions, and many at once.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/mutex.h"
#include "holdfast/optimistic.h"
#include "tests/fence/database.h"

namespace holdfast::fence {
namespace {

using namespace std::chrono_literals;
using optimistic::Reading;

const optimistic::Row kAccount{.table = "account", .key = "42"};

class OptimisticTest : public ::testing::Test {
 protected:
  void SetUp() override {
    one_->run("DROP TABLE IF EXISTS account");
    one_->run(
        "CREATE TABLE account (id integer PRIMARY KEY, points integer, state varchar(9),"
        " version integer NOT NULL)");
    one_->run("INSERT INTO account VALUES (42, 1000, 'open', 0), (43, 7, 'open', 0)");
  }
  void TearDown() override {
    one_.reset();
    other_.reset();
  }

  struct Seen {
    int points = 0;
    std::int64_t version = 0;
  };
  static Seen look(Session& session, Reading reading = Reading::kPlain) {
    const Answer answer =
        session.execute(optimistic::read(database().dialect(), kAccount, {"points"}, reading));
    return {std::stoi(answer.row.at(0)), std::stoll(answer.row.at(1))};
  }
  static std::size_t write(Session& session, int points, std::int64_t version) {
    return session
        .execute(optimistic::update(database().dialect(), kAccount,
                                    {{"points", std::to_string(points)}}, version))
        .matched;
  }
  static const char* begin_writing() {
    return database().dialect() == sql::Dialect::kSqlite ? "BEGIN IMMEDIATE" : "BEGIN";
  }
  // One attempt to add a point.
  static Result<std::size_t> add_one(Session& session, Reading reading) {
    try {
      if (reading == Reading::kForUpdate) session.run(begin_writing());
      const Seen seen = look(session, reading);
      const std::size_t matched = write(session, seen.points + 1, seen.version);
      if (reading == Reading::kForUpdate) session.run("COMMIT");
      return matched;
    } catch (const std::runtime_error& problem) {
      return Error(Errc::kUnavailable, problem.what());
    }
  }

  std::unique_ptr<Session> one_ = database().connect();
  std::unique_ptr<Session> other_ = database().connect();
};

TEST_F(OptimisticTest, TheSecondWriterOfAVersionWritesNothing) {
  const Seen seen = look(*one_);
  EXPECT_EQ(look(*other_).version, seen.version);
  EXPECT_EQ(write(*one_, seen.points - 999, seen.version), 1U);
  EXPECT_EQ(write(*other_, seen.points + 100, seen.version), 0U);
  const Seen now = look(*other_);
  EXPECT_EQ(now.points, 1);
  EXPECT_EQ(write(*other_, now.points + 100, now.version), 1U);
  EXPECT_EQ(look(*one_).points, 101);
  EXPECT_EQ(one_->ask("SELECT points FROM account WHERE id = 43"), "7") << "another row";
}

// From a snapshot, the write matches no row or is a serialization failure.
TEST_F(OptimisticTest, ASnapshotDoesNotHideTheOtherWriter) {
  auto beginnings = database().beginnings();
  if (database().dialect() == sql::Dialect::kSqlite) {
    one_->run("PRAGMA journal_mode = WAL");  // Otherwise a reader keeps writers out.
    beginnings = {{"BEGIN"}};
  }
  for (const auto& beginning : beginnings) {
    for (const std::string& statement : beginning) other_->run(statement);
    const Seen seen = look(*other_);
    ASSERT_EQ(write(*one_, seen.points + 1, seen.version), 1U);
    std::size_t matched = 0;
    try {
      matched = write(*other_, 0, seen.version);
    } catch (const std::runtime_error&) {
    }
    EXPECT_EQ(matched, 0U) << beginning.front();
    other_->run("ROLLBACK");
    EXPECT_EQ(look(*one_).points, seen.points + 1) << beginning.front();
  }
}

TEST_F(OptimisticTest, OneOfManyMakesATransition) {
  const auto paid =
      optimistic::transition(database().dialect(), kAccount, "open", "paid", {{"points", "5"}});
  ASSERT_TRUE(paid.has_value());
  std::atomic<std::size_t> matched = 0;
  std::vector<std::jthread> payers;
  for (int i = 0; i < 8; ++i) {
    payers.emplace_back([&] { matched += database().connect()->execute(*paid).matched; });
  }
  payers.clear();
  EXPECT_EQ(matched, 1U);
  EXPECT_EQ(one_->ask("SELECT state FROM account WHERE id = 42"), "paid");
  EXPECT_EQ(one_->ask("SELECT state FROM account WHERE id = 43"), "open");
}

// With two tries, callers on one row go to its lock soon. There the first attempt writes, although
// others still come without the lock.
TEST_F(OptimisticTest, EveryCallerWritesUnderContention) {
  constexpr int kCallers = 8;
  constexpr int kCalls = 25;
  const auto client = Client::connect("memory:");
  ASSERT_TRUE(client.has_value());
  Mutex row_lock = client->mutex("account/42");
  std::atomic<int> lost = 0, under_lock = 0, failed = 0;
  std::vector<std::jthread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] {
      const auto session = database().connect();
      const auto attempt = [&](Reading reading) {
        auto matched = add_one(*session, reading);
        const bool wrote = matched && *matched == 1;
        if (reading == Reading::kForUpdate) (wrote ? under_lock : failed) += 1;
        return matched;
      };
      for (int call = 0; call < kCalls; ++call) {
        const auto done =
            optimistic::retry({.tries = 2, .first_pause = 1ms}, attempt, row_lock, {.wait = 60s});
        if (!done) ++lost;
      }
    });
  }
  callers.clear();
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(failed, 0) << "attempts under the lock";
  EXPECT_EQ(look(*one_).points, 1000 + kCallers * kCalls);
  EXPECT_EQ(look(*one_).version, kCallers * kCalls);
  RecordProperty("under_lock", under_lock);
}

}  // namespace
}  // namespace holdfast::fence
