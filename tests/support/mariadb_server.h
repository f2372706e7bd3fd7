// A real MariaDB server of a test program's own.
//
// The program is mariadbd from PATH or /usr/sbin, or what HOLDFAST_MARIADBD names.
//
// Guarantee: it listens on a Unix socket in a folder of its own and nowhere else, and it dies with
// the test, however that one ends. Not guaranteed: users and rights: it has no tables for them,
// which makes it quick to set up, and lets everybody in with all rights. Nothing is synced.
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

class MariadbServer {
 public:
  static constexpr milliseconds kStart = 120s;

  // Why no server can be had here; nothing: it can.
  static std::optional<std::string> unavailable();

  MariadbServer();
  ~MariadbServer();
  MariadbServer(const MariadbServer&) = delete;
  MariadbServer& operator=(const MariadbServer&) = delete;

  std::string socket_path() const { return folder_.file("sock"); }

 private:
  bool ready() const;

  TempFolder folder_{"mariadb"};
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace holdfast::support
