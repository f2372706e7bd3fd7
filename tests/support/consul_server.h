// Real Consul servers of a test's own: one, or a cluster.
//
// The program is what HOLDFAST_CONSUL names, or consul from PATH, or what scripts/consul-server has
// unpacked into ${XDG_CACHE_HOME:-~/.cache}/holdfast. Debian 12 has no package of it.
//
//   TEST(..., ...) {
//     HOLDFAST_NEEDS_CONSUL();                       // Skips loudly where there is none.
//     ConsulServer server;                           // Has a leader when this returns.
//     auto client = Client::connect(server.url());
//
// Guarantee: it listens on loopback only (or on a ServerNetwork of its own), keeps its data in a
// folder of its own and dies with the test, however that one ends. Ports stay the same over
// restarts. The harness speaks HTTP by itself: it shares no code with the store. Thread-safety: one
// thread at a time. Blocking: every call is bounded by kPatience (the start by kStart). Errors:
// std::runtime_error, with the end of the server's log.
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
#include "tests/support/server_network.h"
#include "tests/support/temp_folder.h"

namespace holdfast::support {

struct ConsulOptions {
  std::string session_ttl_min = "1s";  // Consul's own default is 10s.
  bool acl = false;                    // Everything is denied without a token.
  bool tls = false;                    // HTTPS on a port of its own; plain HTTP stays.
  bool tls_clients = false;            // Clients must show a certificate.
  std::vector<std::string> config{};   // More of its configuration, in HCL.
  std::string log_level = "info";
  std::string data_folder{};  // Not: one of its own.
  bool dev = false;           // 'consul agent -dev': nothing is on a disk.
  bool network = false;       // A cluster only: its servers are on a network that can be cut.
};

struct ConsulAnswer {
  int status = 0;
  std::string body;
};

class ConsulServer {
 public:
  static constexpr milliseconds kStart = 60s;
  static constexpr char kMasterToken[] = "6a7c2f4e-1111-4222-8333-944444444444";

  // Why no server can be had here; nothing: it can.
  static std::optional<std::string> unavailable();
  static std::string program();

  explicit ConsulServer(ConsulOptions options = {});
  ~ConsulServer();
  ConsulServer(const ConsulServer&) = delete;
  ConsulServer& operator=(const ConsulServer&) = delete;

  std::uint16_t port() const { return http_.number(); }
  std::uint16_t tls_port() const { return https_.number(); }
  std::uint16_t raft_port() const { return raft_.number(); }
  pid_t pid() const { return process_->pid(); }

  // "consul://127.0.0.1:port?...", the query percent-encoded where it has to be.
  std::string url(const std::map<std::string, std::string>& query = {},
                  std::uint16_t through = 0) const;
  std::string tls_url(std::map<std::string, std::string> query = {}) const;

  bool running() { return process_->running(); }
  void kill9() { process_->kill9(); }
  void terminate() { process_->terminate(); }
  void pause() { process_->pause(); }
  void resume() { process_->resume(); }
  // After kill9() or terminate(), with the data that is on the disk; returns when it has a leader.
  void start();

  // With the master token where there are ACLs, unless another is given. Throws when nobody
  // answers.
  ConsulAnswer ask(const std::string& method, const std::string& target,
                   const std::string& body = "", const std::string& token = "") const;
  // "" or "127.0.0.1:port" of the leader's raft; its own is raft_address().
  std::string leader() const;
  std::string raft_address() const;
  std::string gossip_address() const;
  // Makes a policy of these rules and a token that has it; the token's secret.
  std::string make_token(const std::string& rules) const;

  std::string log() const;

 private:
  friend class ConsulCluster;
  struct Part {
    int servers = 1;
    std::string name = "server";
    std::string host = "127.0.0.1";
    int network = -1;
    std::vector<std::string> peers{};  // Where they gossip.
  };
  ConsulServer(ConsulOptions options, Part part);
  void launch();
  void await_ready();
  bool is_ready() const;
  std::string config() const;
  std::string address() const { return part_.host + ":" + std::to_string(port()); }

  ConsulOptions options_;
  Part part_;
  TempFolder folder_{"consul"};
  ReservedPort http_;
  ReservedPort https_;
  ReservedPort raft_;
  ReservedPort gossip_;
  std::unique_ptr<ChildProcess> process_;
};

// Three servers of one cluster.
class ConsulCluster {
 public:
  explicit ConsulCluster(const ConsulOptions& options = {});

  ConsulServer& server(std::size_t i) { return *servers_.at(i); }
  std::size_t size() const { return servers_.size(); }
  ServerNetwork& network() { return *network_; }
  // Waits until there is one that all who answer agree on.
  std::size_t leader(milliseconds limit = ConsulServer::kStart);
  // All servers; those named first come first.
  std::string url(const std::map<std::string, std::string>& query = {},
                  const std::vector<std::size_t>& order = {0, 1, 2}) const;

 private:
  std::optional<ServerNetwork> network_;
  std::vector<std::unique_ptr<ConsulServer>> servers_;
};

// Skips the test loudly where there is no Consul; fails it where HOLDFAST_REQUIRE_CONSUL is set, so
// that a CI that should have one cannot pass without.
#define HOLDFAST_NEEDS_CONSUL()                                                                 \
  if (const auto why_not = ::holdfast::support::ConsulServer::unavailable()) {                  \
    if (std::getenv("HOLDFAST_REQUIRE_CONSUL") != nullptr) FAIL() << "no Consul: " << *why_not; \
    GTEST_SKIP() << "SKIPPED: no Consul: " << *why_not;                                         \
  }

}  // namespace holdfast::support
