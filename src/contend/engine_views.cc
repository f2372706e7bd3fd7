// What people do to a lock, and what stands beside it. (What they ask: engine_look.cc.)
#include <algorithm>
#include <utility>

#include "src/contend/engine.h"
#include "src/contend/naming.h"
#include "src/port/outcome.h"

namespace holdfast::contend {
namespace {

using machine::Outcome;
using port::AcquisitionState;
using port::AcquisitionStatus;

constexpr int kAttempts = 8;
constexpr std::size_t kMostValue = 4096;

Result<bool> done_or_error(Outcome outcome, const std::string& name) {
  return port::to_done({.outcome = outcome}, name);
}

Error crowded(const std::string& name) {
  return {Errc::kUnavailable,
          of_lock(name) + "it changes all the time, so nothing was changed; try again"};
}

Error untold(const std::string& name, const Error& why) {
  return {why.code(),
          of_lock(name) +
              "nothing was changed: the token of who holds it cannot be told: " + why.message()};
}

}  // namespace

// --- Break.

void Engine::break_lock(port::BreakRequest request, const Done<bool>& done) {
  break_as_listed(std::make_shared<port::BreakRequest>(std::move(request)), done, kAttempts);
}

void Engine::break_as_listed(const std::shared_ptr<port::BreakRequest>& request,
                             const Done<bool>& done, int attempts) {
  backend_.list_in_full(
      request->name, request->deadline,
      [self = shared_from_this(), request, done, attempts](const Result<Listing>& listing) {
        if (self->closed_) return;
        if (!listing) return done(of_lock(request->name, listing.error()));
        self->break_in(request, done, attempts, *listing);
      });
}

void Engine::break_in(const std::shared_ptr<port::BreakRequest>& request, const Done<bool>& done,
                      int attempts, const Listing& listing) {
  const Record record = listing.record.value_or(Record{});
  const std::vector<bool> held = holders(listing.queue, record, listing.record_rev);
  const Place* found = nullptr;
  std::optional<Error> unreadable;
  for (std::size_t i = 0; i < listing.queue.size(); ++i) {
    const Place& place = listing.queue[i];
    if (!held[i] || !place.details) continue;
    if (place.details->unreadable) {
      if (!unreadable) unreadable = place.details->unreadable;
      continue;
    }
    if (token_of(*place.details, place.created, place.modified) == request->token) found = &place;
  }
  if (found == nullptr && unreadable) return done(untold(request->name, *unreadable));
  if (found == nullptr) return done(done_or_error(Outcome::kNotHeld, request->name));
  tell_of(request->name, listing);  // What is left.
  Change change;
  change.lock = request->name;
  change.epoch = 0;
  if (backend_.keeps_record()) {
    change.record_rev = listing.record_rev;
    change.record = still_valid(listing.queue, record, listing.record_rev);
    change.record->broken = Trace{request->token.counter, found->key.id, request->by};
  }
  change.removed.push_back(*found);
  for (const Place& place : listing.queue) {
    // Of another program's holder there is none.
    const bool upgrade = place.key.shape == Shape::kUpgrade;
    if (upgrade && place.key.upgrade_of == found->key.id) change.removed.push_back(place);
  }
  backend_.apply(
      std::move(change), request->deadline,
      [self = shared_from_this(), request, done, attempts,
       session = found->details->session](const Result<std::optional<std::uint64_t>>& applied) {
        if (!applied) return done(of_lock(request->name, applied.error()));
        if (!*applied) {
          if (attempts <= 1) return done(crowded(request->name));
          return self->break_as_listed(request, done, attempts - 1);
        }
        // Who asked may leave for good as soon as it is told, and would take the knock along.
        self->backend_.notify(session, [done] { done(true); });
      });
}

// --- Values.

void Engine::set_value(const port::AcquisitionRequest& request, std::string value,
                       Done<bool> done) {
  if (value.size() > kMostValue) return done(done_or_error(Outcome::kTooLarge, request.name));
  const TicketPtr ticket = find(request.name, request.id);
  if (!ticket || ticket->stage != Stage::kHeld) {
    return done(done_or_error(Outcome::kNotHeld, request.name));
  }
  Change change;
  change.lock = request.name;
  change.epoch = ticket->epoch;
  change.present = ticket->place;
  change.value = std::move(value);
  backend_.apply(std::move(change), request.deadline,
                 [name = request.name,
                  done = std::move(done)](const Result<std::optional<std::uint64_t>>& applied) {
                   if (!applied) return done(of_lock(name, applied.error()));
                   done(done_or_error(*applied ? Outcome::kDone : Outcome::kNotHeld, name));
                 });
}

void Engine::get_value(const std::string& name, BootInstant deadline, Done<std::string> done) {
  backend_.read_value(name, deadline, [name, done = std::move(done)](const Result<Value>& value) {
    if (!value) return done(of_lock(name, value.error()));
    done(value->bytes);
  });
}

// --- Weaker in place.

void Engine::downgrade(const port::AcquisitionRequest& request, Done<AcquisitionState> done) {
  const TicketPtr ticket = find(request.name, request.id);
  if (!ticket || ticket->stage != Stage::kHeld) {
    return done(AcquisitionState{.status = AcquisitionStatus::kGone});
  }
  switch (ticket->place.key.shape) {
    case Shape::kPermits:
    case Shape::kShrink:
      return done(port::to_ticket_state({.outcome = Outcome::kMismatch}, request.name, {}));
    case Shape::kShared: return done(state_of(*ticket));
    case Shape::kUpgrade:
      return end(request, [done = std::move(done)](const Result<port::EndStatus>& ended) {
        if (!ended) return done(ended.error());
        done(AcquisitionState{.status = AcquisitionStatus::kGone});
      });
    case Shape::kExclusive: break;
  }
  if (ticket->details.weakened) return done(state_of(*ticket));
  Details details = ticket->details;
  details.weakened = true;
  details.attempt = false;
  details.token = ticket->token.counter;
  ticket->rewriting = true;
  ticket->perhaps_weakened = true;
  backend_.write(ticket->epoch, request.name, ticket->place, details, request.deadline,
                 [self = shared_from_this(), ticket, details,
                  done = std::move(done)](const Result<std::optional<Read>>& written) {
                   ticket->rewriting = false;
                   if (!written) return done(written.error());
                   if (!*written || ticket->stage != Stage::kHeld) {
                     return done(AcquisitionState{.status = AcquisitionStatus::kGone});
                   }
                   ticket->details = details;
                   ticket->place.modified = (*written)->modified;
                   done(self->state_of(*ticket));
                 });
}

// --- N of a permits lock.

void Engine::resize(port::AcquisitionRequest request, std::uint32_t capacity,
                    const Done<bool>& done) {
  if (!request.id || capacity == 0) return done(done_or_error(Outcome::kInvalid, request.name));
  last_issue_ = std::max(last_issue_, request.issue);
  resize_as_listed(std::make_shared<port::AcquisitionRequest>(std::move(request)), capacity, done,
                   kAttempts);
}

void Engine::resize_as_listed(const std::shared_ptr<port::AcquisitionRequest>& request,
                              std::uint32_t capacity, const Done<bool>& done, int attempts) {
  backend_.list_in_full(request->name, request->deadline,
                        [self = shared_from_this(), request, capacity, done,
                         attempts](const Result<Listing>& listing) {
                          if (!listing) return done(of_lock(request->name, listing.error()));
                          self->resize_in(request, capacity, done, attempts, *listing);
                        });
}

void Engine::resize_in(const std::shared_ptr<port::AcquisitionRequest>& request,
                       std::uint32_t capacity, const Done<bool>& done, int attempts,
                       const Listing& listing) {
  if (listing.queue.empty()) return done(done_or_error(Outcome::kNotHeld, request->name));
  if (mode_of(listing.queue.front().key).kind != machine::ModeKind::kPermits) {
    return done(done_or_error(Outcome::kMismatch, request->name));
  }
  const Record record = listing.record.value_or(Record{});
  const std::uint32_t now = capacity_of(listing.queue, record, listing.record_rev);
  Change change;
  change.lock = request->name;
  std::vector<std::string> sessions;
  for (const Place& place : listing.queue) {
    const bool same =
        place.key.id == request->id && now > capacity && place.key.permits == now - capacity;
    if (same) return done(false);  // A repeated request keeps its place.
    if (place.key.shape == Shape::kShrink) change.removed.push_back(place);
    if (place.details) sessions.push_back(place.details->session);
  }
  if (change.removed.empty() && capacity == now) return done(true);
  if (change.removed.empty() && capacity < now) {
    return queue_shrink(*request, now - capacity, now, done);
  }
  change.record_rev = listing.record_rev;
  change.record = still_valid(listing.queue, record, listing.record_rev);
  change.record->capacity = std::max(capacity, now);
  backend_.apply(std::move(change), request->deadline,
                 [self = shared_from_this(), request, capacity, done, attempts, now,
                  sessions](const Result<std::optional<std::uint64_t>>& applied) {
                   if (!applied) return done(of_lock(request->name, applied.error()));
                   if (!*applied || capacity < now) {
                     if (attempts <= 1) return done(crowded(request->name));
                     return self->resize_as_listed(request, capacity, done, attempts - 1);
                   }
                   // Those who wait look at the folder only.
                   for (const auto& session : sessions) self->backend_.notify(session, [] {});
                   done(true);
                 });
}

void Engine::queue_shrink(const port::AcquisitionRequest& request, std::uint32_t by,
                          std::uint32_t from, const Done<bool>& done) {
  auto ticket = std::make_shared<Ticket>();
  ticket->request.name = request.name;
  ticket->request.id = request.id;
  ticket->request.mode = machine::Mode::of_permits(by, from);
  ticket->request.deadline = request.deadline;
  ticket->request.ttl = ticket->request.waiter_ttl = std::chrono::hours(24);
  ticket->place.key = key_for(request.id, ticket->request.mode, {});
  ticket->place.key.shape = Shape::kShrink;
  ticket->seq_at = base::BootClock::now();
  ticket->asks.emplace_back([done, name = request.name](const Result<AcquisitionState>& state) {
    if (!state) return done(of_lock(name, state.error()));
    done(state->status == AcquisitionStatus::kHeld);
  });
  tickets_[{request.name, request.id}] = ticket;
  enter(ticket);
}

// First N, then the ticket: in between, too few are let in rather than too many.
void Engine::finish_shrink(const TicketPtr& ticket) {
  backend_.list_in_full(
      ticket->request.name, soon(),
      [self = shared_from_this(), ticket](const Result<Listing>& listing) {
        if (!self->still_looking(ticket)) return;
        if (!listing) return self->look_failed(ticket, listing.error());
        const Record record = listing->record.value_or(Record{});
        const std::uint32_t now = capacity_of(listing->queue, record, listing->record_rev);
        Change change;
        change.lock = ticket->request.name;
        change.epoch = ticket->epoch;
        change.record_rev = listing->record_rev;
        change.record = still_valid(listing->queue, record, listing->record_rev);
        change.record->capacity = now - std::min(now - 1, ticket->place.key.permits);
        change.removed.push_back(ticket->place);
        std::vector<std::string> sessions;
        for (const Place& place : listing->queue) {
          if (place.details) sessions.push_back(place.details->session);
        }
        self->backend_.apply(
            std::move(change), self->soon(),
            [self, ticket, sessions](const Result<std::optional<std::uint64_t>>& applied) {
              if (!self->still_looking(ticket)) return;
              if (!applied) return self->look_failed(ticket, applied.error());
              if (!*applied) return self->look_with(ticket, false);
              ticket->verdict = AcquisitionState{.status = AcquisitionStatus::kHeld};
              self->ended(ticket, port::EndStatus::kReleased);
              for (const auto& session : sessions) self->backend_.notify(session, [] {});
            });
      });
}

}  // namespace holdfast::contend
