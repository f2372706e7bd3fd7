// How tickets come to hold, or wait.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/contend/engine.h"
#include "src/port/outcome.h"

namespace holdfast::contend {
namespace {

using machine::Outcome;
using port::AcquisitionState;
using port::AcquisitionStatus;

constexpr auto kPause = std::chrono::milliseconds(100);
// What is held for less than that costs no write more; who would not wait is delayed by no more.
constexpr auto kShown = std::chrono::milliseconds(20);
// Records are remembered as readable of so many locks.
constexpr std::size_t kMostReadable = 4096;

bool any_upgrade(const Listing& listing) {
  for (const Place& place : listing.queue) {
    if (place.key.shape == Shape::kUpgrade) return true;
  }
  return false;
}

// The lock as far as an error tells of it.
machine::LockImage image_of(const Listing& listing, const Record& record) {
  machine::LockImage image;
  if (listing.queue.empty()) return image;
  image.kind = mode_of(listing.queue.front().key).kind == machine::ModeKind::kPermits
                   ? machine::ModeKind::kPermits
                   : machine::ModeKind::kExclusive;
  image.capacity = capacity_of(listing.queue, record, listing.record_rev);
  return image;
}

}  // namespace

bool Engine::still_looking(const TicketPtr& ticket) const { return !closed_ && ticket->looking; }

// What blocked it may have gone.
void Engine::look(const TicketPtr& ticket) {
  if (ticket->stage != Stage::kWaiting && ticket->stage != Stage::kEntering) return;
  if (ticket->looking) {
    ticket->look_again = true;
    return;
  }
  ticket->looking = true;
  look_with(ticket, /*watching=*/false);
}

void Engine::look_with(const TicketPtr& ticket, bool watching) {
  ticket->look_again = false;
  ticket->standing_by = false;
  ticket->waker = nullptr;
  ticket->blocker.reset();
  if (watching) {
    ticket->waker = waker_for(ticket);
  }
  ticket->asks_seen = ticket->asks.size();
  backend_.list(ticket->request.name, /*latest=*/false, ticket->waker, soon(),
                [self = shared_from_this(), ticket, watching](Result<Listing> listing) {
                  if (!self->still_looking(ticket)) return;
                  if (!listing) return self->look_failed(ticket, listing.error());
                  self->decide(ticket, *std::move(listing), watching);
                });
}

WakerPtr Engine::waker_for(const TicketPtr& ticket) {
  auto waker = std::make_shared<Waker>();
  waker->wake = [weak = weak_from_this(), waiting = std::weak_ptr(ticket)] {
    const auto self = weak.lock();
    const TicketPtr woken = waiting.lock();
    if (!self || !woken || self->closed_) return;
    woken->head.reset();
    self->look(woken);
  };
  return waker;
}

void Engine::decide(const TicketPtr& ticket, Listing listing, bool watching) {
  note_answer();
  if (listing.refusal) return look_failed(ticket, *listing.refusal);
  for (Place& place : listing.queue) {
    if (place.key == ticket->place.key) place.created = ticket->place.created;
    if (!ticket->head || place.key != ticket->head->key || place.details) continue;
    if (place.order != ticket->head->order) continue;  // The name came again.
    place = *ticket->head;
  }
  const bool needed =
      ticket->place.key.shape == Shape::kPermits || ticket->system() || any_upgrade(listing);
  if (listing.record) {
    const Record record = *listing.record;
    return decide_by(ticket, listing, record, watching);
  }
  // A later version says by the record that the queue is not to be read as this one reads it: so
  // nobody is let in beside a record that was not read, also where it would decide nothing.
  const bool known = !needed && is_readable(ticket->request.name, listing.record_rev);
  if (known || listing.record_rev == 0) return decide_by(ticket, listing, {}, watching);
  backend_.read_record(ticket->request.name, soon(),
                       [self = shared_from_this(), ticket, watching, listing = std::move(listing)](
                           const Result<std::pair<Record, std::uint64_t>>& record) mutable {
                         if (!self->still_looking(ticket)) return;
                         if (!record) return self->look_failed(ticket, record.error());
                         self->note_readable(ticket->request.name, record->second);
                         listing.record_rev = record->second;
                         self->decide_by(ticket, listing, record->first, watching);
                       });
}

bool Engine::is_readable(const std::string& lock, std::uint64_t record_rev) const {
  const auto read = readable_.find(lock);
  return read != readable_.end() && read->second == record_rev;
}

void Engine::note_readable(const std::string& lock, std::uint64_t record_rev) {
  if (readable_.size() >= kMostReadable) readable_.clear();
  readable_[lock] = record_rev;
}

void Engine::decide_by(const TicketPtr& ticket, const Listing& listing, const Record& record,
                       bool watching) {
  const Decision decision =
      contend::decide(listing.queue, ticket->place.key.id, record, listing.record_rev);
  ticket->ahead = decision.ahead;
  switch (decision.verdict) {
    case Verdict::kHolds: return admit(ticket, listing.record_rev);
    case Verdict::kHoldsIfSettled: return settle(ticket, listing, record);
    case Verdict::kLook: return read_head(ticket, listing, record, decision.blocker);
    case Verdict::kGone:
      if (ticket->place.key.shape == Shape::kUpgrade) {
        return leave(ticket, port::to_acquire_result({.outcome = Outcome::kInvalid},
                                                     ticket->request, nullptr, {}));
      }
      return taken_away(ticket);
    case Verdict::kMismatch:
    case Verdict::kTooLarge:
    case Verdict::kWouldDeadlock: return refuse_late(ticket, decision, listing, record);
    case Verdict::kWaits:
    case Verdict::kWaitsForAny: break;
  }
  if (!ticket->request.may_wait) return refuse_to_wait(ticket, listing, record, decision);
  // Who comes is told how many wait before it, and may be refused for their number.
  if (!ticket->waited) {
    if (const auto head = unread_head(listing.queue, ticket->place.key.id)) {
      return read_head(ticket, listing, record, *head);
    }
  }
  const std::uint32_t limit = ticket->request.max_waiters;
  const bool counted = !ticket->waited && limit != 0;
  // An upgrade, too, which has nobody ahead of it.
  if (counted &&
      waiting_before(listing.queue, ticket->place.key.id, record, listing.record_rev) >= limit) {
    return leave(ticket,
                 port::to_ticket_state({.outcome = Outcome::kQueueFull}, ticket->request.name, {}));
  }
  ticket->waited = true;
  // Whoever watches the folder is woken by everything.
  if (watching) return stand_waiting(ticket);
  if (decision.verdict == Verdict::kWaitsForAny) return look_with(ticket, /*watching=*/true);
  wait_for(ticket, listing.queue[decision.blocker]);
}

void Engine::refuse_late(const TicketPtr& ticket, const Decision& decision, const Listing& listing,
                         const Record& record) {
  const Outcome outcome = decision.verdict == Verdict::kMismatch   ? Outcome::kMismatch
                          : decision.verdict == Verdict::kTooLarge ? Outcome::kTooLarge
                                                                   : Outcome::kWouldDeadlock;
  const machine::LockImage image = image_of(listing, record);
  leave(ticket, port::to_acquire_result({.outcome = outcome}, ticket->request, &image, {}));
}

void Engine::read_head(const TicketPtr& ticket, Listing listing, const Record& record,
                       std::size_t head) {
  const Place place = listing.queue[head];
  backend_.read(ticket->request.name, place, nullptr, soon(),
                [self = shared_from_this(), ticket, listing = std::move(listing), record,
                 head](const Result<std::optional<Read>>& read) mutable {
                  if (!self->still_looking(ticket)) return;
                  if (!read) return self->look_failed(ticket, read.error());
                  if (!*read) return self->look_with(ticket, false);
                  Place& found = listing.queue[head];
                  found.details = (*read)->details;
                  found.created = (*read)->created;
                  found.modified = (*read)->modified;
                  ticket->head = found;
                  self->decide_by(ticket, listing, record, /*watching=*/false);
                });
}

// Sets the watch, and looks whether it was set too late.
void Engine::wait_for(const TicketPtr& ticket, const Place& blocker) {
  ticket->waker = waker_for(ticket);
  ticket->waker->handed_on = [weak = weak_from_this(), waiting = std::weak_ptr(ticket),
                              blocker](const machine::Token& last) {
    const auto self = weak.lock();
    const TicketPtr next = waiting.lock();
    if (self && next && !self->closed_) self->on_handed_on(next, blocker, last);
  };
  ticket->asks_seen = ticket->asks.size();
  backend_.read(
      ticket->request.name, blocker, ticket->waker, soon(),
      [self = shared_from_this(), ticket, blocker](const Result<std::optional<Read>>& read) {
        if (!self->still_looking(ticket)) return;
        if (!read) return self->look_failed(ticket, read.error());
        const bool reads = ticket->place.key.shape == Shape::kShared;
        // What cannot be read may be marked: whoever is told of it only by its end could miss that.
        const bool marked = *read && ((*read)->details.marked || (*read)->details.unreadable) &&
                            ticket->place.key.shape == Shape::kPermits;
        const bool weakened = *read && (*read)->details.weakened && reads;
        if (!*read || weakened) {
          ticket->head.reset();
          return self->look_with(ticket, false);
        }
        if (*read && (*read)->details.unreadable) {
          Listing seen;
          seen.queue.push_back(blocker);
          seen.queue.back().details = (*read)->details;
          self->tell_who_is_kept_out(ticket->request.name, seen);
        }
        // Whom it waited for was admitted before the watch stood.
        if (marked) return self->look_with(ticket, /*watching=*/true);
        ticket->blocker = blocker;
        self->stand_waiting(ticket);
      });
}

// The one before it has held alone, and gone: nobody is left before it. Tokens that were granted so
// far are no larger than that one's.
void Engine::on_handed_on(const TicketPtr& ticket, const Place& by, const machine::Token& last) {
  const bool next = ticket->stage == Stage::kWaiting && !ticket->looking && ticket->blocker &&
                    ticket->blocker->key == by.key && ticket->blocker->order == by.order;
  const bool newer = ticket->place.created != 0 && ticket->place.created > last.counter;
  const bool alike = ticket->place.key.shape == Shape::kExclusive && !ticket->details.marked;
  const SessionView session = backend_.session();
  const bool lives = ticket->epoch == session.epoch && session.deadline > base::BootClock::now();
  if (next && newer && alike && lives) {
    ticket->looking = true;
    return admit(ticket, last.counter);
  }
  ticket->head.reset();
  look(ticket);
}

// The safety poll: one small answer, however long the queue is.
void Engine::look_at_blocker(const TicketPtr& ticket, BootInstant deadline) {
  if (ticket->looking) return;  // It is answered at the end of that.
  if (!ticket->blocker) return look(ticket);
  ticket->looking = true;
  ticket->asks_seen = ticket->asks.size();
  backend_.read(ticket->request.name, *ticket->blocker, nullptr, deadline,
                [self = shared_from_this(), ticket](const Result<std::optional<Read>>& read) {
                  if (!self->still_looking(ticket)) return;
                  ticket->looking = false;
                  if (!read) {
                    self->note_failure(read.error());
                    self->answer(ticket, read.error());
                    if (ticket->look_again) self->look(ticket);
                    return;
                  }
                  self->note_answer();
                  const bool same = *read && !(*read)->details.weakened && !(*read)->details.marked;
                  if (same) return self->tell_waiting(ticket);
                  self->look(ticket);
                });
}

void Engine::stand_waiting(const TicketPtr& ticket) {
  ticket->looking = false;
  ticket->told = true;
  ticket->stage = Stage::kWaiting;
  tell_waiting(ticket);
}

// Who has asked since the store was asked last may know better: told by another look.
void Engine::tell_waiting(const TicketPtr& ticket) {
  auto asks = std::exchange(ticket->asks, {});
  const std::size_t seen = std::min(ticket->asks_seen, asks.size());
  for (std::size_t i = seen; i < asks.size(); ++i) ticket->asks.push_back(std::move(asks[i]));
  asks.resize(seen);
  for (const auto& done : asks) done(state_of(*ticket));
  if (ticket->look_again) return look(ticket);
  if (ticket->stage == Stage::kWaiting && !ticket->asks.empty()) look_at_blocker(ticket, soon());
}

// An answer that failed: it stands where it stood, and looks again.
void Engine::look_failed(const TicketPtr& ticket, const Error& error) {
  const bool passing = error.code() == Errc::kUnavailable || error.code() == Errc::kOutcomeUnknown;
  if (error.code() == Errc::kLost) {
    ticket->looking = false;  // on_session_ended() comes, or has been.
    return;
  }
  note_failure(error);
  if (!passing || !ticket->request.may_wait) return leave(ticket, error);
  ticket->looking = false;
  ticket->told = true;
  ticket->stage = Stage::kWaiting;
  answer(ticket, state_of(*ticket));
  at(base::BootClock::now() + kPause, ticket, &Engine::look);
}

// --- Holding.

// Of those who would newly hold beside an upgrade one may: whoever writes the record as it was.
void Engine::settle(const TicketPtr& ticket, const Listing& listing, const Record& record) {
  Change change;
  change.lock = ticket->request.name;
  change.epoch = ticket->epoch;
  change.record_rev = listing.record_rev;
  change.record = still_valid(listing.queue, record, listing.record_rev);
  if (ticket->place.key.shape == Shape::kUpgrade) change.record->upgrade = ticket->place.key.id;
  change.present = ticket->place;
  backend_.apply(
      std::move(change), soon(),
      [self = shared_from_this(), ticket](const Result<std::optional<std::uint64_t>>& applied) {
        if (!self->still_looking(ticket)) return;
        if (!applied) return self->look_failed(ticket, applied.error());
        if (!*applied) return self->look_with(ticket, false);
        self->admit(ticket, **applied);
      });
}

void Engine::admit(const TicketPtr& ticket, std::uint64_t record_rev) {
  if (ticket->system()) return finish_shrink(ticket);
  if (backend_.gated() && !ticket->details.marked) return pass_gate(ticket);
  if (ticket->place.created == 0) return learn_number(ticket, record_rev);
  if (ticket->marked_late) return outdate_others(ticket);
  // There are no upgrades of permits: they are granted in the order of creation. Who waits behind
  // one watches for its mark.
  const bool permits = ticket->place.key.shape == Shape::kPermits;
  const bool shown = permits && ticket->waited;
  const auto token = token_at_grant(ticket->details, ticket->place.created, ticket->place.modified,
                                    permits ? 0 : record_rev);
  if (!token || (shown && !ticket->details.marked)) return mark(ticket, token);
  ticket->token = *token;
  grant(ticket);
}

// It was found again after a lost reply.
void Engine::learn_number(const TicketPtr& ticket, std::uint64_t record_rev) {
  backend_.read(
      ticket->request.name, ticket->place, nullptr, soon(),
      [self = shared_from_this(), ticket, record_rev](const Result<std::optional<Read>>& read) {
        if (!self->still_looking(ticket)) return;
        if (!read) return self->look_failed(ticket, read.error());
        if (!*read) return self->taken_away(ticket);
        ticket->place.created = (*read)->created;
        ticket->place.modified = (*read)->modified;
        self->admit(ticket, record_rev);
      });
}

// `token`: its own; otherwise the number of this write is, which is larger than those of tickets
// that come behind it.
void Engine::mark(const TicketPtr& ticket, std::optional<machine::Token> token) {
  Details details = ticket->details;
  details.marked = true;
  details.attempt = false;
  if (token) details.token = token->counter;
  backend_.write(ticket->epoch, ticket->request.name, ticket->place, details, soon(),
                 [self = shared_from_this(), ticket, details,
                  late = !token](const Result<std::optional<Read>>& written) {
                   if (!self->still_looking(ticket)) return;
                   if (!written) return self->look_failed(ticket, written.error());
                   if (!*written) return self->taken_away(ticket);
                   ticket->details = details;
                   ticket->place.created = (*written)->created;
                   ticket->place.modified = (*written)->modified;
                   ticket->token = token_of(details, ticket->place.created, ticket->place.modified);
                   if (!late) return self->grant(ticket);
                   ticket->marked_late = true;
                   self->outdate_others(ticket);
                 });
}

// Who was created before the mark has a smaller number, and holds later: by the record he knows.
void Engine::outdate_others(const TicketPtr& ticket) {
  backend_.list_in_full(
      ticket->request.name, soon(),
      [self = shared_from_this(), ticket](const Result<Listing>& listing) {
        if (!self->still_looking(ticket)) return;
        if (!listing) return self->look_failed(ticket, listing.error());
        if (listing->record_rev > ticket->place.modified) return self->grant(ticket);
        Change change;
        change.lock = ticket->request.name;
        change.epoch = ticket->epoch;
        change.record_rev = listing->record_rev;
        change.record =
            still_valid(listing->queue, listing->record.value_or(Record{}), listing->record_rev);
        change.present = ticket->place;
        self->backend_.apply(std::move(change), self->soon(),
                             [self, ticket](const Result<std::optional<std::uint64_t>>& applied) {
                               if (!self->still_looking(ticket)) return;
                               if (!applied) return self->look_failed(ticket, applied.error());
                               if (!*applied) return self->look_with(ticket, false);
                               self->grant(ticket);
                             });
      });
}

void Engine::pass_gate(const TicketPtr& ticket) {
  Details details = ticket->details;
  details.marked = true;
  details.attempt = false;
  ticket->waker = waker_for(ticket);
  ticket->asks_seen = ticket->asks.size();
  backend_.pass_gate(
      ticket->epoch, ticket->request.name, ticket->place, details, ticket->waker, soon(),
      [self = shared_from_this(), ticket, details](const Result<Gate>& gate) {
        if (!self->still_looking(ticket)) return;
        if (!gate) return self->look_failed(ticket, gate.error());
        ticket->opens_at.reset();
        if (gate->passed) {
          ticket->details = details;
          ticket->place.created = gate->passed->created;
          ticket->place.modified = gate->passed->modified;
          ticket->token = token_of(details, ticket->place.created, ticket->place.modified);
          return self->grant(ticket);
        }
        if (gate->opens_in) ticket->opens_at = base::BootClock::now() + *gate->opens_in;
        if (!ticket->request.may_wait) {
          return self->leave(ticket, AcquisitionState{.status = AcquisitionStatus::kBusy,
                                                      .next_expiry = gate->opens_in});
        }
        ticket->waited = true;
        self->stand_waiting(ticket);
      });
}

void Engine::grant(const TicketPtr& ticket) {
  ticket->looking = false;
  ticket->waker = nullptr;
  ticket->blocker.reset();
  ticket->head.reset();
  ticket->stage = Stage::kHeld;
  ticket->marked_late = false;
  ticket->ahead = 0;
  ticket->told_until = told_until(*ticket, backend_.session());
  if (ticket->details.attempt) {
    at(base::BootClock::now() + kShown, ticket, &Engine::show_hold);
  }
  if (ticket->told) push(ticket, port::Push::Kind::kGranted);
  answer(ticket, state_of(*ticket));
}

}  // namespace holdfast::contend
