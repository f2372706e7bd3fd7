// The target of a workload: the lock of one process, either ours or one that is wrong on purpose.
//
// A subject does not record: the actor that calls it stamps before and after the call
// (lab/workload). So a subject must do all its work inside its calls. Only renewals in the
// background and news of a loss go to the listener.
//
// Thread-safety: acquire() from any thread. A Hold belongs to one thread at a time, its renew() may
// run beside the other calls. Listeners are called from any thread, also before acquire() has
// returned.
// Ownership: the listener outlives the hold; the subject outlives its holds.
// Time: all instants are base::host_boot_now(), in nanoseconds.
// Blocking: acquire(), for the requested wait plus the store's own time limit.
// Errors: as outcomes (lab/history/event.h). A subject that cannot continue throws
// std::runtime_error; then the run fails and is not judged.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/mode.h"
#include "holdfast/token.h"

#include "lab/history/event.h"

namespace holdfast::lab {

struct Ask {
  std::string name;
  Mode mode = Mode::exclusive();
  std::chrono::milliseconds ttl{1000};
  std::chrono::milliseconds wait{0};  // Zero: a try.
  std::stop_token cancel{};           // Ends the wait, if the subject supports that.
};

// Hears of unrequested events of a hold.
class Listener {
 public:
  virtual ~Listener() = default;
  // A renewal in the background, sent at `sent_ns` and answered by now.
  virtual void renewed(const Id& id, std::int64_t sent_ns, std::int64_t deadline_ns) = 0;
  virtual void lost(const Id& id) = 0;
};

struct Renewed {
  Outcome outcome = Outcome::kUnknown;  // kRenewed, kLost, kUnavailable, kUnknown.
  std::int64_t deadline_ns = 0;         // For kRenewed.
};

// A lock that was granted.
class Hold {
 public:
  virtual ~Hold() = default;

  // From the grant. The id is unique in the run, and never all zero.
  virtual Id id() const = 0;
  virtual Token token() const { return {}; }  // Zero if the subject gives none.
  // The deadline of the owner's belief, as known now.
  virtual std::int64_t deadline_ns() const = 0;

  // The subject's answer: kHeld, kLost (for good), kUnknown (not now).
  virtual Outcome held() = 0;
  virtual Renewed renew() = 0;
  // kReleased, kLost (no longer held), kUnavailable, kUnknown. Call it once.
  virtual Outcome release() = 0;
};

struct Acquired {
  // kGranted (with a hold), kBusy, kTimedOut, kCancelled, kUnavailable, kUnknown.
  Outcome outcome = Outcome::kUnknown;
  std::unique_ptr<Hold> hold{};
};

class Subject {
 public:
  virtual ~Subject() = default;
  virtual Acquired acquire(const Ask& ask, Listener& listener) = 0;
};

struct SubjectSetup {
  std::vector<std::string> urls;  // The stores' URLs; most subjects use the first.
  std::string client;             // This process' name, for people: "client 2".
  std::uint64_t seed = 0;         // This process' seed.
  // Called where a scenario may kill or stop this process: "between SETNX and EXPIRE".
  std::function<void(std::string_view point)> passes = [](std::string_view) {};
};

using SubjectFactory = std::function<std::unique_ptr<Subject>(const SubjectSetup&)>;

struct SubjectKind {
  std::string name;   // Its name in scenarios.
  std::string about;  // A line for people.
  SubjectFactory make;
};

// A new acquisition id, from the kernel's random bits.
Id fresh_id();
std::int64_t now_ns();

}  // namespace holdfast::lab
