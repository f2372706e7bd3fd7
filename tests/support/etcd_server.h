// A real etcd of a test's own: one server, or a cluster of several.
//
// The program is `etcd` from PATH, or what HOLDFAST_ETCD_SERVER names; `etcdctl` likewise
// (HOLDFAST_ETCDCTL).
//
//   TEST(..., ...) {
//     HOLDFAST_NEEDS_ETCD();                     // Skips loudly where there is none.
//     EtcdCluster cluster({.members = 3});       // Healthy when this returns.
//     auto client = Client::connect(cluster.url());
//
// Guarantee: the members listen on loopback only (or on a ServerNetwork of their own), keep their
// data in folders of their own, and go with the test, however that one ends. Ports stay the same
// over restarts. Nothing is synced to a disk where the host has a file system in memory. Not
// guaranteed: that counters hold nothing of the harness, which asks for /health and /metrics.
//
// Thread-safety: one thread at a time. Blocking: every call is bounded by kPatience.
// Errors: std::runtime_error, with the end of the servers' logs.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/loopback.h"
#include "tests/support/server_network.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tls_files.h"

namespace holdfast::support {

struct EtcdOptions {
  std::size_t members = 1;
  // A lease lasts at least one and a half elections, in whole seconds.
  milliseconds election{0};  // 0: 200 ms for one member, 1 s for several.
  bool tls = false;          // With tls_files().server; clients may show certificates.
  bool tls_clients = false;  // They must.
  bool auth = false;         // The user root with the password "root-secret"; more by etcdctl().
  std::vector<std::string> arguments{};  // More of the command line, for each member.
  std::string data{};                    // A folder for the data; empty: one of its own.
  bool network = false;                  // Between the members one that can be cut: network().
};

class EtcdCluster {
 public:
  static std::optional<std::string> unavailable();

  explicit EtcdCluster(EtcdOptions options = {});
  ~EtcdCluster();
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;

  // Names all members; `query` like "?ttl=2s", `login` like "user:password@".
  std::string url(const std::string& query = {}, const std::string& login = {}) const;
  // Names some members: like {1} or {2, 0}.
  std::string url_of(const std::vector<std::size_t>& members, const std::string& query = {}) const;

  std::size_t size() const { return members_.size(); }
  ServerNetwork& network() { return *network_; }
  std::uint16_t port(std::size_t member = 0) const { return members_[member]->client.number(); }
  pid_t pid(std::size_t member = 0) const { return members_[member]->process->pid(); }
  std::size_t leader();

  bool running(std::size_t member = 0) { return members_[member]->process->running(); }
  void kill9(std::size_t member = 0);
  void terminate(std::size_t member = 0);
  void pause(std::size_t member = 0) { members_[member]->process->pause(); }
  void resume(std::size_t member = 0) { members_[member]->process->resume(); }
  void start(std::size_t member = 0);  // With the data it had.
  void await_health();                 // Waits for all members that run.
  bool healthy(std::size_t member = 0) const;
  // Members that do not run get their data from a file of `etcdctl snapshot save`, in a cluster of
  // the same name.
  void restore(const std::string& snapshot);

  // As root where there is a root; throws unless it ends with 0.
  std::string etcdctl(const std::vector<std::string>& arguments) const;
  // The command line that a ChildProcess would run, for what runs on.
  std::vector<std::string> etcdctl_command(const std::vector<std::string>& arguments) const;

  // The sum of a counter over its labels that hold `label`; 0: there is none.
  double metric(const std::string& name, const std::string& label = {},
                std::size_t member = 0) const;
  std::string log(std::size_t member = 0) const;

 private:
  struct Member {
    ReservedPort client;
    ReservedPort peer;
    ReservedPort metrics;
    std::unique_ptr<ChildProcess> process;
  };

  std::string name(std::size_t member) const { return "m" + std::to_string(member); }
  std::string host(std::size_t member) const;
  std::string address(std::size_t member) const;  // "127.0.0.1:2379", for clients.
  std::string data(std::size_t member) const;
  std::string peers() const;
  void launch(std::size_t member);
  void enable_auth();
  [[noreturn]] void fail(const std::string& what) const;

  EtcdOptions options_;
  std::optional<ServerNetwork> network_;
  TempFolder folder_{"etcd"};
  std::vector<std::unique_ptr<Member>> members_;
  bool has_auth_ = false;
};

// Skips the test loudly where there is no etcd; fails it where HOLDFAST_REQUIRE_ETCD is set, so
// that a CI that should have one cannot pass without.
#define HOLDFAST_NEEDS_ETCD()                                                               \
  if (const auto why_not = ::holdfast::support::EtcdCluster::unavailable()) {               \
    if (std::getenv("HOLDFAST_REQUIRE_ETCD") != nullptr) FAIL() << "no etcd: " << *why_not; \
    GTEST_SKIP() << "SKIPPED: no etcd: " << *why_not;                                       \
  }

}  // namespace holdfast::support
