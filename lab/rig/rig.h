// What a run's clients stand on: the store, its servers and the ways to them.
//
// Thread-safety: one thread at a time.
// Ownership: all of it goes with the object; nothing is left on the host. A store of kind `url` is
// the user's, and only its locks are touched.
// Errors: std::runtime_error: the run cannot be done here, and why.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/clock_shift.h"
#include "tests/support/fault_proxy.h"

#include "lab/scenario/scenario.h"

namespace holdfast::support {
class RedisServer;
}

namespace holdfast::lab {

class Rig {
 public:
  // `folder` is the run's own.
  Rig(const Scenario& scenario, const std::string& folder);
  ~Rig();
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  // For the client in this slot (1, 2, ...).
  std::vector<std::string> urls(std::uint32_t slot) const;
  // NAME=value for every client.
  const std::vector<std::string>& client_environment() const { return environment_; }

  // Null where there is none.
  support::FaultProxy* link(std::uint32_t slot);
  support::ClockShift* clock() { return clock_.get(); }

  void pause_server();
  void resume_server();
  // With memory: what it knew when it ended, it knows when it has started.
  void stop_server(bool with_memory);
  void start_server(bool with_memory);
  // The primary is killed with what it had not told its replica, which takes over.
  void cut_replication();
  void fail_over();
  void fill_disk();
  void free_disk();

  // For people: "redis", "7.0.15"; of a store of the user's the scheme.
  const std::string& store() const { return store_; }
  const std::string& version() const { return version_; }

 private:
  void start_redis();
  void start_sqlite();
  void mount_disk();
  std::string redis_url(std::uint16_t port) const;

  const Scenario& scenario_;
  const std::string folder_;
  std::string url_;
  std::string store_;
  std::string version_;
  std::vector<std::string> environment_;
  std::string disk_;  // Mounted here; empty: none.
  std::unique_ptr<support::ClockShift> clock_;
  std::unique_ptr<support::RedisServer> server_;
  std::unique_ptr<support::RedisServer> replica_;
  std::unique_ptr<support::FaultProxy> replication_;
  std::vector<std::unique_ptr<support::FaultProxy>> links_;  // By slot, from 1 on.
};

}  // namespace holdfast::lab
