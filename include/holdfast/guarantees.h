// The guarantees of a store under each fault, as data, and the doctor's findings about a running
// one.
//
// Thread-safety: plain data. Not guaranteed: that a field or a row is never added; ask by name.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "holdfast/export.h"

namespace holdfast {

enum class Guarantee {
  kYes,       // Holds; tests under that fault show it.
  kDeclared,  // May be violated, as the note says: rely on fencing.
  kNo,
};

// One fault, and the guarantees that survive it. The texts are for people, not for parsing.
struct FaultRow {
  std::string fault;      // "holder killed", "wall clock of the host jumps" ...
  Guarantee exclusion{};  // At most one owner believes to hold the lock.
  Guarantee fencing{};    // Tokens keep growing.
  std::string note;
};

// The guarantees of a kind of store that is set up as its page says. Guarantee: a request for a
// capability that is `false` here is refused with kUnsupported. connect() asks ZooKeeper, etcd and
// Consul how they run (one server, dev mode ...). A guarantee that depends on a fact they do not
// tell is `false` until doctor() has found it out. Not guaranteed: that the rest of the store is
// set up as its page says; see DoctorReport.
struct Guarantees {
  std::string store;  // "sqlite"
  std::string scope;  // "processes of one host", "one process"
  bool fenced = false;
  bool fair = false;
  bool shared = false;
  bool permits = false;
  bool upgrade = false;
  bool list = false;
  // false: a watch samples, and may miss short holds. true: it tells each change, or kMissed.
  bool watch_every_change = false;
  bool values = false;
  bool multi = false;  // Several locks in one step: all of them if all are free, else none.
  // true: leases live by their client's session and end with it, except those that are to outlive
  // their client (AcquireOptions::outlives_client). A lease shorter than min_ttl, the session's
  // length, is refused.
  bool bound_to_client = false;
  // true: no lease can outlive its client. Client::adopt(), a Once, and a JobLock with
  // at_least_for are refused with kUnsupported.
  bool ends_with_client = false;
  bool survives_restart = false;
  bool survives_failover = false;  // A fail-over of the store's servers forgets no grant.
  std::chrono::milliseconds min_ttl{};
  std::chrono::milliseconds max_ttl{};
  // The least time that a renewal leaves of a lease, where that is less than its ttl: a session
  // that was confirmed a while ago has only the rest of its time. Zero: the ttl. By the next
  // renewal it has shrunk by the time between the two. Not guaranteed: while the store does not
  // answer; before a session was opened, where the servers grant less than the URL
  // asks for.
  std::chrono::milliseconds least_renewal{};
  std::vector<FaultRow> faults;
};

// kProblem: a guarantee of the store does not hold as it is configured. kWarning: it holds, but
// something is lost or at risk.
enum class Severity { kOk, kWarning, kProblem };

// Not guaranteed: topics and texts stay as they are; decide by the severity.
struct Finding {
  Severity severity{};
  std::string topic;   // "journal", "file system", "permissions" ...
  std::string what;    // The finding.
  std::string advice;  // The change to make; empty: none.
};

// The findings of one moment. `guarantees` are those of the kind of store; a kProblem names each
// one that does not hold here. Not guaranteed: that a finding still holds afterwards, or that
// everything could be examined (a finding names the exceptions).
struct DoctorReport {
  std::string store;  // The URL without credentials.
  Guarantees guarantees;
  std::vector<Finding> findings;

  bool healthy() const {
    for (const Finding& finding : findings) {
      if (finding.severity == Severity::kProblem) return false;
    }
    return true;
  }
};

}  // namespace holdfast
