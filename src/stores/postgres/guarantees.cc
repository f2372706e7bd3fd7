#include "src/stores/postgres/guarantees.h"

namespace holdfast::stores::postgres {

Guarantees guarantees() {
  Guarantees result;
  result.store = "postgres";
  result.scope = "all clients of one database";
  result.fenced = result.fair = result.shared = result.permits = true;
  result.upgrade = result.list = result.values = true;
  result.multi = true;
  result.watch_every_change = false;
  result.survives_restart = true;
  result.survives_failover = false;
  result.min_ttl = std::chrono::milliseconds(100);
  result.max_ttl = std::chrono::hours(24);
  result.faults = {
      {"holder is killed or stalls", Guarantee::kYes, Guarantee::kYes,
       "its lease ends on the server's clock; what it sends later meets another version"},
      {"client and server are parted", Guarantee::kYes, Guarantee::kYes,
       "the holder's own deadline passes first; a tombstone refuses late requests"},
      {"server is paused", Guarantee::kYes, Guarantee::kYes,
       "leases go on ageing; holders are told of the loss first"},
      {"server is killed and restarts", Guarantee::kYes, Guarantee::kYes,
       "every answered change is on disk, unless fsync is off (holdfast doctor looks)"},
      {"server restarts with older data, or none", Guarantee::kDeclared, Guarantee::kYes,
       "grants since then are forgotten. Tokens grow unless the clock was set back"},
      {"replica is promoted", Guarantee::kDeclared, Guarantee::kDeclared,
       "grants that were not replicated are forgotten. Tokens grow unless the old server's clock "
       "ran ahead"},
      {"server's wall clock jumps", Guarantee::kDeclared, Guarantee::kYes,
       "ahead: leases end early. Back: those of a lock last longer until its next command"},
      {"client's wall clock jumps, or its host is suspended", Guarantee::kYes, Guarantee::kYes,
       "deadlines count on boot time"},
  };
  return result;
}

}  // namespace holdfast::stores::postgres
