#include "src/stores/zookeeper/guarantees.h"

#include <algorithm>

#include "holdfast/detail/renewal_schedule.h"
#include "src/contend/contend_store.h"

namespace holdfast::stores::zookeeper {

Guarantees guarantees(std::chrono::milliseconds session, std::chrono::milliseconds agreed) {
  Guarantees result = contend::guarantees();
  result.store = "zookeeper";
  result.scope = "all clients of one ensemble";
  result.survives_restart = result.survives_failover = true;
  result.ends_with_client = false;
  result.min_ttl = session;
  result.max_ttl = std::chrono::hours(24);
  result.least_renewal = std::chrono::floor<std::chrono::milliseconds>(
      detail::RenewalSchedule(std::min(session, agreed)).safe_part());
  result.faults = {
      {"holder is killed or stalls", Guarantee::kYes, Guarantee::kYes,
       "its session ends at the ensemble, its own deadline before; a process that wakes later is "
       "refused by its token"},
      {"client and server are parted", Guarantee::kYes, Guarantee::kYes,
       "the holder's own deadline passes first: it is counted from the send of writes that the "
       "leader has acknowledged"},
      {"server or leader is killed or paused, others are left", Guarantee::kYes, Guarantee::kYes,
       "the client goes to another server with its session, if there is time left; otherwise the "
       "lock is lost to its holder first"},
      {"a follower is cut off from the leader", Guarantee::kYes, Guarantee::kYes,
       "its answers to reads and pings do not count, only acknowledged writes do; the session must "
       "be six ticks of the servers at least"},
      {contend::kServersRestart, Guarantee::kYes, Guarantee::kYes,
       "sessions and nodes are in the log"},
      {"servers restart with older data, or none", Guarantee::kNo, Guarantee::kNo,
       "the ensemble's guarantee is broken then: zxids begin again"},
      {"somebody deletes a contender's node with other tools", Guarantee::kDeclared,
       Guarantee::kYes,
       "its holder learns of it when the session is told to look, or at its release"},
      {"wall clock of the leader jumps, a lease outlives its client", Guarantee::kDeclared,
       Guarantee::kYes,
       "waiters end such a lease by the leader's clock: sooner or later by the jump, also "
       "if another leader has another time"},
      {"wall clock of a server or client jumps", Guarantee::kYes, Guarantee::kYes,
       "sessions and deadlines count on monotonic clocks"},
  };
  return result;
}

}  // namespace holdfast::stores::zookeeper
