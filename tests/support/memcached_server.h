// A real memcached of a test program's own.
//
// The program is memcached from PATH, or what HOLDFAST_MEMCACHED_SERVER names. As root it runs as
// the user memcache (or nobody): it refuses to run as root.
//
// Guarantee: it listens on a port of 127.0.0.1 only, which stays over restarts, and it goes with
// the test, however that one ends. Its memory is empty after each start.
//
// Thread-safety: one thread at a time. Blocking: the constructor and start(), until the server is
// ready; kPatience at most. Errors: std::runtime_error, with the end of the server's log.
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

class MemcachedServer {
 public:
  // Why no server can be had here; nothing: it can.
  static std::optional<std::string> unavailable();

  // `arguments`: more of them, like {"-m", "2"}. `clock_shift_file`: its wall clock follows that
  // file (clock_shift.h).
  explicit MemcachedServer(std::vector<std::string> arguments = {},
                           std::string clock_shift_file = {});
  ~MemcachedServer();
  MemcachedServer(const MemcachedServer&) = delete;
  MemcachedServer& operator=(const MemcachedServer&) = delete;

  // `query` like "ns=a".
  std::string url(const std::string& query = {}) const;
  std::uint16_t port() const { return port_.number(); }
  pid_t pid() const { return process_->pid(); }

  // The answer of the server to one command.
  std::string command(const std::string& line) const;
  // A number of `stats`.
  std::uint64_t stat(const std::string& name) const;
  void flush_all() const { command("flush_all"); }

  bool running() { return process_->running(); }
  void kill9();
  void terminate();
  void pause() { process_->pause(); }
  void resume() { process_->resume(); }
  // After kill9() or terminate().
  void start();

 private:
  const std::vector<std::string> arguments_;
  const std::string clock_shift_file_;
  TempFolder folder_{"memcached"};
  ReservedPort port_;
  std::unique_ptr<ChildProcess> process_;
};

// Skips the test loudly where there is no memcached; fails it where HOLDFAST_REQUIRE_MEMCACHED is
// set, so that a CI that should have one cannot pass without.
#define HOLDFAST_NEEDS_MEMCACHED()                                                \
  if (const auto why_not = ::holdfast::support::MemcachedServer::unavailable()) { \
    if (std::getenv("HOLDFAST_REQUIRE_MEMCACHED") != nullptr) {                   \
      FAIL() << "no memcached: " << *why_not;                                     \
    }                                                                             \
    GTEST_SKIP() << "SKIPPED: no memcached: " << *why_not;                        \
  }

}  // namespace holdfast::support
