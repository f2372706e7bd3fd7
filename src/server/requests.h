// The words between a front, which talks to clients, and the lock service behind it.
//
// Ownership: plain values. The texts inside Request::action are views: they are read during the
// call only.
// Errors, in every Done: kUnavailable, kQueueFull (back-pressure) and kInvalidArgument mean that
// nothing was applied; kOutcomeUnknown means that it may be: its commit was under way when the
// journal was lost. All other refusals are the Outcome inside of a reply.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/machine/command.h"
#include "src/machine/effect.h"
#include "src/machine/image.h"
#include "src/port/owner_json.h"
#include "src/port/store.h"

namespace holdfast::server {

// Names the client that asks, as it draws the name for itself; at most 64 bytes. Pushes about an
// acquisition go to the client that asked for it, or renewed it last. Empty: nobody is told.
using ClientName = std::string;

// A holder and a waiter have a lease of this length at most. A restored journal grants nothing for
// so long (rule 49).
constexpr machine::Duration kLongestLease = std::chrono::hours(24);

struct Request {
  ClientName client{};
  // As in port::AcquireRequest, for Acquire, Release and Cancel. An Acquire that is not above the
  // client's highest for the lock is answered kGone, unless its ticket is there. 0: not known; such
  // a release leaves a tombstone instead.
  std::uint64_t issue = 0;
  machine::Action action;
  base::BootInstant deadline = base::BootInstant::max();  // Later it is dropped: kUnavailable.
};

using port::BreakTrace;

// A ticket has one mode and is asked for in another one. An answer about it would be taken for what
// was asked: a reader would believe that it holds alone. A changed N is no reason.
inline bool is_another_mode(const machine::Mode& has, const machine::Mode& asked) {
  return has.kind != asked.kind ||
         (has.kind == machine::ModeKind::kPermits && has.permits != asked.permits);
}

struct Answer {
  machine::Reply reply{};
  machine::Instant at{};  // When the step took place: lease ends are counted against it.
  // kMismatch and kInvalid: the lock's use at present, if it has one.
  std::optional<machine::Mode> in_use{};
  // A Renew of a ticket that is gone, when the lock was broken: compare with the grant's token.
  std::optional<BreakTrace> last_break{};
};

// One lock as it is. Neither image nor trace: nothing is known of it.
struct LockSight {
  std::string name;
  std::optional<machine::LockImage> lock;
  std::optional<BreakTrace> last_break;
  machine::Instant at{};
};

// A text that is kept for good. Each change gives it another version, never one that it had.
struct KeptText {
  std::string text{};
  std::uint64_t version = 0;
};

constexpr std::size_t kLongestKeptKey = 400;
constexpr std::size_t kLongestKeptText = 8'192;

// A change of a kept text that takes place only while its version is still this one. For the limit
// of what is not committed, all of these are one client's.
struct KeepText {
  std::string key{};
  std::uint64_t version = 0;  // 0: there is none of that key.
  std::string text{};
};

template <typename T>
using Done = std::function<void(Result<T>)>;

// The place of an event in the order of all events (rule 57).
struct Position {
  std::uint64_t batch = 0;
  std::uint32_t index = 0;
};

// Hears of everything that was committed, in its order. Called on the service's loop only, and
// never from within a call to the service.
class ServiceListener {
 public:
  virtual ~ServiceListener() = default;
  // For one client: its waiter holds now, or its ticket ended without its doing.
  virtual void on_push(const ClientName& client, const port::Push& push) = 0;
  // For those who watch. `port::to_event(effect, at)` makes it fit for people. A kValueSet, and the
  // end of a ticket, is what a watch of a value waits for.
  virtual void on_effect(Position position, const machine::Effect& effect, machine::Instant at) = 0;
  // The service answers nothing any more: the journal belongs to another process, or its state is
  // not known. Close every connection; the process should end. Called once.
  virtual void on_stopped(const Error& reason) = 0;
};

}  // namespace holdfast::server
