#include "src/stores/holdfast/guarantees.h"

namespace holdfast::stores::holdfast {

namespace {

void add_shared(Guarantees& result) {
  result.scope = "all clients of the servers on one journal";
  result.survives_failover = true;
  result.faults.push_back(
      {"leading server is killed, paused or cut off, and another takes over", Guarantee::kYes,
       Guarantee::kYes,
       "the journal refuses what an earlier leader writes; leases begin anew, and last longer by "
       "the lease of leadership; a lease shorter than the take-over is lost by its holder's own "
       "deadline"});
  result.faults.push_back({"etcd's leader changes, or a minority of its members fails",
                           Guarantee::kYes, Guarantee::kYes,
                           "a batch whose fate is not known is sent again with the same bytes"});
  result.faults.push_back(
      {"a snapshot of etcd is put back", Guarantee::kDeclared, Guarantee::kDeclared,
       "a restore by etcd is noticed: nothing is granted for 24 h, the longest lease; members' "
       "folders that were put back whole are not: stop all clients first. Tokens begin a year "
       "above the snapshot's and the wall clock"});
}

}  // namespace

Guarantees guarantees(bool durable, bool shared) {
  Guarantees result;
  result.store = "holdfast";
  result.scope = "all clients of one server";
  result.fenced = result.fair = result.shared = result.permits = true;
  result.upgrade = result.list = result.values = result.multi = true;
  result.watch_every_change = true;
  result.survives_restart = durable;
  result.survives_failover = false;
  result.min_ttl = std::chrono::milliseconds(100);
  result.max_ttl = std::chrono::hours(24);
  result.faults = {
      {"holder is killed or stalls", Guarantee::kYes, Guarantee::kYes,
       "its lease ends on the server's boot time; what it sends later is refused by its token"},
      {"client and server are parted", Guarantee::kYes, Guarantee::kYes,
       "the holder's own deadline passes first; requests that arrive late are known by their "
       "number"},
      {"server is paused", Guarantee::kYes, Guarantee::kYes,
       "its pause is not counted as time, so leases last longer; holders that could not renew are "
       "told of the loss first"},
      {"wall clock of the server or a client jumps, or a host is suspended", Guarantee::kYes,
       Guarantee::kYes, "leases and deadlines count on boot time"},
      {"journal's disk is full", Guarantee::kYes, Guarantee::kYes,
       "nothing is granted that is not written; renewals go on"},
  };
  if (shared) {
    add_shared(result);
  } else if (durable) {
    result.faults.push_back(
        {"server is killed and restarts with its folder", Guarantee::kYes, Guarantee::kYes,
         "every answered grant is in the journal, and its lease begins anew; a lease shorter than "
         "the restart is lost by its holder's own deadline"});
    result.faults.push_back(
        {"an older copy of the journal is put back", Guarantee::kDeclared, Guarantee::kDeclared,
         "a copy that the server notices grants nothing for 24 h, the longest lease; bytes written "
         "into the file itself may not be noticed. Tokens begin a year above the copy's and the "
         "wall clock"});
  } else {
    result.faults.push_back(
        {"server restarts (journal in memory)", Guarantee::kDeclared, Guarantee::kYes,
         "all grants are forgotten: two may believe they hold. Tokens begin at the wall clock, so "
         "they grow unless that was set back meanwhile"});
  }
  return result;
}

}  // namespace holdfast::stores::holdfast
