// A real ZooKeeper of a test's own: one server, or an ensemble of several.
//
// The program is `java` from PATH with the jar of the package `zookeeper` (or
// HOLDFAST_ZOOKEEPER_JAR: a class path).
//
//   TEST(..., ...) {
//     HOLDFAST_NEEDS_ZOOKEEPER();                // Skips loudly where there is none.
//     ZookeeperServer server({.members = 3});    // Serves when this returns.
//     auto client = Client::connect(server.url());
//
// Guarantee: the servers listen on loopback only (or on a ServerNetwork of their own), keep their
// data in folders of their own, and go with the test, however that one ends. Ports stay the same
// over restarts. Not guaranteed: that its counters hold nothing of the harness, which asks "srvr".
//
// Thread-safety: one thread at a time. Blocking: every call is bounded by kStart.
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

namespace holdfast::support {

struct ZookeeperOptions {
  std::size_t members = 1;
  milliseconds tick{100};             // A session is two of them at least.
  std::vector<std::string> config{};  // More lines of zoo.cfg, for each member.
  std::string data{};                 // A folder for the data; empty: one of its own.
  bool network = false;               // Between the servers one that can be cut: network().
  std::string clock_shift_file{};     // A ClockShift's.
};

class ZookeeperServer {
 public:
  static constexpr milliseconds kStart = 60s;  // A machine may stand still for a while.

  static std::optional<std::string> unavailable();

  explicit ZookeeperServer(ZookeeperOptions options = {});
  ~ZookeeperServer();
  ZookeeperServer(const ZookeeperServer&) = delete;
  ZookeeperServer& operator=(const ZookeeperServer&) = delete;

  // Names all members; `rest` like "/chroot?session=1s", `login` like "user:password@".
  std::string url(const std::string& rest = {}, const std::string& login = {}) const;
  // "127.0.0.1:1234,..." of all members, or of some.
  std::string servers() const;
  std::string servers(const std::vector<std::size_t>& members) const;

  std::size_t size() const { return members_.size(); }
  ServerNetwork& network() { return *network_; }
  std::uint16_t port(std::size_t member = 0) const { return members_[member]->client.number(); }
  pid_t pid(std::size_t member = 0) const { return members_[member]->process->pid(); }

  bool running(std::size_t member = 0) { return members_[member]->process->running(); }
  void kill9(std::size_t member = 0);
  void pause(std::size_t member = 0) { members_[member]->process->pause(); }
  void resume(std::size_t member = 0) { members_[member]->process->resume(); }
  // After kill9(), or when it ended by itself: with the data that is on the disk.
  void start(std::size_t member = 0);
  void await_serving();
  // nullopt: there is none right now.
  std::optional<std::size_t> leader();
  std::optional<std::size_t> follower();

  // The answer to a four letter word ("srvr", "mntr"); empty: none.
  std::string ask(const std::string& word, std::size_t member = 0) const;
  // One line of "mntr": the number behind that name.
  std::int64_t figure(const std::string& name, std::size_t member = 0) const;
  std::string log(std::size_t member = 0) const;  // Its end.

 private:
  struct Member {
    ReservedPort client;
    ReservedPort peer;
    ReservedPort election;
    std::unique_ptr<ChildProcess> process{};
  };
  std::string host(std::size_t member) const;
  std::string folder(std::size_t member) const;
  std::string log_file(std::size_t member) const;
  void write_config(std::size_t member) const;

  ZookeeperOptions options_;
  std::optional<ServerNetwork> network_;
  TempFolder folder_{"zookeeper"};
  std::vector<std::unique_ptr<Member>> members_;
};

// Skips the test loudly where there is no ZooKeeper; fails it where HOLDFAST_REQUIRE_ZOOKEEPER is
// set, so that a CI that should have one cannot pass without.
#define HOLDFAST_NEEDS_ZOOKEEPER()                                                \
  if (const auto why_not = ::holdfast::support::ZookeeperServer::unavailable()) { \
    if (std::getenv("HOLDFAST_REQUIRE_ZOOKEEPER") != nullptr) {                   \
      FAIL() << "no ZooKeeper: " << *why_not;                                     \
    }                                                                             \
    GTEST_SKIP() << "SKIPPED: no ZooKeeper: " << *why_not;                        \
  }

}  // namespace holdfast::support
