#include "src/stores/consul/promises.h"

#include "src/contend/contend_store.h"

namespace holdfast::stores::consul {

Guarantees promises(const ConsulAddress& address) {
  Guarantees promise = contend::promises();
  promise.store = "consul";
  promise.scope = "all clients of one datacenter";
  promise.survives_restart = promise.survives_failover = true;
  promise.min_ttl = address.session_ttl;
  promise.max_ttl = std::chrono::hours(24);
  promise.least_renewal = promise.min_ttl * 2 / 3;  // It is kept every third.
  if (address.recipe) {
    promise.scope = "all clients of one datacenter, 'consul lock' among them";
    promise.shared = promise.permits = promise.upgrade = promise.fair = false;
  }
  promise.faults = {
      {"holder is killed", Promise::kYes, Promise::kYes,
       "Consul ends its session one to two ttls after its last renewal; waiters hold then"},
      {"holder stalls beyond its lease", Promise::kYes, Promise::kYes,
       "its own deadline passes one ttl after the renewal was sent, at least one ttl before "
       "Consul's; what it sends later is refused by its token"},
      {"client and servers are parted", Promise::kYes, Promise::kYes,
       "the holder's own deadline passes first; what arrives late is refused by the fence key"},
      {contend::kServersRestart, Promise::kYes, Promise::kYes,
       "sessions and keys are in the servers' log; a new leader gives each session a full term"},
      {"leader fails or is parted, a majority stays", Promise::kYes, Promise::kYes,
       "grants are committed by a majority; sessions are kept through the election"},
      {"leader is paused", Promise::kYes, Promise::kYes,
       "as above; what the old leader still answers extends no lease that had passed"},
      {"majority of the servers is lost for good", Promise::kDeclared, Promise::kDeclared,
       "a cluster recovered from older data forgets grants, and its indexes go back"},
      {"wall clock of a host jumps", Promise::kYes, Promise::kYes,
       "neither side's deadlines look at it"},
      {"contender's key is deleted by hand", Promise::kDeclared, Promise::kYes,
       "use 'holdfast break', which tells the holder"},
  };
  return promise;
}

}  // namespace holdfast::stores::consul
