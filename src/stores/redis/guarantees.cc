#include "src/stores/redis/guarantees.h"

namespace holdfast::stores::redis {

namespace {

constexpr char kPromoted[] = "replica is promoted";

// The rows of a store whose primary moves by itself.
void describe_failover(Guarantees& result) {
  std::erase_if(result.faults, [](const auto& row) { return row.fault == kPromoted; });
  const std::vector<FaultRow> rows = {
      {"primary is killed; the promoted replica has every answered change, and its clock agrees",
       Guarantee::kYes, Guarantee::kDeclared,
       "holders and waiters ask the new primary at once, and keep what it knows"},
      {"primary is killed; the promoted replica lacks the last changes", Guarantee::kDeclared,
       Guarantee::kDeclared,
       "replication is asynchronous: a grant or renewal that was not replicated is forgotten, and "
       "another client may be granted the lock. The old holder is told with its next renewal. "
       "Tokens grow unless the old server's clock ran ahead of the new one's"},
      {"primary is paused, a replica is promoted, and the old primary goes on",
       Guarantee::kDeclared, Guarantee::kDeclared,
       "as above. Clients that know of the switch send nothing more to the old primary"},
      {"primary is cut off with some clients, and a replica is promoted", Guarantee::kDeclared,
       Guarantee::kDeclared,
       "two servers grant until the old one is reached again or min-replicas-to-write stops it"},
  };
  result.faults.insert(result.faults.end(), rows.begin(), rows.end());
}

}  // namespace

Guarantees guarantees(const RedisAddress& address) {
  Guarantees result;
  result.store = "redis";
  result.scope = "all clients of one server";
  result.fenced = result.fair = result.shared = result.permits = true;
  result.upgrade = result.list = result.values = true;
  result.multi = true;
  result.watch_every_change = false;
  result.survives_restart = result.survives_failover = false;
  result.min_ttl = std::chrono::milliseconds(100);
  result.max_ttl = std::chrono::hours(24);
  result.faults = {
      {"holder is killed or stalls", Guarantee::kYes, Guarantee::kYes,
       "its lease ends on the server's clock; what it sends later is refused by its token"},
      {"client and server are parted", Guarantee::kYes, Guarantee::kYes,
       "the holder's own deadline passes first; requests that arrive late are known by their "
       "number"},
      {"server is paused", Guarantee::kYes, Guarantee::kYes,
       "leases go on ageing meanwhile; holders that could not renew are told of the loss first"},
      {"server restarts with its data (appendfsync always)", Guarantee::kYes, Guarantee::kYes,
       "every answered change is on disk"},
      {"server restarts with older data, or none", Guarantee::kDeclared, Guarantee::kYes,
       "grants since the last save are forgotten: two may believe they hold. Tokens begin at the "
       "server's wall clock in microseconds, so they grow unless that clock was set back "
       "meanwhile"},
      {kPromoted, Guarantee::kDeclared, Guarantee::kDeclared,
       "replication is asynchronous: grants that were not replicated are forgotten. Tokens grow "
       "unless the old server's clock ran ahead of the new one's"},
      {"server's wall clock jumps", Guarantee::kDeclared, Guarantee::kYes,
       "ahead: leases end early, two may believe they hold. Back: leases that are not renewed last "
       "longer, and tokens still grow, since each is above the last. Clients log it with their "
       "next "
       "renewal"},
      {"memory is full and the policy evicts", Guarantee::kDeclared, Guarantee::kYes,
       "an evicted lock is free; set maxmemory-policy noeviction (holdfast doctor looks)"},
      {"client's wall clock jumps, or its host is suspended", Guarantee::kYes, Guarantee::kYes,
       "deadlines count on boot time"},
  };
  if (!address.nodes.empty()) {
    result.scope = "all clients of one cluster";
    result.multi = false;  // The locks are in several slots.
    describe_failover(result);
    result.faults.push_back({"slots move to another server", Guarantee::kYes, Guarantee::kYes,
                             "a lock's keys move with it, and requests follow them"});
    result.faults.push_back({"a server is down that has no replica", Guarantee::kYes,
                             Guarantee::kYes, "the locks of its slots cannot be had meanwhile"});
  }
  if (!address.sentinels.empty()) {
    result.scope = "all clients of one primary that Sentinels name";
    describe_failover(result);
    result.faults.push_back({"a minority of the Sentinels is down", Guarantee::kYes,
                             Guarantee::kYes, "the others name the primary"});
  }
  return result;
}

}  // namespace holdfast::stores::redis
