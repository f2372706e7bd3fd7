// Which shards of a journal this server should lead, so that all servers lead about as many
// (docs/design/0073-shards.md). A pure function of what the servers' list and the leader keys say.
//
// Guarantee: while all servers see the same, one of them takes a vacant shard at once, and the next
// ones later, each a turn after the one before. Moves end: no server leads two shards more than
// another one, and then nothing moves. A shard that came back, because nobody took it, is not given
// away again before other servers are there. A server that has stepped down hands over all that it
// leads, and takes nothing while another server is there, for SharingTimes::yields after that.
// Not guaranteed: that two servers do not try to take the same shard. The journal decides then, so
// nothing here is needed for safety.
//
// Thread-safety: one thread at a time. Time: boot time, given by the caller.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "src/base/clock.h"

namespace holdfast::server {

struct SharingTimes {
  // A vacant shard is left to each server that leads fewer for so long.
  std::chrono::milliseconds turn{400};
  // Shards move only when servers and leaders have been the same for so long: longer than a dead
  // server stays on the list. So moves do not follow each other at once (rule 55).
  std::chrono::milliseconds settled{10'000};
  std::chrono::milliseconds between_looks{250};
  std::chrono::milliseconds yields{6'000};
};

// The servers and leaders of one moment.
struct SharedShards {
  std::vector<std::string> servers;  // The addresses of those that take shards.
  std::vector<std::string> leaders;  // By shard; empty: vacant.
  bool operator==(const SharedShards&) const = default;
};

class Sharing {
 public:
  Sharing(std::string self, SharingTimes times) : self_(std::move(self)), times_(times) {}

  struct Plan {
    std::vector<bool> take;  // By shard: vacant, and this server should try to lead it now.
    std::vector<bool> give;  // By shard: this server leads it, and should hand it over.
  };
  Plan plan(SharedShards view, base::BootInstant now);
  // Other servers do not count on this one while it yields.
  void step_down(base::BootInstant now) { yields_until_ = now + times_.yields; }
  bool yields() const { return yields_until_.has_value(); }

 private:
  void note_returns(const SharedShards& view);
  void plan_takes(Plan& plan, base::BootInstant now);
  void plan_gives(Plan& plan);
  void plan_to_yield(Plan& plan, base::BootInstant now);
  // How many shards each server leads, in the order of the addresses.
  std::vector<std::pair<std::string, std::size_t>> counts() const;

  const std::string self_;
  const SharingTimes times_;
  SharedShards seen_;
  base::BootInstant same_since_{};
  std::optional<base::BootInstant> yields_until_;
  std::vector<std::optional<base::BootInstant>> vacant_since_;
  // By shard, since the servers are the same.
  std::vector<bool> given_;
  std::vector<bool> came_back_;
};

}  // namespace holdfast::server
