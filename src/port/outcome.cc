#include "src/port/outcome.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "src/base/printable.h"

namespace holdfast::port {
namespace {

using machine::EffectKind;
using machine::Instant;
using machine::LockImage;
using machine::Outcome;
using machine::Reply;
using machine::TicketImage;

// The name is not `quoted`: overload resolution would prefer the one of <iomanip> for a
// std::string.
std::string prefix_for(std::string_view name) { return "lock '" + base::printable(name) + "': "; }

// Others can write to a store, so its instants may be any two, and their difference must not
// overflow.
Duration until(Instant end, Instant now) {
  if (end <= now) return Duration(0);
  const auto apart = static_cast<std::uint64_t>(end.time_since_epoch().count()) -
                     static_cast<std::uint64_t>(now.time_since_epoch().count());
  constexpr auto kMost = static_cast<std::uint64_t>(Duration::max().count());
  return Duration(static_cast<std::int64_t>(std::min(apart, kMost)));
}

std::chrono::milliseconds left(Instant end, Instant now) {
  return std::chrono::floor<std::chrono::milliseconds>(until(end, now));
}

// The times of owners come out of such a store, too, and this clock ends in the year 2262.
std::chrono::system_clock::time_point wall_time(std::int64_t unix_ms) {
  using std::chrono::milliseconds;
  using Wall = std::chrono::system_clock::time_point;
  constexpr auto kFirst = std::chrono::ceil<milliseconds>(Wall::min().time_since_epoch());
  constexpr auto kLast = std::chrono::floor<milliseconds>(Wall::max().time_since_epoch());
  return Wall(std::clamp(milliseconds(unix_ms), kFirst, kLast));
}

Error error_of(Outcome outcome, std::string_view name) {
  const std::string lock = prefix_for(name);
  switch (outcome) {
    case Outcome::kMismatch:
      return {Errc::kInvalidArgument,
              lock + "kind or number of permits differ from those it is in use with"};
    case Outcome::kTooLarge:
      return {Errc::kInvalidArgument, lock + "asks for more than the lock can ever give"};
    case Outcome::kQueueFull:
      return {Errc::kQueueFull,
              lock + "the queue is full: as many wait already as were allowed; try later"};
    case Outcome::kWouldDeadlock:
      return {Errc::kWouldDeadlock,
              lock +
                  "an upgrade is under way already: of this reader by another call, or of another "
                  "reader, and each would wait for the other's shared lease: release yours first"};
    case Outcome::kInvalid:
      return {Errc::kInvalidArgument,
              lock +
                  "malformed request (a zero id, ttl or number of permits, or an upgrade of "
                  "something that is not a shared lease)"};
    case Outcome::kExhausted:
      return {Errc::kCorruptState, lock +
                                       "no fencing token is left to give: the token counter is "
                                       "damaged or at its ceiling"};
    case Outcome::kNotHeld:
      return {Errc::kLost,
              lock + "nobody holds it by that token or id (any more); nothing changed"};
    case Outcome::kGone: return {Errc::kLost, lock + "the acquisition has ended"};
    case Outcome::kHeld:
    case Outcome::kWaiting:
    case Outcome::kBusy:
    case Outcome::kReleased:
    case Outcome::kCancelled:
    case Outcome::kDone: break;
  }
  return {Errc::kCorruptState, lock +
                                   "the lock machine gave an answer that does not fit the "
                                   "question (outcome " +
                                   std::to_string(static_cast<int>(outcome)) + ")"};
}

Error explain_mismatch(const AcquireRequest& request, const LockImage& current) {
  const bool wants_permits = request.mode.kind == machine::ModeKind::kPermits;
  const bool has_permits = current.kind == machine::ModeKind::kPermits;
  std::string text = prefix_for(request.name);
  if (wants_permits != has_permits) {
    text += "asked for as " + describe(request.mode) + ", but it is in use as " +
            (has_permits ? "a lock of " + std::to_string(current.capacity) + " permits"
                         : std::string("an exclusive or shared lock"));
  } else {
    text += "asked for as " + describe(request.mode) + ", but it is in use with " +
            std::to_string(current.capacity) + " permits";
  }
  return {Errc::kInvalidArgument, text + "; all users of a name must agree"};
}

// Is the lease that this request wants to upgrade still there?
bool holds(const LockImage* current, const AcquireRequest& request) {
  if (current == nullptr) return false;
  return std::any_of(current->tickets.begin(), current->tickets.end(), [&](const auto& ticket) {
    return ticket.held && ticket.id == request.upgrade_of;
  });
}

}  // namespace

std::string describe(const Mode& mode) {
  switch (mode.kind) {
    case machine::ModeKind::kExclusive: return "exclusive";
    case machine::ModeKind::kShared: return "shared";
    case machine::ModeKind::kPermits:
      return std::to_string(mode.permits) + " of " + std::to_string(mode.capacity) + " permits";
  }
  return "unknown";
}

machine::Acquire to_command(const AcquireRequest& request) {
  machine::Acquire command;
  command.name = request.name;
  command.id = request.id;
  command.mode = request.mode;
  command.may_wait = request.may_wait;
  command.ttl = request.ttl;
  command.waiter_ttl = request.waiter_ttl;
  command.max_waiters = request.max_waiters;
  command.upgrade_of = request.upgrade_of;
  command.owner = request.owner;
  return command;
}

std::optional<Error> refuse_malformed(const AcquireRequest& request) {
  const bool no_time = request.ttl <= Duration::zero() ||
                       (request.may_wait && request.waiter_ttl <= Duration::zero());
  if (!request.name.empty() && request.id && !no_time) return std::nullopt;
  return to_acquire_result({.outcome = Outcome::kInvalid}, request, nullptr, {}).error();
}

Error broken_error(const std::string& name, const BreakInfo& trace) {
  const OwnerInfo& by = trace.by;
  std::string what = "lock '" + base::printable(name) + "' was broken by ";
  what += base::printable(by.program.empty() ? by.owner : by.program + " (" + by.owner + ")");
  if (!trace.by.reason.empty()) what += ": " + base::printable(trace.by.reason);
  return {Errc::kBroken, std::move(what)};
}

machine::Renew to_command(const RenewItem& item) {
  return {item.name, item.id, item.seq, item.ttl, item.waiter_ttl};
}

Result<AcquisitionState> to_ticket_state(const Reply& reply, std::string_view name, Instant now) {
  AcquisitionState state;
  switch (reply.outcome) {
    case Outcome::kHeld: return held_state(reply);
    case Outcome::kWaiting:
      state = held_state(reply);
      state.status = AcquisitionStatus::kWaiting;
      state.token = {};
      state.ahead = reply.position;
      state.next_expiry = until(reply.next_expiry, now);
      if (reply.opens_at > now) state.opens_in = until(reply.opens_at, now);
      return state;
    case Outcome::kBusy:
      state.status = AcquisitionStatus::kBusy;
      state.next_expiry = until(reply.next_expiry, now);
      return state;
    case Outcome::kGone: state.status = AcquisitionStatus::kGone; return state;
    default: return error_of(reply.outcome, name);
  }
}

Result<AcquisitionState> to_acquire_result(const Reply& reply, const AcquireRequest& request,
                                           const LockImage* current, Instant now) {
  if (reply.outcome == Outcome::kMismatch && current != nullptr) {
    return explain_mismatch(request, *current);
  }
  if (reply.outcome == Outcome::kInvalid && request.upgrade_of && !holds(current, request)) {
    return Error{Errc::kLost, prefix_for(request.name) + "the shared lease to upgrade has ended"};
  }
  if (reply.outcome == Outcome::kTooLarge) {
    return Error{Errc::kInvalidArgument,
                 prefix_for(request.name) + describe(request.mode) + " can never be given"};
  }
  return to_ticket_state(reply, request.name, now);
}

Result<EndStatus> to_end_status(const Reply& reply, std::string_view name) {
  switch (reply.outcome) {
    case Outcome::kReleased: return EndStatus::kReleased;
    case Outcome::kCancelled: return EndStatus::kCancelled;
    case Outcome::kGone: return EndStatus::kGone;
    default: return error_of(reply.outcome, name);
  }
}

Result<AcquisitionState> to_downgrade_result(const Reply& reply, std::string_view name,
                                             AcquisitionId id, const LockImage* after) {
  AcquisitionState gone;
  gone.status = AcquisitionStatus::kGone;
  switch (reply.outcome) {
    case Outcome::kNotHeld:
    case Outcome::kGone: return gone;
    case Outcome::kDone:
    case Outcome::kHeld: break;
    default: return error_of(reply.outcome, name);
  }
  if (after == nullptr) return gone;
  for (const TicketImage& ticket : after->tickets) {
    if (ticket.id == id && ticket.held) return held_state(ticket);
  }
  return gone;
}

Result<bool> to_done(const Reply& reply, std::string_view name) {
  switch (reply.outcome) {
    case Outcome::kDone:
    case Outcome::kReleased: return true;
    case Outcome::kWaiting: return false;
    default: return error_of(reply.outcome, name);
  }
}

holdfast::Token to_public(Token token) { return {token.epoch, token.counter}; }

holdfast::Mode to_public(const Mode& mode) {
  switch (mode.kind) {
    case machine::ModeKind::kExclusive: break;
    case machine::ModeKind::kShared: return holdfast::Mode::shared();
    case machine::ModeKind::kPermits: return holdfast::Mode::permits(mode.permits, mode.capacity);
  }
  return holdfast::Mode::exclusive();
}

holdfast::OwnerInfo to_public(const OwnerPtr& owner) {
  if (!owner) return {};
  holdfast::OwnerInfo who;
  who.owner = owner->owner;
  who.host = owner->host;
  who.pid = owner->pid;
  who.program = owner->program;
  who.reason = owner->reason;
  who.trace_id = owner->trace_id;
  who.since = wall_time(owner->since_unix_ms);
  return who;
}

std::chrono::milliseconds delay_of(const TicketImage& ticket) {
  const Duration delay = ticket.owner ? ticket.owner->lock_delay : Duration::zero();
  const bool has_it = ticket.lease == Duration::zero() || ticket.lease > delay;
  return std::chrono::floor<std::chrono::milliseconds>(has_it ? delay : Duration::zero());
}

HolderInfo to_holder_info(const TicketImage& ticket, Instant now) {
  return {to_public(ticket.owner), to_public(ticket.mode), to_public(ticket.token),
          left(ticket.lease_end, now), delay_of(ticket)};
}

LockInfo to_lock_info(const LockImage& image, Instant now, std::optional<BreakInfo> last_break) {
  LockInfo info;
  info.name = image.name;
  info.last_token = to_public(image.last_token);
  info.permits = image.kind == machine::ModeKind::kPermits;
  info.capacity = image.capacity;
  info.last_break = std::move(last_break);
  for (const TicketImage& ticket : image.tickets) {
    if (ticket.system) continue;
    if (ticket.held) {
      info.holders.push_back(to_holder_info(ticket, now));
    } else {
      info.waiters.push_back(
          {to_public(ticket.owner), to_public(ticket.mode), left(ticket.lease_end, now)});
    }
  }
  return info;
}

std::optional<LockEvent> to_event(const machine::Effect& effect, Instant now) {
  if (effect.system) return std::nullopt;
  LockEvent event;
  switch (effect.kind) {
    case EffectKind::kQueued: event.kind = LockEventKind::kQueued; break;
    case EffectKind::kGranted:
      event.kind = LockEventKind::kGranted;
      event.token = to_public(effect.token);
      event.time_left = left(effect.lease_end, now);
      break;
    case EffectKind::kReleased:
      event.kind = LockEventKind::kReleased;
      event.token = to_public(effect.token);
      break;
    case EffectKind::kExpired:
      event.kind = LockEventKind::kExpired;
      event.token = to_public(effect.token);
      break;
    case EffectKind::kCancelled:
    case EffectKind::kDropped: event.kind = LockEventKind::kCancelled; break;
    case EffectKind::kBroken:
      event.kind = LockEventKind::kBroken;
      event.token = to_public(effect.token);
      break;
    case EffectKind::kExtended:
    case EffectKind::kDowngraded:
    case EffectKind::kResized:
    case EffectKind::kValueSet:
    case EffectKind::kTombstone:
    case EffectKind::kTombstoneDropped:
    case EffectKind::kForgotten: return std::nullopt;
  }
  event.name = effect.name;
  event.who = to_public(effect.owner);
  return event;
}

}  // namespace holdfast::port
