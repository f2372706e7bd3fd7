// A real Redis server of a test's own.
//
// The program is redis-server from PATH, or what HOLDFAST_REDIS_SERVER names: a path, or a command
// line (valkey-server, a newer Redis under its own dynamic loader).
//
//   TEST(..., ...) {
//     HOLDFAST_NEEDS_REDIS();                        // Skips loudly where there is none.
//     RedisServer server({.appendonly = true});      // Answers when this returns.
//     auto client = Client::connect(server.url());
//
// Guarantee: what answers on port() and socket_path() is this very process (its own pid was asked
// for), it listens on loopback only, keeps its data in a folder of its own and dies with the test,
// however that one ends. Port and socket stay the same over restarts.
// Not guaranteed: that commandstats hold nothing of the harness: it sends PING, INFO, and what its
// methods say; each through a Unix socket of its own, as a user with all rights.
//
// Thread-safety: one thread at a time.
// Blocking: every call is bounded by kPatience.
// Errors: std::runtime_error, with the end of the server's log.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/loopback.h"
#include "tests/support/redis_connection.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tls_files.h"

namespace holdfast::support {

class RedisServer;

// The words of the command that starts it.
std::vector<std::string> redis_program();

enum class RedisTls {
  kOff,
  kServerOnly,             // Client certificates are not asked for.
  kClientMayAuthenticate,  // A certificate that is shown is checked.
  kClientMustAuthenticate,
};

struct RedisOptions {
  bool appendonly = false;
  std::string appendfsync = "always";
  std::string save{};              // Like "60 1"; empty: no snapshots.
  std::string maxmemory{};         // Like "4mb"; empty: no limit.
  std::string maxmemory_policy{};  // Like "allkeys-lru".
  std::string requirepass{};
  // ACL users, each like "alice on >secret ~* &* +@all". "default off" shuts the default user out.
  std::vector<std::string> users{};
  RedisTls tls = RedisTls::kOff;            // On a port of its own; the plain one stays.
  bool replicates_by_tls = false;           // Also announces the TLS port, to Sentinels, too.
  KeyPair certificate{};                    // The server's; none: tls_files().server.
  const RedisServer* replica_of = nullptr;  // Which must not go before.
  std::vector<std::string> config{};        // More lines of redis.conf; the last word is theirs.
  std::vector<std::string> preload{};       // Libraries.
  std::string clock_shift_file{};           // ClockShift::path(): its wall clock follows.
};

enum class Memory { kKept, kLost };

class RedisServer {
 public:
  // Why no server can be had here; nothing: it can.
  static std::optional<std::string> unavailable();

  explicit RedisServer(RedisOptions options = {});
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  std::uint16_t port() const { return port_.number(); }
  std::uint16_t tls_port() const { return tls_port_.number(); }
  std::string socket_path() const { return folder_.file("redis.sock"); }
  pid_t pid() const { return process_->pid(); }
  const RedisOptions& options() const { return options_; }
  // {7, 0, 15}.
  const std::vector<int>& version() const;

  struct UrlOptions {
    bool tls = false;  // With tls_ca=tls_files().ca, unless the query names another.
    bool unix_socket = false;
    std::string user{};
    std::string password{};  // None: options().requirepass, when there is no user either.
    std::uint16_t port = 0;  // A proxy's port; 0: the server's own.
    std::string host = "127.0.0.1";
    KeyPair certificate{};  // The client's own.
    std::map<std::string, std::string> query{};
  };
  // Everything in it is percent-encoded where it has to be.
  std::string url(const UrlOptions& options) const;
  std::string url() const { return url(UrlOptions()); }

  bool running() { return process_->running(); }
  void kill9();
  void terminate();
  void pause() { process_->pause(); }
  void resume() { process_->resume(); }
  // After kill9() or terminate(): with the data that is on the disk.
  void start();
  // kKept: everything is written out before, whatever the persistence; kLost: nothing comes back.
  void restart(Memory memory);

  // As a user with all rights; a refusal is a Reply. The second throws instead.
  Reply command(const std::vector<std::string>& words);
  Reply must(const std::vector<std::string>& words);
  // A connection of one's own, over TCP, as nobody in particular.
  RedisConnection connect() const { return RedisConnection(port()); }

  void flushall() { must({"FLUSHALL"}); }
  void script_flush() { must({"SCRIPT", "FLUSH", "SYNC"}); }
  // How many; type: normal, pubsub, replica, master. Never the harness's own.
  std::int64_t client_kill(const std::string& type);
  void config_set(const std::string& name, const std::string& value);

  // One field of INFO, empty: there is none.
  std::string info(const std::string& section, const std::string& field);
  // How often a command was called since the start or the reset; "evalsha", "config|get".
  // The harness's own INFO and PING count too.
  std::int64_t command_count(const std::string& name);
  std::map<std::string, std::int64_t> command_counts();
  void reset_counts() { must({"CONFIG", "RESETSTAT"}); }

  // Asks again and again until the predicate holds: for what the server has no event for.
  template <typename Predicate>
  bool eventually(Predicate predicate, milliseconds limit = kPatience) {
    const auto until = std::chrono::steady_clock::now() + limit;
    while (!predicate(*this)) {
      if (std::chrono::steady_clock::now() >= until) return false;
      pause_between_questions();
    }
    return true;
  }

  // All that it has said.
  std::string log() const;
  std::string data_folder() const { return folder_.file("data"); }

 private:
  static void pause_between_questions();
  void launch();
  void write_config() const;
  std::vector<std::string> config_lines() const;
  void await_ready();
  bool is_ready();
  bool has_admin() const { return !options_.requirepass.empty() || !options_.users.empty(); }
  [[noreturn]] void fail(const std::string& what) const;

  RedisOptions options_;
  TempFolder folder_{"redis"};
  ReservedPort port_;
  ReservedPort tls_port_;
  std::unique_ptr<ChildProcess> process_;
  std::unique_ptr<RedisConnection> admin_;
};

// Skips the test loudly where there is no Redis; fails it where HOLDFAST_REQUIRE_REDIS is set, so
// that a CI that should have one cannot pass without.
#define HOLDFAST_NEEDS_REDIS()                                                                \
  if (const auto why_not = ::holdfast::support::RedisServer::unavailable()) {                 \
    if (std::getenv("HOLDFAST_REQUIRE_REDIS") != nullptr) FAIL() << "no Redis: " << *why_not; \
    GTEST_SKIP() << "SKIPPED: no Redis: " << *why_not;                                        \
  }

}  // namespace holdfast::support
