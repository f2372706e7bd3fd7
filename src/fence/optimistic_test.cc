// The statements' words, and when a retry ends.
#include "holdfast/optimistic.h"

#include <chrono>
#include <deque>
#include <stdexcept>

#include <gtest/gtest.h>

namespace holdfast::optimistic {
namespace {

using namespace std::chrono_literals;
using Values = std::vector<std::string>;

const Row kAccount{.table = "account", .key = "42"};
const RetryPolicy kQuick{.tries = 3, .first_pause = 0ms, .longest_pause = 0ms};

TEST(OptimisticStatementTest, AnUpdateComparesAndRaisesTheVersion) {
  const auto mysql = update(Dialect::kMySql, kAccount, {{"points", "1"}, {"name", "ann"}}, 7);
  EXPECT_EQ(mysql.text,
            "UPDATE account SET points = ?, name = ?, version = version + 1"
            " WHERE id = ? AND version = ?");
  EXPECT_EQ(mysql.values, (Values{"1", "ann", "42", "7"}));
  const auto postgres = update(Dialect::kPostgres, kAccount, {{"points", "1"}}, 7);
  EXPECT_EQ(postgres.text,
            "UPDATE account SET points = $1, version = version + 1 WHERE id = $2 AND version = $3");
}

TEST(OptimisticStatementTest, ARowHasTheColumnsThatItNames) {
  const Row row{.table = "a.b", .key = "x", .key_column = "code", .version_column = "edition"};
  EXPECT_EQ(update(Dialect::kSqlite, row, {}, -1).text,
            "UPDATE a.b SET edition = edition + 1 WHERE code = ? AND edition = ?");
}

TEST(OptimisticStatementTest, AReadEndsWithTheVersion) {
  EXPECT_EQ(read(Dialect::kPostgres, kAccount, {"points", "name"}),
            (Statement{"SELECT points, name, version FROM account WHERE id = $1", {"42"}}));
  EXPECT_EQ(read(Dialect::kMySql, kAccount, {}, Reading::kForUpdate).text,
            "SELECT version FROM account WHERE id = ? FOR UPDATE");
  EXPECT_EQ(read(Dialect::kSqlite, kAccount, {}, Reading::kForUpdate).text,
            "SELECT version FROM account WHERE id = ?");
}

TEST(OptimisticStatementTest, ATransitionComparesTheState) {
  const auto paid = transition(Dialect::kPostgres, {.table = "payment", .key = "9"}, "open", "paid",
                               {{"receipt", "r1"}}, "status");
  ASSERT_TRUE(paid.has_value());
  EXPECT_EQ(*paid, (Statement{"UPDATE payment SET status = $1, receipt = $2"
                              " WHERE id = $3 AND status = $4",
                              {"paid", "r1", "9", "open"}}));
}

TEST(OptimisticStatementTest, ATransitionToTheSameStateIsRefused) {
  const auto answer = transition(Dialect::kSqlite, kAccount, "open", "open");
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code(), Errc::kInvalidArgument);
}

// An attempt that answers from a list, and notes how it was asked to read.
class Attempts {
 public:
  explicit Attempts(std::deque<Result<std::size_t>> answers) : answers_(std::move(answers)) {}

  Attempt call() {
    return [this](Reading reading) {
      if (answers_.empty()) throw std::logic_error("one attempt too many");
      readings.push_back(reading);
      auto next = answers_.front();
      answers_.pop_front();
      return next;
    };
  }
  std::vector<Reading> readings;

 private:
  std::deque<Result<std::size_t>> answers_;
};

Error busy() { return {Errc::kUnavailable, "deadlock"}; }

TEST(OptimisticRetryTest, RepeatsUntilOneRowIsWritten) {
  Attempts attempts({0, busy(), 1});
  EXPECT_TRUE(retry(kQuick, attempts.call()).has_value());
  EXPECT_EQ(attempts.readings.size(), 3U);
}

TEST(OptimisticRetryTest, EndsAfterAllTries) {
  Attempts attempts({0, 0, busy()});
  const auto answer = retry(kQuick, attempts.call());
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code(), Errc::kUnavailable);
  EXPECT_NE(answer.error().message().find("3 tries (deadlock)"), std::string::npos)
      << answer.error().message();
}

