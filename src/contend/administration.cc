// Changes a lock on behalf of people, and reads the value beside it. (Looking at locks:
// administration_look.cc.)
#include "src/contend/administration.h"

#include <algorithm>
#include <utility>

#include "src/contend/answers.h"
#include "src/contend/naming.h"
#include "src/port/outcome.h"

namespace holdfast::contend {
namespace {

using machine::Outcome;

constexpr int kAttempts = 8;

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

void Administration::break_lock(port::BreakRequest request, const Done<bool>& done) {
  break_as_listed(std::make_shared<port::BreakRequest>(std::move(request)), done, kAttempts);
}

void Administration::break_as_listed(const std::shared_ptr<port::BreakRequest>& request,
                                     const Done<bool>& done, int attempts) {
  backend_.list_in_full(
      request->name, request->deadline,
      [self = shared_from_this(), request, done, attempts](const Result<Listing>& listing) {
        if (self->closed_) return done(closed_error());
        if (!listing) return done(of_lock(request->name, listing.error()));
        self->break_in(request, done, attempts, *listing);
      });
}

void Administration::break_in(const std::shared_ptr<port::BreakRequest>& request,
                              const Done<bool>& done, int attempts, const Listing& listing) {
  const Record record = listing.record.value_or(Record{});
  const std::vector<bool> held = holders(listing.queue, record, listing.record_rev);
  const QueueEntry* found = nullptr;
  const Error* unreadable = nullptr;
  for (std::size_t i = 0; i < listing.queue.size(); ++i) {
    const QueueEntry& place = listing.queue[i];
    if (!held[i] || !place.details) continue;
    if (place.details->unreadable) {
      if (unreadable == nullptr) unreadable = place.details->unreadable.get();
      continue;
    }
    if (token_of(*place.details, place.created, place.modified) == request->token) found = &place;
  }
  if (found == nullptr && unreadable != nullptr) return done(untold(request->name, *unreadable));
  if (found == nullptr) return done(done_or_error(Outcome::kNotHeld, request->name));
  tell_of(request->name, listing);  // The entries that remain.
  Change change;
  change.lock = request->name;
  change.epoch = 0;
  if (backend_.keeps_record()) {
    change.record_rev = listing.record_rev;
    change.record = still_valid(listing.queue, record, listing.record_rev);
    change.record->broken = Trace{request->token.counter, found->key.id, request->by};
  }
  change.removed.push_back(*found);
  for (const QueueEntry& place : listing.queue) {
    // A holder of another program has no details.
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
        // The answer waits for the notification, because the caller may end its client as soon as
        // it has the answer.
        self->backend_.notify(session, [done] { done(true); });
      });
}

// --- Values.

void Administration::get_value(const std::string& name, BootInstant deadline,
                               Done<std::string> done) {
  backend_.read_value(name, deadline, [name, done = std::move(done)](const Result<Value>& value) {
    if (!value) return done(of_lock(name, value.error()));
    done(value->bytes);
  });
}

// --- N of a permits lock.

void Administration::resize(const port::AcquisitionRequest& request, std::uint32_t capacity,
                            const Done<bool>& done) {
  if (!request.id || capacity == 0) return done(done_or_error(Outcome::kInvalid, request.name));
  resize_as_listed(std::make_shared<port::AcquisitionRequest>(request), capacity, done, kAttempts);
}

void Administration::resize_as_listed(const std::shared_ptr<port::AcquisitionRequest>& request,
                                      std::uint32_t capacity, const Done<bool>& done,
                                      int attempts) {
  backend_.list_in_full(request->name, request->deadline,
                        [self = shared_from_this(), request, capacity, done,
                         attempts](const Result<Listing>& listing) {
                          if (self->closed_) return done(closed_error());
                          if (!listing) return done(of_lock(request->name, listing.error()));
                          self->resize_in(request, capacity, done, attempts, *listing);
                        });
}

void Administration::resize_in(const std::shared_ptr<port::AcquisitionRequest>& request,
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
  for (const QueueEntry& place : listing.queue) {
    const bool same =
        place.key.id == request->id && now > capacity && place.key.permits == now - capacity;
    if (same) return done(false);  // A repeated request changes nothing.
    if (place.key.shape == Shape::kShrink) change.removed.push_back(place);
    if (place.details) sessions.push_back(place.details->session);
  }
  if (change.removed.empty() && capacity == now) return done(true);
  if (change.removed.empty() && capacity < now) {
    return shrink_(*request, now - capacity, now, done);
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
                   // Waiters watch the folder only, so they are notified.
                   for (const auto& session : sessions) self->backend_.notify(session, [] {});
                   done(true);
                 });
}

}  // namespace holdfast::contend
