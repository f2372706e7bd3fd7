#include "src/stores/mysql/guarantees.h"

namespace holdfast::stores::mysql {

Guarantees guarantees() {
  Guarantees result;
  result.store = "mysql";
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
       "its lease ends on the server's clock. Late writes meet another version"},
      {"client and server are parted", Guarantee::kYes, Guarantee::kYes,
       "the holder's own deadline passes first. A tombstone refuses late requests"},
      {"server is paused", Guarantee::kYes, Guarantee::kYes,
       "leases go on ageing. Holders are told of the loss first"},
      {"server is killed and restarts", Guarantee::kYes, Guarantee::kYes,
       "every answered change is on disk. The doctor looks at the log"},
      {"server restarts with older data, or none", Guarantee::kDeclared, Guarantee::kYes,
       "grants since then are forgotten. Tokens grow unless the clock was set back"},
      {"replica is promoted", Guarantee::kDeclared, Guarantee::kDeclared,
       "missing grants are forgotten. Tokens grow unless the old clock ran ahead"},
      {"server's wall clock jumps", Guarantee::kDeclared, Guarantee::kYes,
       "ahead: leases end early. Back: those of a lock last longer until its next command"},
      {"client's wall clock jumps, or its host is suspended", Guarantee::kYes, Guarantee::kYes,
       "deadlines count on boot time"},
  };
  return result;
}

}  // namespace holdfast::stores::mysql
