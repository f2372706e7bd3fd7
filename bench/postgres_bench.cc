// Locks on PostgreSQL against the raw limit of the same server: contest.h says how. LISTEN
// and NOTIFY stand for its watch and its deletion here.
//
// A bare pair: a transaction that inserts a row and one that deletes it, as prepared statements, on
// as many connections as are in flight, all driven by one thread. Both sides commit to the disk:
// HOLDFAST_BENCH_FOLDER names a folder on one; without it the data are where the tests have theirs,
// in memory as a rule, where a sync costs nothing.
#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <libpq-fe.h>

#include "bench/contest.h"
#include "bench/figures.h"
#include "tests/support/postgres_server.h"

namespace holdfast::bench {
namespace {

using support::PostgresServer;

struct Finish {
  void operator()(PGconn* connection) const { PQfinish(connection); }
};
using Connection = std::unique_ptr<PGconn, Finish>;

bool good(PGresult* result) {
  const ExecStatusType status = PQresultStatus(result);
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
    std::fprintf(stderr, "%s\n", PQresultErrorMessage(result));
  }
  PQclear(result);
  return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

Connection connect(const PostgresServer& server) {
  return Connection(PQconnectdb(server.connection_string().c_str()));
}

// Chains of insert and delete, driven by one thread.
class Pairs final : public RawPairs {
 public:
  Pairs(const PostgresServer& server, int in_flight) {
    server.sql("CREATE TABLE IF NOT EXISTS bare(name bytea PRIMARY KEY, owner bytea)");
    for (int i = 0; i < in_flight; ++i) {
      Chain& chain = chains_.emplace_back();
      chain.name = "bare/" + std::to_string(i);
      chain.connection = connect(server);
      PGconn* const to = chain.connection.get();
      good(PQexec(to, "SET synchronous_commit = on"));
      good(PQprepare(to, "i", "INSERT INTO bare VALUES ($1, $2)", 0, nullptr));
      good(PQprepare(to, "d", "DELETE FROM bare WHERE name = $1", 0, nullptr));
    }
  }

  double run(int pairs) override {
    left_ = pairs;
    running_ = 0;
    const auto begin = Clock::now();
    for (Chain& chain : chains_) insert(chain);
    std::vector<pollfd> sockets;
    for (const Chain& chain : chains_) {
      sockets.push_back({PQsocket(chain.connection.get()), POLLIN, 0});
    }
    while (running_ > 0) {
      ::poll(sockets.data(), sockets.size(), -1);
      for (std::size_t i = 0; i < sockets.size(); ++i) {
        if (sockets[i].revents != 0 && !go_on(chains_[i])) return 0;
      }
    }
    return pairs / seconds_since(begin);
  }

 private:
  struct Chain {
    std::string name;
    Connection connection;
    bool inserting = false;
  };

  void send(Chain& chain, const char* statement, int parameters) {
    const char* const values[] = {chain.name.c_str(), "an owner of some length, as locks have"};
    PQsendQueryPrepared(chain.connection.get(), statement, parameters, values, nullptr, nullptr, 0);
    ++running_;
  }
  void insert(Chain& chain) {
    if (left_ == 0) return;
    --left_;
    chain.inserting = true;
    send(chain, "i", 2);
  }
  bool go_on(Chain& chain) {
    PGconn* const from = chain.connection.get();
    if (PQconsumeInput(from) == 0) return false;
    if (PQisBusy(from) != 0) return true;
    while (PGresult* result = PQgetResult(from)) {
      if (!good(result)) return false;
    }
    --running_;
    if (chain.inserting) {
      chain.inserting = false;
      send(chain, "d", 1);
    } else {
      insert(chain);
    }
    return true;
  }

  std::vector<Chain> chains_;
  int left_ = 0;
  int running_ = 0;
};

// From before a NOTIFY is asked for to its arrival at a connection that listens.
class Watch final : public RawWatch {
 public:
  explicit Watch(const PostgresServer& server)
      : asks_(connect(server)), listens_(connect(server)) {
    good(PQexec(listens_.get(), "LISTEN bare"));
    good(PQprepare(asks_.get(), "r", "SELECT 1", 0, nullptr));
  }

  double deletion_us() override {
    const auto begin = Clock::now();
    PQsendQuery(asks_.get(), "NOTIFY bare");
    PGnotify* told = nullptr;
    while ((told = PQnotifies(listens_.get())) == nullptr) {
      pollfd socket{PQsocket(listens_.get()), POLLIN, 0};
      ::poll(&socket, 1, -1);
      if (PQconsumeInput(listens_.get()) == 0) return 0;
    }
    const double took = micros_since(begin);
    PQfreemem(told);
    while (PGresult* result = PQgetResult(asks_.get())) good(result);
    return took;
  }

  double round_trip_us() override {
    const auto begin = Clock::now();
    good(PQexecPrepared(asks_.get(), "r", 0, nullptr, nullptr, nullptr, 0));
    return micros_since(begin);
  }

 private:
  const Connection asks_;
  const Connection listens_;
};

support::PostgresOptions options() {
  support::PostgresOptions options;
  options.tcp = true;
  options.settings = {"fsync=on", "full_page_writes=on", "autovacuum=on", "max_connections=400",
                      "shared_buffers=128MB", "max_wal_size=1GB",
                      "shared_preload_libraries=pg_stat_statements"};
  const char* folder = std::getenv("HOLDFAST_BENCH_FOLDER");
  if (folder != nullptr) options.data_folder = std::string(folder) + "/data";
  return options;
}

class Postgres final : public Site {
 public:
  Postgres() { server_.sql("CREATE EXTENSION pg_stat_statements"); }

  pid_t process() const override { return 0; }  // It has one for each connection.
  std::string url(const std::string& query) const override {
    return "postgres://postgres@127.0.0.1:" + std::to_string(server_.port()) + "/postgres" +
           (query.empty() ? "" : "?ttl=6s");
  }
  std::unique_ptr<RawPairs> raw_pairs(int in_flight) override {
    return std::make_unique<Pairs>(server_, in_flight);
  }
  std::unique_ptr<RawWatch> raw_watch() override { return std::make_unique<Watch>(server_); }
  double requests() const override {
    return std::stod(server_.sql(
        "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query LIKE '%holdfast%'"));
  }

 private:
  const PostgresServer server_{options()};
};

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast;
  return bench::run_contest(argc, argv,
                            {.unavailable = support::PostgresServer::unavailable(),
                             .start = [] { return std::make_unique<bench::Postgres>(); },
                             .in_flight = {1, 16, 256},
                             .pairs_per_round = 2'000,
                             .alone_blocks = true});
}
