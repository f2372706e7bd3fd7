// Two sessions of MariaDB that look for a row, find none, and insert it.
#include <stdexcept>

#include "lab/exhibits/scripts.h"

#ifdef HOLDFAST_LAB_HAVE_MARIADB
#include <mysql.h>

#include <barrier>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "holdfast/client.h"
#include "holdfast/mutex.h"
#include "holdfast/with_lock.h"
#include "tests/support/mariadb_server.h"

namespace holdfast::lab::scripts {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kDeadlock = 1213;  // ER_LOCK_DEADLOCK

class Mariadb {
 public:
  explicit Mariadb(const std::string& socket) : connection_(::mysql_init(nullptr), ::mysql_close) {
    if (::mysql_real_connect(connection_.get(), nullptr, "root", "", "test", 0, socket.c_str(),
                             0) == nullptr) {
      throw std::runtime_error(::mysql_error(connection_.get()));
    }
  }

  // Whether the query finds a row.
  bool ask(const std::string& sql) {
    send(sql);
    MYSQL_RES* rows = ::mysql_store_result(connection_.get());
    const bool found = rows != nullptr && ::mysql_num_rows(rows) > 0;
    ::mysql_free_result(rows);
    return found;
  }
  // false if the server chose this transaction to end a deadlock, and rolled it back.
  bool run(const std::string& sql) {
    return ::mysql_query(connection_.get(), sql.c_str()) == 0 || deadlocked(sql);
  }

 private:
  void send(const std::string& sql) {
    if (::mysql_query(connection_.get(), sql.c_str()) != 0) fail(sql);
  }
  bool deadlocked(const std::string& sql) {
    if (::mysql_errno(connection_.get()) != kDeadlock) fail(sql);
    return false;
  }
  [[noreturn]] void fail(const std::string& sql) {
    throw std::runtime_error(sql + ": " + ::mysql_error(connection_.get()));
  }

  std::unique_ptr<MYSQL, void (*)(MYSQL*)> connection_;
};

// [region: for-update-then-insert]
bool take(Mariadb& db, const std::string& name, const std::function<void()>& passes) {
  db.run("START TRANSACTION");  // REPEATABLE READ, which is the default
  const bool there = db.ask("SELECT owner FROM locks WHERE name = '" + name + "' FOR UPDATE");
  passes();
  const bool inserted = there || db.run("INSERT INTO locks VALUES ('" + name + "', 'me')");
  db.run("COMMIT");
  return inserted;
}
// [end]

}  // namespace

std::optional<std::string> no_mariadb() { return support::MariadbServer::unavailable(); }

Tally for_update_then_insert(Play& play) {
  constexpr int kRounds = 25;
  const support::MariadbServer server;
  Mariadb alice(server.socket_path()), bob(server.socket_path());
  alice.run("CREATE TABLE locks (name varchar(40) PRIMARY KEY, owner varchar(40))");
  const auto client = Client::connect(play.house().redis().url());
  if (!client) throw std::runtime_error(client.error().message());
  Tally tally;
  for (int round = 0; round < kRounds; ++round) {
    const std::string name = "job-" + std::to_string(round);
    std::barrier both(2);
    const auto session = [&](Mariadb& db) {
      if (!play.beside()) return take(db, name, [&] { both.arrive_and_wait(); });
      Mutex mutex = client->mutex(name);
      return with_lock(mutex, {.wait = 60s}, [&](Lease&) { return take(db, name, [] {}); }).value();
    };
    auto other = std::async(std::launch::async, [&] { return session(bob); });
    const bool first = session(alice);
    const bool second = other.get();
    ++tally.requests;
    if (!first || !second) ++tally.failed;
  }
  return tally;
}

}  // namespace holdfast::lab::scripts

#else

namespace holdfast::lab::scripts {

std::optional<std::string> no_mariadb() { return "this program was built without libmariadb"; }
Tally for_update_then_insert(Play&) { throw std::runtime_error(*no_mariadb()); }

}  // namespace holdfast::lab::scripts

#endif
