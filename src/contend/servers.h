// The kind of servers behind a store, as found at connect. It limits the store's guarantees.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "holdfast/guarantees.h"
#include "src/base/local_mutex.h"

namespace holdfast::contend {

// A guarantee holds only if the servers have shown that they can keep it.
struct Servers {
  bool survive_restart = false;   // Confirmed writes are on a disk, or at a majority.
  bool survive_failover = false;  // One server may fail; the others have all confirmed writes.
  // Notes for people on the limits.
  std::string restart_note = "the servers have not told how they keep what they confirm";
  std::string failover_note = "the servers have not told how many they are";

  // Servers with this many voting members, each of which stores confirmed writes on disk.
  static Servers on_disk(std::size_t members) {
    Servers servers;
    servers.survive_restart = true;
    servers.survive_failover = members >= 3;
    servers.failover_note = members == 1 ? "it is one server: none may fail"
                                         : std::to_string(members) + " servers: none may fail";
    return servers;
  }
};

// The rows of Guarantees::faults that depend on the servers.
inline constexpr char kServersRestart[] = "servers restart with their data";

// Removes the guarantees that these servers cannot give.
inline Guarantees bounded_by(Guarantees all, const Servers& servers) {
  all.survives_restart = all.survives_restart && servers.survive_restart;
  all.survives_failover = all.survives_failover && servers.survive_failover;
  for (FaultRow& row : all.faults) {
    if (row.fault != kServersRestart || servers.survive_restart) continue;
    row.exclusion = row.fencing = Guarantee::kNo;
    row.note = servers.restart_note;
  }
  return all;
}

// Shares the answer between the loop, which asks, and callers of guarantees().
class KnownServers {
 public:
  void set(Servers servers) {
    const base::LocalLock lock(mutex_);
    servers_ = std::move(servers);
  }
  Servers get() const {
    const base::LocalLock lock(mutex_);
    return servers_;
  }

 private:
  mutable base::LocalMutex mutex_;
  Servers servers_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::contend
