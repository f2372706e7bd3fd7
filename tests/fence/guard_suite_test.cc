// Facts that hold for the guard of every database.
#include <atomic>
#include <cstdint>
#include <map>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "holdfast/fence/fence.h"
#include "tests/fence/database.h"
#include "tests/fence/zombie_scene.h"

namespace holdfast::fence {
namespace {

constexpr Token kFive{0, 5};
constexpr Token kSix{0, 6};
const std::string kStock = "stock";

class FenceGuardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    one_->run("DROP TABLE IF EXISTS holdfast_fence");
    one_->run("DROP TABLE IF EXISTS stock");
    one_->run("CREATE TABLE stock (id integer PRIMARY KEY, items integer)");
    one_->run("INSERT INTO stock VALUES (1, 0)");
    const auto made = one_->create_table();
    ASSERT_TRUE(made.has_value()) << made.error().message();
    other_->be_impatient();
  }
  // A test that fails leaves its transactions open, and their locks.
  void TearDown() override {
    one_.reset();
    other_.reset();
  }

  static void begin(Session& session) {
    const auto beginnings = database().beginnings();
    for (const std::string& statement : beginnings.front()) session.run(statement);
  }
  static void roll_back_if_open(Session& session) {
    try {
      session.run("ROLLBACK");
    } catch (const std::runtime_error&) {
    }
  }
  static Errc refused(const Result<void>& answer) {
    return answer ? Errc{} : answer.error().code();
  }
  // The result of one call in a transaction of its own.
  Errc call(const Token& token, const Mode& mode = Mode::exclusive(),
            const std::string& resource = kStock) {
    begin(*one_);
    const auto answer = one_->guard(resource, token, mode);
    one_->run(answer ? "COMMIT" : "ROLLBACK");
    return refused(answer);
  }
  void remember(const Token& token) { ASSERT_EQ(call(token), Errc{}); }
  std::string items() { return one_->ask("SELECT items FROM stock WHERE id = 1"); }
  static std::string write_of(int items) {
    return "UPDATE stock SET items = " + std::to_string(items) + " WHERE id = 1";
  }

  std::unique_ptr<Session> one_ = database().connect();
  std::unique_ptr<Session> other_ = database().connect();
};

TEST_F(FenceGuardTest, RefusesTheLateWriteOfAZombie) {
  play_zombie_scene(
      [&](const Token& token, int items) {
        begin(*one_);
        auto guarded = one_->guard(kStock, token);
        if (guarded) one_->run(write_of(items));
        one_->run(guarded ? "COMMIT" : "ROLLBACK");
        return guarded;
      },
      [&] { return std::stoi(items()); });
}

TEST_F(FenceGuardTest, RefusesTheLateWriteOfAZombieByAColumnOfItsRow) {
  one_->run("ALTER TABLE stock ADD COLUMN " + sql::column(database().dialect(), "fence_token"));
  play_zombie_scene(
      [&](const Token& token, int items) -> Result<void> {
        const std::string mine = "'" + token.to_string() + "'";
        const auto rows =
            one_->change("UPDATE stock SET items = " + std::to_string(items) +
                         ", fence_token = " + mine + " WHERE id = 1 AND fence_token <= " + mine);
        if (rows == 1) return {};
        return Error(Errc::kLost, "no row was updated");
      },
      [&] { return std::stoi(items()); });
}

TEST_F(FenceGuardTest, IsAnErrorOutsideOfATransaction) {
  const auto answer = one_->guard(kStock, kFive);
  ASSERT_EQ(refused(answer), Errc::kInvalidArgument);
  EXPECT_NE(answer.error().message().find("no open transaction"), std::string::npos);
  EXPECT_EQ(one_->ask("SELECT count(*) FROM holdfast_fence"), "0");
}

TEST_F(FenceGuardTest, AgreesWithTheRuleInAnyOrderOfCalls) {
  std::mt19937 dice(20261121);
  std::map<std::string, Token> recorded;
  for (int i = 0; i < 400; ++i) {
    const std::string resource = dice() % 2 == 0 ? "a" : "b";
    const Token token{static_cast<std::uint32_t>(dice() % 2), dice() % 9};
    const Mode mode = dice() % 3 == 0 ? Mode::shared() : Mode::exclusive();
    const auto expected = admit(recorded[resource], token, mode);
    const Errc code = call(token, mode, resource);
    ASSERT_EQ(code, expected ? Errc{} : expected.error().code())
        << "call " << i << ": " << token.to_string() << " on " << recorded[resource].to_string();
    if (expected) recorded[resource] = *expected;
  }
}

TEST_F(FenceGuardTest, ComparesTokensAsWholesHoweverLarge) {
  const Token large{0, 9007199254740993ULL};
  const Token below{0, 9007199254740992ULL};  // The same number, to whoever counts in doubles.
  remember(large);
  EXPECT_EQ(call(below), Errc::kLost);
  remember(Token{0, ~0ULL});
  remember(Token{1, 1});
  EXPECT_EQ(call(Token{0, ~0ULL}), Errc::kLost);
}

