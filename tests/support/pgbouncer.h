// A real pgbouncer in front of a PostgreSQL server: it gives each transaction (or each client) any
// session of the server.
//
// The program is pgbouncer from PATH or /usr/sbin.
//
// Guarantee: it listens on a port of 127.0.0.1, lets everybody in as the user postgres, and dies
// with the test. Thread-safety: one thread at a time. Blocking: the constructor does not wait until
// it listens. Errors: std::runtime_error.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tests/support/child_process.h"
#include "tests/support/loopback.h"
#include "tests/support/temp_folder.h"

namespace holdfast::support {

class Pgbouncer {
 public:
  // Why it cannot be had here; nothing: it can.
  static std::optional<std::string> unavailable();

  // `sessions`: so many of the server, for all clients. `mode`: of its pool.
  explicit Pgbouncer(std::uint16_t server_port, int sessions = 4,
                     const std::string& mode = "transaction");

  std::uint16_t port() const { return port_.number(); }

 private:
  TempFolder folder_{"pgbouncer"};
  ReservedPort port_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace holdfast::support
