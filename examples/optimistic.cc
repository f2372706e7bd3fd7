// Two sessions read an account of 1,000 points. One spends 999, the other adds 100, and without any
// care 1,100 remain. Then each remedy of holdfast/optimistic.h, and a lock, leave the right number.
//
// It plays on a file of SQLite in a folder of its own, and ends with 0 only when all claims hold.
#include "holdfast/optimistic.h"

#include <sqlite3.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/holdfast.h"

namespace {

using namespace std::chrono_literals;
namespace optimistic = holdfast::optimistic;
using holdfast::Client;
using holdfast::Lease;
using holdfast::Mutex;
using holdfast::Result;
using optimistic::Reading;
using optimistic::Row;

constexpr auto kSqlite = optimistic::Dialect::kSqlite;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

// One connection to the database.
class Session {
 public:
  explicit Session(const std::string& path) {
    sqlite3* opened = nullptr;
    if (::sqlite3_open(path.c_str(), &opened) != SQLITE_OK) fail("cannot open " + path);
    db_.reset(opened);
    ::sqlite3_busy_timeout(opened, 60'000);
  }

  // The first row.
  std::vector<std::string> ask(const optimistic::Statement& statement) {
    sqlite3_stmt* prepared = nullptr;
    ::sqlite3_prepare_v2(db_.get(), statement.text.c_str(), -1, &prepared, nullptr);
    int parameter = 0;
    for (const std::string& value : statement.values) {
      ::sqlite3_bind_text(prepared, ++parameter, value.c_str(), -1, SQLITE_TRANSIENT);
    }
    std::vector<std::string> row;
    const int columns = ::sqlite3_column_count(prepared);
    int step = ::sqlite3_step(prepared);
    for (int i = 0; step == SQLITE_ROW && i < columns; ++i) {
      row.emplace_back(reinterpret_cast<const char*>(::sqlite3_column_text(prepared, i)));
    }
    if (step == SQLITE_ROW) step = ::sqlite3_step(prepared);
    ::sqlite3_finalize(prepared);
    if (step != SQLITE_DONE) fail(statement.text + ": " + ::sqlite3_errmsg(db_.get()));
    return row;
  }
  // How many rows it matched.
  std::size_t change(const optimistic::Statement& statement) {
    ask(statement);
    return static_cast<std::size_t>(::sqlite3_changes(db_.get()));
  }
  void run(const std::string& sql) { ask({sql, {}}); }

 private:
  struct Close {
    void operator()(sqlite3* db) const { ::sqlite3_close(db); }
  };
  std::unique_ptr<sqlite3, Close> db_;
};

// The other session does this while the first one thinks; once.
std::function<void()> meanwhile;

int sum_of(const std::string& seen, int points) {
  if (meanwhile) std::exchange(meanwhile, nullptr)();
  return std::stoi(seen) + points;
}

// --- No remedy.

// [region: lost-update]
void add_without_care(Session& db, int points) {
  const auto seen = db.ask({"SELECT points FROM account WHERE id = 42", {}});
  const int sum = sum_of(seen[0], points);
  db.run("UPDATE account SET points = " + std::to_string(sum) + " WHERE id = 42");
}
// [end]

// --- A version, retries, and at last the lock of the row.

// [region: points]
const Row kAccount{.table = "account", .key = "42"};

Result<void> add_points(Session& db, int points, Mutex& account) {
  auto attempt = [&](Reading reading) -> Result<std::size_t> {
    if (reading == Reading::kForUpdate) db.run("BEGIN IMMEDIATE");
    const auto seen = db.ask(optimistic::read(kSqlite, kAccount, {"points"}, reading));
    const std::string sum = std::to_string(sum_of(seen[0], points));
    const auto write = optimistic::update(kSqlite, kAccount, {{"points", sum}},
                                          /*version=*/std::stoll(seen[1]));
    const std::size_t matched = db.change(write);
    if (reading == Reading::kForUpdate) db.run("COMMIT");
    return matched;  // 0: somebody else wrote meanwhile
  };
  return optimistic::retry({.tries = 5}, attempt, account, {.wait = 10s});
}
// [end]

// --- A state.

// [region: payment]
// Whether this session is the one that pays.
Result<bool> pay(Session& db, const std::string& payment) {
  const Row row{.table = "payment", .key = payment};
  const auto paid = optimistic::transition(kSqlite, row, "open", "paid");
  if (!paid) return paid.error();
  return db.change(*paid) == 1;
}
// [end]

// --- A lock, which every writer has to take.

// [region: mutex]
Result<void> add_under_lock(Session& db, int points, Mutex& account) {
  return holdfast::with_lock(account, {.wait = 10s}, [&](Lease&) { add_without_care(db, points); });
}
// [end]

class Stage {
 public:
  Stage() : client_(Client::connect("memory:")) {
    std::string folder = "/tmp/holdfast-optimistic-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) fail("cannot make a folder in /tmp");
    folder_ = folder;
    Session db = session();
    db.run(
        "CREATE TABLE account (id integer PRIMARY KEY, points integer,"
        " version integer NOT NULL DEFAULT 0)");
    db.run("INSERT INTO account (id, points) VALUES (42, 1000)");
    db.run("CREATE TABLE payment (id integer PRIMARY KEY, state text)");
    db.run("INSERT INTO payment VALUES (7, 'open')");
  }
  ~Stage() { std::filesystem::remove_all(folder_); }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  Session session() const { return Session(folder_ / "points.db"); }
  Mutex account() { return client_->mutex("account/42"); }

