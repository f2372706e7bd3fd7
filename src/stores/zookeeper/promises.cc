#include "src/stores/zookeeper/promises.h"

#include <algorithm>

#include "src/contend/contend_store.h"

namespace holdfast::stores::zookeeper {

Guarantees promises(std::chrono::milliseconds session, std::chrono::milliseconds agreed,
                    Recipe recipe) {
  Guarantees promise = contend::promises();
  promise.store = "zookeeper";
  promise.scope = "all clients of one ensemble";
  promise.survives_restart = promise.survives_failover = true;
  if (recipe != Recipe::kOwn) {
    promise.shared = recipe == Recipe::kCuratorReadWrite;
    promise.permits = promise.upgrade = promise.values = promise.list = false;
  }
  promise.min_ttl = session;
  promise.max_ttl = std::chrono::hours(24);
  promise.least_renewal =
      std::min(session, agreed) / 2;  // The third beat before the next one (beats.h).
  promise.faults = {
      {"holder is killed or stalls", Promise::kYes, Promise::kYes,
       "its session ends at the ensemble, its own deadline before; a process that wakes later is "
       "refused by its token"},
      {"client and server are parted", Promise::kYes, Promise::kYes,
       "the holder's own deadline passes first: it is counted from the send of writes that the "
       "leader has acknowledged"},
      {"server or leader is killed or paused, others are left", Promise::kYes, Promise::kYes,
       "the client goes to another server with its session, if there is time left; otherwise the "
       "lock is lost to its holder first"},
      {"a follower is cut off from the leader", Promise::kYes, Promise::kYes,
       "its answers to reads and pings do not count, only acknowledged writes do; the session must "
       "be six ticks of the servers at least"},
      {contend::kServersRestart, Promise::kYes, Promise::kYes,
       "sessions and nodes are in the log"},
      {"servers restart with older data, or none", Promise::kNo, Promise::kNo,
       "the ensemble's promise is broken then: zxids begin again"},
      {"somebody deletes a contender's node with other tools", Promise::kDeclared, Promise::kYes,
       "its holder learns of it when the session is told to look, or at its release"},
      {"wall clock of a server or client jumps", Promise::kYes, Promise::kYes,
       "sessions and deadlines count on monotonic clocks"},
  };
  return promise;
}

}  // namespace holdfast::stores::zookeeper
