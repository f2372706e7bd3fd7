#include "src/stores/etcd/guarantees.h"

#include "holdfast/detail/renewal_schedule.h"
#include "src/contend/contend_store.h"

namespace holdfast::stores::etcd {

Guarantees guarantees(std::chrono::seconds session) {
  Guarantees result = contend::guarantees();
  result.store = "etcd";
  result.scope = "all clients of one cluster";
  result.survives_restart = result.survives_failover = true;
  result.ends_with_client = false;
  result.min_ttl = session;
  result.max_ttl = std::chrono::hours(24);
  result.least_renewal = std::chrono::floor<std::chrono::milliseconds>(
      detail::RenewalSchedule(result.min_ttl).left_between_renewals());
  result.faults = {
      {"holder is killed or stalls", Guarantee::kYes, Guarantee::kYes,
       "its session ends by the leader's clock; what it sends later is refused by its token"},
      {"client and servers are parted", Guarantee::kYes, Guarantee::kYes,
       "the holder's own deadline passes before its session can end"},
      {"a member is killed, stopped or cut off", Guarantee::kYes, Guarantee::kYes,
       "the others go on; the client asks the next server, keepalives too"},
      {contend::kServersRestart, Guarantee::kYes, Guarantee::kYes,
       "leases, keys and revisions are in each member's log"},
      {"the leader changes", Guarantee::kYes, Guarantee::kYes,
       "the new leader gives each session its whole time again"},
      {"the majority is lost for a while", Guarantee::kYes, Guarantee::kYes,
       "nothing is granted; holders are told of the loss by their own deadline"},
      {"the leader stands still, etcd before 3.4.31 or 3.5.13", Guarantee::kDeclared,
       Guarantee::kYes,
       "it may end sessions that were renewed meanwhile; their clients are told by a watch"},
      {"the cluster is restored from a snapshot", Guarantee::kDeclared, Guarantee::kDeclared,
       "grants since then are forgotten, and revisions, which are the tokens, may come again: "
       "restore with --bump-revision, or under another prefix"},
      {"the wall clock of client or servers jumps", Guarantee::kYes, Guarantee::kYes,
       "both count on clocks that do not jump"},
      {"the client's host is suspended", Guarantee::kYes, Guarantee::kYes,
       "deadlines count on boot time"},
  };
  return result;
}

}  // namespace holdfast::stores::etcd
