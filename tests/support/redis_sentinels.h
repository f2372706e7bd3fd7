// A primary with replicas and the Sentinels that watch it, all real, on loopback.
//
//   HOLDFAST_NEEDS_REDIS();
//   RedisSentinels redis;                      // The Sentinels know each other when this returns.
//   auto client = Client::connect(redis.url());
//   redis.primary().kill9();
//   redis.await_switch();
//
// Guarantee: as RedisServer. A Sentinel calls a server down after kDownAfter.
// Thread-safety: one thread at a time. Blocking: every call is bounded by kPatience.
// Errors: std::runtime_error, with the end of a log.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/redis_server.h"

namespace holdfast::support {

struct SentinelsOptions {
  std::size_t replicas = 2;
  std::size_t sentinels = 3;
  std::size_t quorum = 2;
  RedisOptions server{};  // Each server has these, and replica_of.
  // Servers and Sentinels speak TLS with each other, and name their TLS ports to clients.
  bool tls = false;
  // ACL users of the Sentinels, as in RedisOptions.
  std::vector<std::string> users{};
  // ClockShift::path() for the first replica, the second one: instead of the servers' own.
  std::vector<std::string> replica_shift_files{};
};

class RedisSentinel {
 public:
  RedisSentinel(const std::string& monitor, const SentinelsOptions& options);

  std::uint16_t port() const { return port_.number(); }
  std::uint16_t tls_port() const { return tls_port_.number(); }
  pid_t pid() const { return process_->pid(); }
  void start();
  void kill9() { process_->kill9(); }
  void pause() { process_->pause(); }
  void resume() { process_->resume(); }
  // Over a connection of its own, as a user with all permissions.
  Reply command(const std::vector<std::string>& words) const;
  std::string log() const;

 private:
  TempFolder folder_{"sentinel"};
  ReservedPort port_;
  ReservedPort tls_port_;
  bool has_users_ = false;
  std::unique_ptr<ChildProcess> process_;
};

class RedisSentinels {
 public:
  static constexpr milliseconds kDownAfter = 500ms;
  static constexpr char kName[] = "mymaster";

  explicit RedisSentinels(const SentinelsOptions& options = {});

  // By the Sentinel with the highest epoch.
  RedisServer& primary();
  std::size_t primary_index();
  RedisServer& server(std::size_t index) { return *servers_.at(index); }
  std::size_t servers() const { return servers_.size(); }
  RedisSentinel& sentinel(std::size_t index) { return *sentinels_.at(index); }

  // Until every Sentinel names another server than `before`, and that one is a primary.
  void await_switch(std::size_t before);
  // Until `server` has `number` replicas with an intact link.
  static void await_replicas(RedisServer& server, std::size_t number);

  // From now on, all that this server sends to its present replicas is lost. They do not notice.
  // Needs keep_network_private() of server_network.h.
  static void drop_replication(RedisServer& server);

  // With TLS: rediss+sentinel://, and tls_ca= of tls_files().
  std::string url(const std::string& query = {}) const;
  // "127.0.0.1:1,127.0.0.1:2"; the ports without TLS are there in any case.
  std::string hosts() const { return hosts(tls_); }
  std::string hosts(bool tls) const;

 private:
  // The one that clients are told of.
  std::uint16_t port_of(const RedisServer& server) const {
    return tls_ ? server.tls_port() : server.port();
  }

  const bool tls_;
  std::vector<std::unique_ptr<RedisServer>> servers_;
  std::vector<std::unique_ptr<RedisSentinel>> sentinels_;
};

}  // namespace holdfast::support
