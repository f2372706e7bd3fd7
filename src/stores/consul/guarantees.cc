#include "src/stores/consul/guarantees.h"

#include "holdfast/detail/renewal_schedule.h"
#include "src/contend/contend_store.h"

namespace holdfast::stores::consul {

Guarantees guarantees(const ConsulAddress& address) {
  Guarantees result = contend::guarantees();
  result.store = "consul";
  result.scope = "all clients of one datacenter";
  result.survives_restart = result.survives_failover = true;
  result.ends_with_client = address.recipe;
  result.min_ttl = address.session_ttl;
  result.max_ttl = std::chrono::hours(24);
  result.least_renewal = std::chrono::floor<std::chrono::milliseconds>(
      detail::RenewalSchedule(result.min_ttl).left_between_renewals());
  if (address.recipe) {
    result.scope = "all clients of one datacenter, 'consul lock' among them";
    result.shared = result.permits = result.upgrade = result.fair = false;
  }
  result.faults = {
      {"holder is killed", Guarantee::kYes, Guarantee::kYes,
       "Consul ends its session one to two ttls after its last renewal; waiters hold then"},
      {"holder stalls beyond its lease", Guarantee::kYes, Guarantee::kYes,
       "its own deadline passes one ttl after the renewal was sent, at least one ttl before "
       "Consul's; what it sends later is refused by its token"},
      {"client and servers are parted", Guarantee::kYes, Guarantee::kYes,
       "the holder's own deadline passes first; what arrives late is refused by the fence key"},
      {contend::kServersRestart, Guarantee::kYes, Guarantee::kYes,
       "sessions and keys are in the servers' log; a new leader gives each session a full term"},
      {"leader fails or is parted, a majority stays", Guarantee::kYes, Guarantee::kYes,
       "grants are committed by a majority; sessions are kept through the election"},
      {"leader is paused", Guarantee::kYes, Guarantee::kYes,
       "as above; what the old leader still answers extends no lease that had passed"},
      {"majority of the servers is lost for good", Guarantee::kDeclared, Guarantee::kDeclared,
       "a cluster recovered from older data forgets grants, and its indexes go back"},
      {"wall clock of a host jumps", Guarantee::kYes, Guarantee::kYes,
       "neither side's deadlines look at it"},
      {"an agent is deregistered", Guarantee::kDeclared, Guarantee::kYes,
       "it takes the leases that outlive their client with it, if they were opened through it"},
      {"contender's key is deleted by hand", Guarantee::kDeclared, Guarantee::kYes,
       "use 'holdfast break', which tells the holder"},
  };
  return result;
}

}  // namespace holdfast::stores::consul
