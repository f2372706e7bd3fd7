// A real PostgreSQL server of a test program's own.
//
// The programs are those in HOLDFAST_POSTGRES_BIN, else of the newest version in
// /usr/lib/postgresql, else from PATH. As root it runs as the user postgres (or nobody), which it
// insists on.
//
// Guarantee: it listens on a Unix socket in a folder of its own, and on a port of 127.0.0.1 if that
// is asked for, and it goes with the test, however that one ends. Not guaranteed: anything about
// data after a crash of the machine: nothing is synced, which makes it quick.
//
// Thread-safety: one thread at a time. Blocking: the constructor and start(), until the server is
// ready; kStart at most. Errors: std::runtime_error, with the end of the server's log.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/loopback.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tls_files.h"

namespace holdfast::support {

struct PostgresOptions {
  bool tcp = false;
  bool passwords = false;               // Asked for over TCP.
  std::vector<std::string> settings{};  // "name=value"
  std::string data_folder{};            // Made by it; empty: in the folder of its own.
  std::optional<KeyPair> tls{};
  std::string clock_shift_file{};       // A ClockShift's.
  std::uint16_t follows = 0;            // An asynchronous replica of the server at that port.
};

class PostgresServer {
 public:
  static constexpr milliseconds kStart = 120s;  // A machine may stand still for a while.

  // Why no server can be had here; nothing: it can.
  static std::optional<std::string> unavailable();

  explicit PostgresServer(PostgresOptions options = {});
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  // For PQconnectdb: as a user with all rights, or as `user`.
  std::string connection_string(const std::string& user = "postgres") const;
  // Through its socket; `query` like "schema=a".
  std::string url(const std::string& query = {}) const;
  std::uint16_t port() const { return port_.number(); }

  // Rows as psql shows them without headers; throws where the server refuses the statement.
  std::string sql(const std::string& statement) const;
  // Its own client for a user with all rights: it runs what it reads.
  std::vector<std::string> client() const;

  bool running() { return process_->running(); }
  pid_t pid() const { return process_->pid(); }
  void kill9();
  void terminate();
  void pause() { process_->pause(); }  // All its processes.
  void resume() { process_->resume(); }
  // After kill9() or terminate(): with the data of before.
  void start();
  // A replica becomes a primary; returns when it takes writes.
  void promote() const { sql("SELECT pg_promote(true, 60)"); }

 private:
  std::string data() const;
  void make_data() const;
  std::vector<std::string> command() const;
  bool ready() const;

  PostgresOptions options_;
  TempFolder folder_{"postgres"};
  ReservedPort port_;
  std::unique_ptr<ChildProcess> process_;
};

// Skips the test loudly where there is no PostgreSQL; fails it where HOLDFAST_REQUIRE_POSTGRES is
// set, so that a CI that should have one cannot pass without.
#define HOLDFAST_NEEDS_POSTGRES()                                                \
  if (const auto why_not = ::holdfast::support::PostgresServer::unavailable()) { \
    if (std::getenv("HOLDFAST_REQUIRE_POSTGRES") != nullptr) {                   \
      FAIL() << "no PostgreSQL: " << *why_not;                                   \
    }                                                                            \
    GTEST_SKIP() << "SKIPPED: no PostgreSQL: " << *why_not;                      \
  }

}  // namespace holdfast::support
