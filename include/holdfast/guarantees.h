// What a store promises under which fault, as data; and what the doctor found about a running one.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace holdfast {

enum class Promise {
  kYes,       // Holds; tests under that fault show it.
  kDeclared,  // May be violated, as the note says: rely on fencing.
  kNo,
};

struct FaultRow {
  std::string fault;    // "holder killed", "wall clock of the host jumps" ...
  Promise exclusion{};  // At most one belief to hold the lock.
  Promise fencing{};    // Tokens keep growing.
  std::string note;
};

struct Guarantees {
  std::string store;  // "sqlite"
  std::string scope;  // "processes of one host", "one process"
  bool fenced = false;
  bool fair = false;
  bool shared = false;
  bool permits = false;
  bool upgrade = false;
  bool barging = false;
  bool list = false;
  bool watch_every_change = false;  // false: a watch samples, and may miss short holds.
  bool values = false;
  bool survives_restart = false;
  bool survives_failover = false;  // A fail-over of the store's servers forgets no grant.
  std::chrono::milliseconds min_ttl{};
  std::chrono::milliseconds max_ttl{};
  std::vector<FaultRow> faults;
};

enum class Severity { kOk, kWarning, kProblem };

struct Finding {
  Severity severity{};
  std::string topic;   // "journal", "file system", "permissions" ...
  std::string what;    // What was found.
  std::string advice;  // What to change; empty when there is nothing to do.
};

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
