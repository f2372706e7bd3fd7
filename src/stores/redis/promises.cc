#include "src/stores/redis/promises.h"

namespace holdfast::stores::redis {

Guarantees promises() {
  Guarantees promise;
  promise.store = "redis";
  promise.scope = "all clients of one server";
  promise.fenced = promise.fair = promise.shared = promise.permits = true;
  promise.upgrade = promise.list = promise.values = true;
  promise.multi = true;
  promise.watch_every_change = false;
  promise.survives_restart = promise.survives_failover = false;
  promise.min_ttl = std::chrono::milliseconds(100);
  promise.max_ttl = std::chrono::hours(24);
  promise.faults = {
      {"holder is killed or stalls", Promise::kYes, Promise::kYes,
       "its lease ends on the server's clock; what it sends later is refused by its token"},
      {"client and server are parted", Promise::kYes, Promise::kYes,
       "the holder's own deadline passes first; requests that arrive late are known by their "
       "number"},
      {"server is paused", Promise::kYes, Promise::kYes,
       "leases go on ageing meanwhile; holders that could not renew are told of the loss first"},
      {"server restarts with its data (appendfsync always)", Promise::kYes, Promise::kYes,
       "every answered change is on disk"},
      {"server restarts with older data, or none", Promise::kDeclared, Promise::kYes,
       "grants since the last save are forgotten: two may believe they hold. Tokens begin at the "
       "server's wall clock in microseconds, so they grow unless that clock was set back "
       "meanwhile"},
      {"replica is promoted", Promise::kDeclared, Promise::kDeclared,
       "replication is asynchronous: grants that were not replicated are forgotten. Tokens grow "
       "unless the old server's clock ran ahead of the new one's"},
      {"server's wall clock jumps", Promise::kDeclared, Promise::kYes,
       "ahead: leases end early, two may believe they hold. Back: leases that are not renewed last "
       "longer, and tokens still grow, since each is above the last. Clients log it with their "
       "next "
       "renewal"},
      {"memory is full and the policy evicts", Promise::kDeclared, Promise::kYes,
       "an evicted lock is free; set maxmemory-policy noeviction (holdfast doctor looks)"},
      {"client's wall clock jumps, or its host is suspended", Promise::kYes, Promise::kYes,
       "deadlines count on boot time"},
  };
  return promise;
}

}  // namespace holdfast::stores::redis