TEST_F(FenceGuardTest, ANewerHolderWaitsForTheOpenTransactionOfAnOlderOne) {
  begin(*one_);
  ASSERT_EQ(refused(one_->guard(kStock, kFive)), Errc{});
  one_->run(write_of(5));

  // It has passed the check, and may be a zombie by now: nobody gets between that and its commit.
  try {
    begin(*other_);
    EXPECT_EQ(refused(other_->guard(kStock, kSix)), Errc::kUnavailable);
    other_->run("ROLLBACK");
  } catch (const std::runtime_error&) {  // SQLite lets nobody begin.
    EXPECT_EQ(database().dialect(), sql::Dialect::kSqlite);
  }
  one_->run("COMMIT");

  begin(*other_);
  ASSERT_EQ(refused(other_->guard(kStock, kSix)), Errc{});
  other_->run(write_of(6));
  other_->run("COMMIT");
  EXPECT_EQ(call(kFive), Errc::kLost);
  EXPECT_EQ(items(), "6");
}

TEST_F(FenceGuardTest, AnOldSnapshotIsNeverAdmittedAtAnyIsolationLevel) {
  remember(kFive);
  for (const auto& beginning : database().beginnings()) {
    SCOPED_TRACE(beginning.front());
    one_->run("UPDATE holdfast_fence SET token = '" + kFive.to_string() + "'");
    try {
      for (const std::string& statement : beginning) one_->run(statement);
      ASSERT_EQ(items(), "0");  // From here on its snapshot is old.
      begin(*other_);
      ASSERT_EQ(refused(other_->guard(kStock, kSix)), Errc{});
      other_->run("COMMIT");
    } catch (const std::runtime_error&) {  // The one keeps the other from beginning, or committing.
      EXPECT_EQ(database().dialect(), sql::Dialect::kSqlite);
      one_->run("ROLLBACK");
      roll_back_if_open(*other_);
      continue;
    }
    const Errc code = refused(one_->guard(kStock, kFive));
    EXPECT_TRUE(code == Errc::kLost || code == Errc::kUnavailable) << static_cast<int>(code);
    one_->run("ROLLBACK");
    EXPECT_EQ(call(kFive), Errc::kLost);
  }
}

// One holder's write in a transaction of its own, which takes the next place in the journal.
Result<void> write_journal(Session& session, const std::vector<std::string>& beginning,
                           const Token& token) {
  for (const std::string& statement : beginning) session.run(statement);
  auto guarded = session.guard(kStock, token);
  if (guarded) {
    session.run("UPDATE stock SET items = items + 1 WHERE id = 1");
    const std::string place = session.ask("SELECT items FROM stock WHERE id = 1");
    session.run("INSERT INTO journal VALUES (" + place + ", '" + token.to_string() + "')");
  }
  session.run(guarded ? "COMMIT" : "ROLLBACK");
  return guarded;
}

TEST_F(FenceGuardTest, ManyHoldersCommitInTheOrderOfTheirTokens) {
  one_->run("DROP TABLE IF EXISTS journal");
  one_->run("CREATE TABLE journal (place integer PRIMARY KEY, token char(31))");
  const auto beginning = database().beginnings().front();
  std::atomic<std::uint64_t> last = 0;
  std::atomic<int> accepted = 0;
  std::vector<std::thread> holders;
  for (int i = 0; i < 4; ++i) {
    holders.emplace_back([&] {
      const auto session = database().connect();
      for (int write = 0; write < 25; ++write) {
        const Token token{0, ++last};
        auto written = write_journal(*session, beginning, token);
        while (!written && written.error().code() == Errc::kUnavailable) {  // Deadlock: once more.
          written = write_journal(*session, beginning, token);
        }
        if (written) ++accepted;
        EXPECT_TRUE(written || written.error().code() == Errc::kLost) << written.error().message();
      }
    });
  }
  for (std::thread& holder : holders) holder.join();
  EXPECT_EQ(one_->ask("SELECT count(*) FROM journal"), std::to_string(accepted));
  EXPECT_EQ(one_->ask("SELECT count(*) FROM journal a JOIN journal b ON a.place < b.place"
                      " WHERE a.token >= b.token"),
            "0");
  EXPECT_EQ(one_->ask("SELECT token FROM holdfast_fence"), (Token{0, 100}).to_string())
      << "the last one is never refused";
}

TEST_F(FenceGuardTest, WhatIsRolledBackWasNeverRecorded) {
  remember(kFive);
  begin(*one_);
  ASSERT_EQ(refused(one_->guard(kStock, kSix)), Errc{});
  one_->run("ROLLBACK");
  EXPECT_EQ(call(kFive), Errc{});
}

