// A real PostgreSQL server of a test program's own.
//
// The programs are those in HOLDFAST_POSTGRES_BIN, else of the newest version in
// /usr/lib/postgresql, else from PATH. As root it runs as the user postgres (or nobody), which it
// insists on.
//
// Guarantee: it listens on a Unix socket in a folder of its own and nowhere else, and it goes with
// the test, however that one ends. Not guaranteed: anything about data after a crash: nothing is
// synced, which makes it quick.
//
// Thread-safety: one thread at a time. Blocking: the constructor, until the server is ready; kStart
// at most. Errors: std::runtime_error, with the end of the server's log.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tests/support/child_process.h"
#include "tests/support/temp_folder.h"

namespace holdfast::support {

class PostgresServer {
 public:
  static constexpr milliseconds kStart = 120s;  // A machine may stand still for a while.

  // Why no server can be had here; nothing: it can.
  static std::optional<std::string> unavailable();

  PostgresServer();
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  // For PQconnectdb: as a user with all rights, or as `user`.
  std::string connection_string(const std::string& user = "postgres") const;

 private:
  bool ready() const;

  TempFolder folder_{"postgres"};
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace holdfast::support
