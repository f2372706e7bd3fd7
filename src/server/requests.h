// The words between a front, which talks to clients, and the lock service behind it.
//
// Ownership: plain values. The texts inside Request::action are views: they are read during the
// call only.
// Errors, in every Done: kUnavailable, kQueueFull (back-pressure) and kInvalidArgument mean that
// nothing was applied, except that a renewal may be while the journal is full; kOutcomeUnknown
// means that it may be: its commit was under way when the journal was lost. All other refusals are
// the Outcome inside of a reply.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "holdfast/result.h"
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
  // The user who has logged in, to whom all that is not committed is charged, whatever clients ask
  // for that user. Empty: there are no users, and it is charged to the client.
  std::string user{};
  // A renewal whose caller has just heard of a commit that began after it was asked. That proves
  // the lead, and a second proof would only delay the answer. The deadline of leadership counts.
  bool proven = false;
  // A renewal whose answer holds up others: its proof does not wait until it can serve many.
  bool hurried = false;
};

// --- The parts of a request, whatever its action is.

// An id without a number is refused for so long after it ended. Longer than any connection lives
// whose client was given up by its server.
constexpr machine::Duration kTombstone = std::chrono::minutes(1);

template <typename T>
const T* as(const Request& request) {
  return std::get_if<T>(&request.action);
}

inline machine::AcquisitionId id_of(const machine::Action& action) {
  return std::visit(
      [](const auto& one) -> machine::AcquisitionId {
        if constexpr (requires { one.id; }) return one.id;
        return {};
      },
      action);
}

inline std::string_view name_of(const machine::Action& action) {
  return std::visit(
      [](const auto& one) -> std::string_view {
        if constexpr (requires { one.name; }) return one.name;
        return {};
      },
      action);
}

inline bool leaves_tombstone(const machine::Action& action) {
  return std::visit(
      [](const auto& one) {
        return requires { one.tombstone; };
      },
      action);
}

// With a number, marks refuse what comes late.
inline machine::Action with_tombstone(const Request& request) {
  machine::Action action = request.action;
  std::visit(
      [&](auto& one) {
        using Kind = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<Kind, machine::Release>) {
          one.tombstone = request.issue == 0 ? kTombstone : machine::Duration::zero();
        } else if constexpr (requires { one.tombstone; }) {
          one.tombstone = kTombstone;
        }
      },
      action);
  return action;
}

inline machine::Duration lease_of(const Request& request) {
  if (const auto* acquire = as<machine::Acquire>(request)) {
    return std::max(acquire->ttl, acquire->waiter_ttl);
  }
  const auto* renewal = as<machine::Renew>(request);
  return renewal != nullptr ? std::max(renewal->ttl, renewal->waiter_ttl)
                            : machine::Duration::zero();
}

inline bool lets_go(const Request& request) {
  return as<machine::Release>(request) != nullptr || as<machine::Cancel>(request) != nullptr;
}

// ---

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

// A change of a kept text that takes place only while its version is still this one.
struct KeepText {
  std::string key{};
  std::uint64_t version = 0;  // 0: there is none of that key.
  std::string text{};
  std::string user{};  // As in a Request. Empty: all of these are one client's.
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
