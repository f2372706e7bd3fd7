#include "src/stores/failover/guarantees.h"

#include "holdfast/detail/renewal_schedule.h"

namespace holdfast::stores::failover {

Guarantees guarantees(std::chrono::milliseconds authority) {
  Guarantees result;
  result.store = "failover";
  result.scope = "all clients with the same chain";
  result.fenced = result.fair = result.shared = result.permits = true;
  result.upgrade = result.list = true;
  result.values = result.multi = result.watch_every_change = false;
  result.bound_to_client = result.ends_with_client = true;
  result.survives_restart = result.survives_failover = false;
  result.min_ttl = authority;
  result.max_ttl = std::chrono::hours(24);
  result.least_renewal =
      std::chrono::floor<std::chrono::milliseconds>(detail::RenewalSchedule(authority).safe_part());
  result.faults = {
      {"the active store is away for everybody", Guarantee::kYes, Guarantee::kYes,
       "holders are lost, the drain is waited for, then the next store is used under a new epoch"},
      {"the active store is away for some clients", Guarantee::kYes, Guarantee::kYes,
       "nothing is switched while others reach it; those clients get kUnavailable"},
      {"the active store restarts without its memory", Guarantee::kYes, Guarantee::kYes,
       "its stamp is missing, so no grant counts before a drain and a new epoch"},
      {"the active store restarts with older data, or its replica is promoted",
       Guarantee::kDeclared, Guarantee::kYes,
       "its stamp is there, but grants since then are forgotten"},
      {"the active store's clock is set ahead, or it evicts a lock", Guarantee::kDeclared,
       Guarantee::kYes, "leases end early, as that store's own page says"},
      {"the last store is away", Guarantee::kYes, Guarantee::kYes,
       "nobody holds longer than the authority lease, and nothing is granted until it is back"},
      {"the last store forgets the record, or authority leases", Guarantee::kDeclared,
       Guarantee::kYes,
       "the chain begins anew after a drain; clients that read the old record may overlap with it"},
      {"whoever switches dies, or several switch at once", Guarantee::kYes, Guarantee::kYes,
       "the record's lock lets one go on, which drains again"},
      {"holder is killed or stalls", Guarantee::kYes, Guarantee::kYes,
       "its lease ends at the active store, its own deadline before"},
  };
  return result;
}

}  // namespace holdfast::stores::failover
