#include "src/stores/memcached/guarantees.h"

namespace holdfast::stores::memcached {

Guarantees guarantees() {
  Guarantees result;
  result.store = "memcached";
  result.scope = "all clients of one memcached server";
  result.fair = result.shared = result.permits = result.upgrade = result.values = true;
  result.fenced = result.list = result.multi = result.watch_every_change = false;
  result.survives_restart = result.survives_failover = false;
  result.min_ttl = std::chrono::milliseconds(100);
  result.max_ttl = std::chrono::hours(24);
  result.faults = {
      {"holder is killed or stalls", Guarantee::kYes, Guarantee::kDeclared,
       "the next one holds when it has seen the same lease for its whole length"},
      {"client and server are parted", Guarantee::kYes, Guarantee::kDeclared,
       "the holder's own deadline passes first; late requests meet another cas number"},
      {"server is paused", Guarantee::kYes, Guarantee::kDeclared,
       "leases count by the clients' clocks; a pause of five minutes may lose locks as a restart"},
      {"server restarts, is flushed, or evicts", Guarantee::kDeclared, Guarantee::kNo,
       "the lock is forgotten: two believe they hold it until the first one renews, and never "
       "beyond its deadline"},
      {"any wall clock jumps, or a client's host is suspended", Guarantee::kYes, Guarantee::kNo,
       "leases count on boot time; tokens begin with a client's wall clock"},
  };
  return result;
}

}  // namespace holdfast::stores::memcached
