// An advisory lock of PostgreSQL behind a pooler.
#include <stdexcept>

#include "lab/exhibits/mistakes.h"
#include "lab/exhibits/scripts.h"

#ifdef HOLDFAST_LAB_HAVE_POSTGRES
#include <memory>
#include <thread>

#include <libpq-fe.h>

#include "tests/support/pgbouncer.h"
#include "tests/support/postgres_server.h"

#include "lab/exhibits/mistake.h"

namespace holdfast::lab {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds kStart{60};

class Postgres {
 public:
  explicit Postgres(const std::string& url) : connection_(::PQconnectdb(url.c_str()), ::PQfinish) {
    if (!connected()) throw std::runtime_error(::PQerrorMessage(connection_.get()));
  }

  bool connected() const { return ::PQstatus(connection_.get()) == CONNECTION_OK; }
  // Whether the query answers true.
  bool is_true(const std::string& sql, const std::string& value) {
    const char* const values[] = {value.c_str()};
    const std::unique_ptr<PGresult, void (*)(PGresult*)> answer(
        ::PQexecParams(connection_.get(), sql.c_str(), 1, nullptr, values, nullptr, nullptr, 0),
        ::PQclear);
    if (::PQresultStatus(answer.get()) != PGRES_TUPLES_OK) {
      throw std::runtime_error(::PQerrorMessage(connection_.get()));
    }
    return ::PQgetvalue(answer.get(), 0, 0)[0] == 't';
  }

 private:
  std::unique_ptr<PGconn, void (*)(PGconn*)> connection_;
};

class AdvisoryLock : public Mistake {
 public:
  explicit AdvisoryLock(const SubjectSetup& setup) : Mistake(setup), postgres_(setup.urls.at(0)) {}

  // [region: advisory-behind-pooler]
  bool take(const Ask& ask, Held&) override {
    return postgres_.is_true("SELECT pg_try_advisory_lock(hashtext($1))", ask.name);
  }
  bool give_back(const Held& held) override {
    return postgres_.is_true("SELECT pg_advisory_unlock(hashtext($1))", held.name);
  }
  // [end]

 private:
  Postgres postgres_;
};

void wait_until_open(const std::string& url) {
  const auto until = std::chrono::steady_clock::now() + kStart;
  while (::PQping(url.c_str()) != PQPING_OK) {
    if (std::chrono::steady_clock::now() > until) {
      throw std::runtime_error("pgbouncer does not start");
    }
    sleep_for(5ms);
  }
}

}  // namespace

SubjectKind advisory_lock() {
  return mistake<AdvisoryLock>("advisory-lock", "a lock of a database session");
}

namespace scripts {

std::optional<std::string> no_pooler() {
  if (auto why = support::PostgresServer::unavailable()) return why;
  return support::Pgbouncer::unavailable();
}

void advisory_behind_pooler(Play& play) {
  const support::PostgresServer server({.tcp = true});
  const support::Pgbouncer pooler(server.port());
  const std::string url =
      "postgres://postgres@127.0.0.1:" + std::to_string(pooler.port()) + "/postgres";
  wait_until_open(url);
  Player& alice = play.player("alice", advisory_lock(), {url});
  Player& bob = play.player("bob", advisory_lock(), {url});
  alice.acquire(5s);
  bob.acquire(5s);
  sleep_for(60ms);
  alice.write();
  bob.write();
  bob.release();
  alice.release();
}

}  // namespace scripts
}  // namespace holdfast::lab

#else

namespace holdfast::lab::scripts {

std::optional<std::string> no_pooler() {
  return "this program was built without the PostgreSQL store";
}
void advisory_behind_pooler(Play&) { throw std::runtime_error(*no_pooler()); }

}  // namespace holdfast::lab::scripts

#endif