  void begin_with(int points) {
    session().run("UPDATE account SET points = " + std::to_string(points));
  }
  void expect(int points, const char* remedy) {
    const auto seen = session().ask({"SELECT points FROM account", {}});
    std::printf("%-36s %s points\n", remedy, seen[0].c_str());
    if (std::stoi(seen[0]) != points) fail("expected " + std::to_string(points));
  }

 private:
  Result<Client> client_;
  std::filesystem::path folder_;
};

void succeed(const Result<void>& answer) {
  if (!answer) fail(answer.error().message());
}

void play_two_sessions(Stage& stage) {
  Session alice = stage.session(), bob = stage.session();
  Mutex account = stage.account();

  // Bob has read the account, then alice spends 999, then bob writes.
  meanwhile = [&] { add_without_care(alice, -999); };
  add_without_care(bob, 100);
  stage.expect(1100, "without care");

  stage.begin_with(1000);
  meanwhile = [&] { succeed(add_points(alice, -999, account)); };
  succeed(add_points(bob, 100, account));
  stage.expect(101, "a version and a retry");

  // Alice has to wait for bob's lock, so she cannot come between: she comes from a thread.
  stage.begin_with(1000);
  std::jthread waiting;
  meanwhile = [&] {
    waiting = std::jthread([&] { succeed(add_under_lock(alice, -999, account)); });
  };
  succeed(add_under_lock(bob, 100, account));
  waiting.join();
  stage.expect(101, "a lock");

  const auto first = pay(alice, "7");
  const auto second = pay(bob, "7");
  if (!first || !second || !*first || *second) fail("a payment is made once");
  std::printf("%-36s paid by one of two\n", "a state");
}

// All callers want one row: after five failures a caller queues for its lock.
void play_contention(Stage& stage) {
  stage.begin_with(0);
  std::vector<std::jthread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      Session db = stage.session();
      Mutex account = stage.account();
      for (int call = 0; call < 20; ++call) succeed(add_points(db, 1, account));
    });
  }
  callers.clear();
  stage.expect(8 * 20, "eight callers, 20 times one point");
}

}  // namespace

int main() {
  Stage stage;
  play_two_sessions(stage);
  play_contention(stage);
}
