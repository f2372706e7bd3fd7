// A real MariaDB or MySQL server of a test program's own.
//
// The program is mariadbd from PATH or /usr/sbin, or what HOLDFAST_MARIADBD names, which may be a
// mysqld of MySQL 8. A test that asks for MySQL itself gets what HOLDFAST_MYSQLD names, a mysqld
// from PATH or /usr/sbin that is not MariaDB's, or what scripts/mysql-server has unpacked.
//
// Guarantee: it listens on a Unix socket in a folder of its own, and on a port of 127.0.0.1 if that
// is asked for, and it dies with the test, however that one ends. Not guaranteed: users and rights,
// unless they are asked for: without tables for them it is quick to set up, and lets everybody in
// with all rights. Nothing is synced, unless a setting says so.
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

namespace holdfast::support {

struct MariadbOptions {
  bool mysql = false;  // MySQL itself.
  bool tcp = false;
  bool users = false;                   // Tables of users and rights; root has no password.
  std::vector<std::string> settings{};  // "--name=value"; they come last.
  std::string data_folder{};            // Made by it; empty: in the folder of its own.
  std::string clock_shift_file{};       // A ClockShift's.
  // A replica, which only reads, of the server at this port of 127.0.0.1. That one needs --log-bin
  // and --server-id=1.
  std::uint16_t follows = 0;
};

class MariadbServer {
 public:
  static constexpr milliseconds kStart = 120s;

  // Why no server can be had here; nothing: it can.
  static std::optional<std::string> unavailable();
  static std::optional<std::string> mysql_unavailable();

  explicit MariadbServer(MariadbOptions options = {});
  ~MariadbServer();
  MariadbServer(const MariadbServer&) = delete;
  MariadbServer& operator=(const MariadbServer&) = delete;

  std::string socket_path() const { return folder_.file("sock"); }
  std::uint16_t port() const { return port_.number(); }
  // Through its socket, in the database test; `query` like "prefix=a_".
  std::string url(const std::string& query = {}) const;

  // Rows as the client shows them without headers; throws where the server refuses the statement.
  std::string sql(const std::string& statement) const;
  // Its own client for a user with all rights, in no database: it runs what it reads.
  std::vector<std::string> client() const;

  bool running() { return process_->running(); }
  pid_t pid() const { return process_->pid(); }
  void kill9() { process_->kill9(); }
  void terminate() { process_->terminate(kStart); }
  void pause() { process_->pause(); }
  void resume() { process_->resume(); }
  // After kill9() or terminate(): with the data of before.
  void start();
  // A replica follows no more, and takes writes.
  void promote() const { sql("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0"); }

 private:
  void follow() const;
  bool ready() const;
  std::string data() const;
  void install() const;
  void install_mysql() const;
  std::vector<std::string> arguments() const;
  void let_root_in_by_tcp() const;

  const MariadbOptions options_;
  const std::string program_;
  const bool is_mysql_;
  TempFolder folder_{"mariadb"};
  ReservedPort port_;
  std::unique_ptr<ChildProcess> process_;
};

// Skips the test loudly where there is no MariaDB; fails it where HOLDFAST_REQUIRE_MARIADB is set,
// so that a CI that should have one cannot pass without.
#define HOLDFAST_NEEDS_MARIADB()                                                \
  if (const auto why_not = ::holdfast::support::MariadbServer::unavailable()) { \
    if (std::getenv("HOLDFAST_REQUIRE_MARIADB") != nullptr) {                   \
      FAIL() << "no MariaDB: " << *why_not;                                     \
    }                                                                           \
    GTEST_SKIP() << "SKIPPED: no MariaDB: " << *why_not;                        \
  }

}  // namespace holdfast::support
