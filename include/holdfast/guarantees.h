// What a store promises under which fault, as data; and what the doctor found about a running one.
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

// One fault and what is left of the promises under it. The texts are for people, not for parsing.
struct FaultRow {
  std::string fault;    // "holder killed", "wall clock of the host jumps" ...
  Guarantee exclusion{};  // At most one belief to hold the lock.
  Guarantee fencing{};    // Tokens keep growing.
  std::string note;
};

// What a kind of store gives when it is set up as its page says. Guarantee: what it cannot do is
// `false` here, and refused with kUnsupported. ZooKeeper, etcd and Consul are asked at connect what
// they are (one server, dev mode ...); what they do not tell is not promised, until doctor() has
// found it out. Not guaranteed: that the store is otherwise set up like that; see DoctorReport.
struct Guarantees {
  std::string store;  // "sqlite"
  std::string scope;  // "processes of one host", "one process"
  bool fenced = false;
  bool fair = false;
  bool shared = false;
  bool permits = false;
  bool upgrade = false;
  bool list = false;
  bool watch_every_change = false;  // false: a watch samples, and may miss short holds.
  bool values = false;
  bool multi = false;  // Several locks in one step: all that are free, or none.
  // true: leases live by their client's session, and end with it; one shorter than min_ttl, which
  // is the session's, is refused. Refused with kUnsupported: Client::adopt(), a Once, a JobLock
  // with at_least_for.
  bool bound_to_client = false;
  bool survives_restart = false;
  bool survives_failover = false;  // A fail-over of the store's servers forgets no grant.
  std::chrono::milliseconds min_ttl{};
  std::chrono::milliseconds max_ttl{};
  // What a renewal leaves of a lease at least, where that is less than its ttl: a session that was
  // confirmed a while ago has the rest of its time. Zero: the ttl. Before the next renewal comes it
  // is less by what that takes. Not guaranteed while the store does not answer; nor, until a
  // session was opened, where its servers make it shorter than the URL asks for.
  std::chrono::milliseconds least_renewal{};
  std::vector<FaultRow> faults;
};

// kProblem: something that the store promises does not hold as it is. kWarning: it holds, but
// something is lost or at risk.
enum class Severity { kOk, kWarning, kProblem };

// Not guaranteed: topics and texts stay as they are; decide by the severity.
struct Finding {
  Severity severity{};
  std::string topic;   // "journal", "file system", "permissions" ...
  std::string what;    // What was found.
  std::string advice;  // What to change; empty when there is nothing to do.
};

// What was found at the moment of the asking. `guarantees` are those of the kind of store; where
// one of them does not hold here, a finding is a kProblem. Not guaranteed: what could not be looked
// at (a finding says so), and that it is still so afterwards.
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
