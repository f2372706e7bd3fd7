// The target of a workload: the lock of one process, be it ours or one that is wrong on purpose.
//
// A subject does not record: the actor that calls it stamps before and after (lab/workload). So it
// must do all its work inside its calls, but for renewals in the background and news of a loss,
// which go to the listener.
//
// Thread-safety: acquire() from any thread. A Hold belongs to one thread at a time, its renew() may
// run beside the other calls. Listeners are called from any thread, also before acquire() has
// returned.
// Ownership: the listener outlives the hold; the subject outlives its holds.
// Time: all instants are base::host_boot_now(), in nanoseconds.
// Blocking: acquire() for the wait that was asked for, and the store's own time limit.
// Errors: as outcomes (lab/history/event.h). A subject that cannot go on at all throws
// std::runtime_error: the run fails, it is not judged.
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
  std::stop_token cancel{};           // Ends the wait, where the subject can.
};

// Told of what happens to a hold without being asked for.
class Listener {
 public:
  virtual ~Listener() = default;
  // A renewal in the background: its request went out at `sent_ns`, it was answered by now.
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

  // As they were granted; the id is unique in the run, and never all zero.
  virtual Id id() const = 0;
  virtual Token token() const { return {}; }  // Zero: the subject gives none.
  // Until when the owner may believe in it, as far as is known now.
  virtual std::int64_t deadline_ns() const = 0;

  // The subject's answer when it is asked: kHeld, kLost (for good), kUnknown (not now).
  virtual Outcome held() = 0;
  virtual Renewed renew() = 0;
  // kReleased, kLost (it was not ours any more), kUnavailable, kUnknown. Once.
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