// The first write may be there: a second one would add the points twice.
TEST(OptimisticRetryTest, AnUnknownOutcomeIsNotRepeated) {
  Attempts attempts({Error(Errc::kOutcomeUnknown, "the reply to COMMIT was lost")});
  const auto answer = retry(kQuick, attempts.call());
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code(), Errc::kOutcomeUnknown);
}

TEST(OptimisticRetryTest, SeveralRowsAreTheCallersMistake) {
  Attempts attempts({2});
  const auto answer = retry(kQuick, attempts.call());
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code(), Errc::kInvalidArgument);
  EXPECT_FALSE(retry({.tries = 0}, attempts.call()).has_value()) << "no try at all";
}

// A lock that notes what is done to it.
struct Lock {
  struct Held {
    Lock* lock;
    Result<void> release() {
      ++lock->released;
      return lock->release_answer;
    }
  };
  Result<Held> acquire(AcquireOptions options) {
    waited = options.wait;
    if (!acquire_answer) return acquire_answer.error();
    return Held{this};
  }

  Result<void> acquire_answer{};
  Result<void> release_answer{};
  std::optional<std::chrono::milliseconds> waited{};
  int released = 0;
};

TEST(OptimisticEscalationTest, TakesTheLockOnlyAfterTheLastFailure) {
  Lock lock;
  Attempts lucky({0, 1});
  EXPECT_TRUE(retry(kQuick, lucky.call(), lock, {.wait = 1s}).has_value());
  EXPECT_EQ(lock.released, 0);

  Attempts attempts({0, 0, 0, 1});
  EXPECT_TRUE(retry(kQuick, attempts.call(), lock, {.wait = 1s}).has_value());
  EXPECT_EQ(lock.released, 1);
  EXPECT_EQ(lock.waited, 1s);
  ASSERT_EQ(attempts.readings.size(), 4U);
  EXPECT_EQ(attempts.readings[2], Reading::kPlain);
  EXPECT_EQ(attempts.readings[3], Reading::kForUpdate);
}

TEST(OptimisticEscalationTest, WithoutTheLockNothingIsWritten) {
  Lock lock{.acquire_answer = Error(Errc::kTimedOut, "held elsewhere")};
  Attempts attempts({0, 0, 0});
  const auto answer = retry(kQuick, attempts.call(), lock, {});
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code(), Errc::kTimedOut);
}

// The version decided about the write. "Lost" would make the caller add the points again.
TEST(OptimisticEscalationTest, AWriteStandsAlsoWhenTheLockWasLost) {
  Lock lock{.release_answer = Error(Errc::kLost, "expired")};
  Attempts attempts({0, 0, 0, 1});
  EXPECT_TRUE(retry(kQuick, attempts.call(), lock, {}).has_value());
}

TEST(OptimisticEscalationTest, AnErrorThatIsNoContentionDoesNotTakeTheLock) {
  Lock lock;
  Attempts attempts({Error(Errc::kPermissionDenied, "no")});
  EXPECT_FALSE(retry(kQuick, attempts.call(), lock, {}).has_value());
  EXPECT_EQ(lock.released, 0);
}

TEST(OptimisticPauseTest, GrowsToItsLimitAndIsRandom) {
  const RetryPolicy policy{.tries = 9, .first_pause = 10ms, .longest_pause = 35ms};
  for (const auto& [failures, most] : {std::pair{1, 10ms}, {2, 20ms}, {3, 35ms}, {90, 35ms}}) {
    std::chrono::nanoseconds longest{0}, shortest{most};
    for (int i = 0; i < 1000; ++i) {
      const auto pause = pause_after(policy, failures);
      longest = std::max(longest, pause);
      shortest = std::min(shortest, pause);
    }
    EXPECT_LE(longest, most);
    EXPECT_GT(longest, most * 9 / 10);
    EXPECT_LT(shortest, most / 10) << "full jitter begins at zero";
  }
  EXPECT_EQ(pause_after({.first_pause = 0ms}, 5), 0ns);
  EXPECT_EQ(pause_after({.longest_pause = 0ms}, 5), 0ns);
}

}  // namespace
}  // namespace holdfast::optimistic