TEST_F(FenceGuardTest, SharedHoldersPassTogetherAndHoldOffTheNextWriter) {
  remember(kFive);
  begin(*one_);
  ASSERT_EQ(refused(one_->guard(kStock, kSix, Mode::shared())), Errc{});
  if (database().shared_locks()) {
    begin(*other_);
    EXPECT_EQ(refused(other_->guard(kStock, Token{0, 7}, Mode::shared())), Errc{});
    other_->run("ROLLBACK");
    begin(*other_);
    EXPECT_EQ(refused(other_->guard(kStock, Token{0, 8})), Errc::kUnavailable);
    other_->run("ROLLBACK");
  }
  one_->run("COMMIT");
  EXPECT_EQ(call(Token{0, 8}), Errc{});
  EXPECT_EQ(call(kSix, Mode::shared()), Errc::kLost);
}

TEST_F(FenceGuardTest, TheFirstSharedHolderHoldsOffWriters) {
  begin(*one_);
  ASSERT_EQ(refused(one_->guard(kStock, kFive, Mode::shared())), Errc{});
  if (database().shared_locks()) {  // SQLite's snapshots have a test of their own.
    begin(*other_);
    EXPECT_EQ(refused(other_->guard(kStock, kSix)), Errc::kUnavailable);
    other_->run("ROLLBACK");
  }
  one_->run("COMMIT");
  EXPECT_EQ(call(kSix), Errc{}) << "what it left is below every token";
}

TEST_F(FenceGuardTest, PermitsAndNoTokenAndNoNameAreRefusedBeforeTheDatabaseIsAsked) {
  begin(*one_);
  EXPECT_EQ(refused(one_->guard(kStock, kFive, Mode::permits(1, 2))), Errc::kUnsupported);
  EXPECT_EQ(refused(one_->guard(kStock, Token{})), Errc::kInvalidArgument);
  EXPECT_EQ(refused(one_->guard("", kFive)), Errc::kInvalidArgument);
  EXPECT_EQ(refused(one_->guard(std::string("a\0b", 3), kFive)), Errc::kInvalidArgument);
  EXPECT_EQ(refused(one_->guard(kStock, kFive)), Errc{}) << "the transaction goes on";
  one_->run("COMMIT");
}

TEST_F(FenceGuardTest, AMissingTableIsNamedWithItsRemedy) {
  one_->run("DROP TABLE holdfast_fence");
  begin(*one_);
  const auto answer = one_->guard(kStock, kFive);
  ASSERT_EQ(refused(answer), Errc::kInvalidArgument) << answer.error().message();
  EXPECT_NE(answer.error().message().find("create_table"), std::string::npos);
  one_->run("ROLLBACK");
}

TEST_F(FenceGuardTest, MakingTheTableAgainChangesNothing) {
  remember(kSix);
  EXPECT_EQ(refused(one_->create_table()), Errc{});
  EXPECT_EQ(call(kFive), Errc::kLost);
}

TEST_F(FenceGuardTest, TheTableTakesNothingButTokens) {
  for (const char* text : {"", "5", "zzz", "0000000000.0000000000000000000a"}) {
    EXPECT_THROW(one_->run("INSERT INTO holdfast_fence VALUES ('x', '" + std::string(text) + "')"),
                 std::runtime_error)
        << text;
  }
}

// Only where the table is another than create_table() makes. Text below every token is overwritten
// by the token of a grant; nothing else is ever compared with one.
TEST_F(FenceGuardTest, ARecordThatIsNoTokenIsNotTakenForOne) {
  for (const std::string& statement : database().without_check()) one_->run(statement);
  for (const std::string text : {"", "0000000000.9", "5", "zzz"}) {
    for (const Mode& mode : {Mode::exclusive(), Mode::shared()}) {
      one_->run("DELETE FROM holdfast_fence");
      one_->run("INSERT INTO holdfast_fence VALUES ('stock', '" + text + "')");
      const bool overwritten = mode == Mode::exclusive() && text < kFive.to_string();
      EXPECT_EQ(call(kFive, mode), overwritten ? Errc{} : Errc::kCorruptState)
          << "'" << text << "'";
    }
  }
}

TEST_F(FenceGuardTest, NamesOfResourcesAreBytes) {
  const std::vector<std::string> names = {"a",
                                          "A",
                                          "a ",
                                          "a'b",
                                          "a\"b",
                                          "a\\b",
                                          "a%b",
                                          "a\\'; --",
                                          "\xc3\xa4",
                                          "\xc3\x84",
                                          std::string(256, 'x')};
  std::uint64_t counter = 1;
  for (const std::string& name : names) {
    EXPECT_EQ(call(Token{0, ++counter}, Mode::exclusive(), name), Errc{}) << name;
  }
  EXPECT_EQ(one_->ask("SELECT count(*) FROM holdfast_fence"), std::to_string(names.size()));
  counter = 1;
  for (const std::string& name : names) {
    EXPECT_EQ(call(Token{0, counter++}, Mode::exclusive(), name), Errc::kLost) << name;
  }
}

}  // namespace
}  // namespace holdfast::fence
