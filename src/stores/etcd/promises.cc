#include "src/stores/etcd/promises.h"

#include "src/contend/contend_store.h"

namespace holdfast::stores::etcd {

Guarantees promises(std::chrono::seconds session, bool foreign_recipe) {
  Guarantees promise = contend::promises();
  promise.store = "etcd";
  promise.scope = "all clients of one cluster";
  promise.survives_restart = promise.survives_failover = true;
  promise.min_ttl = session;
  promise.max_ttl = std::chrono::hours(24);
  promise.least_renewal = std::chrono::milliseconds(session) * 2 / 3;  // It is kept every third.
  // What other clients of the recipe do not know must not be done beside them.
  if (foreign_recipe) {
    promise.shared = promise.permits = promise.upgrade = promise.values = promise.list = false;
  }
  promise.faults = {
      {"holder is killed or stalls", Promise::kYes, Promise::kYes,
       "its session ends by the leader's clock; what it sends later is refused by its token"},
      {"client and servers are parted", Promise::kYes, Promise::kYes,
       "the holder's own deadline passes before its session can end"},
      {"a member is killed, stopped or cut off", Promise::kYes, Promise::kYes,
       "the others go on; the client asks the next server, keepalives too"},
      {contend::kServersRestart, Promise::kYes, Promise::kYes,
       "leases, keys and revisions are in each member's log"},
      {"the leader changes", Promise::kYes, Promise::kYes,
       "the new leader gives each session its whole time again"},
      {"the majority is lost for a while", Promise::kYes, Promise::kYes,
       "nothing is granted; holders are told of the loss by their own deadline"},
      {"the leader stands still, etcd before 3.4.31 or 3.5.13", Promise::kDeclared, Promise::kYes,
       "it may end sessions that were renewed meanwhile; their clients are told by a watch"},
      {"the cluster is restored from a snapshot", Promise::kDeclared, Promise::kDeclared,
       "grants since then are forgotten, and revisions, which are the tokens, may come again: "
       "restore with --bump-revision, or under another prefix"},
      {"the wall clock of client or servers jumps", Promise::kYes, Promise::kYes,
       "both count on clocks that do not jump"},
      {"the client's host is suspended", Promise::kYes, Promise::kYes,
       "deadlines count on boot time"},
  };
  return promise;
}

}  // namespace holdfast::stores::etcd
