// Those who would not wait: when they may be told that a lock is busy.
//
// Before it has left, who was refused stands in the folder as a holder does. So none is refused for
// another's sake before that one has said which it is: who holds takes back the mark that it came
// with, unless it is released sooner; who was refused goes. Each looks at those before it only, and
// the first of all holds: they do not wait for one another in a circle.
#include <algorithm>
#include <utility>

#include "src/contend/engine.h"

namespace holdfast::contend {
namespace {

using port::AcquisitionState;
using port::AcquisitionStatus;

constexpr auto kPause = std::chrono::milliseconds(100);
constexpr auto kLongPause = std::chrono::seconds(1);
// In case the watch was missed.
constexpr auto kPoll = std::chrono::milliseconds(500);

}  // namespace

void Engine::refuse_to_wait(const TicketPtr& ticket, const Listing& listing, const Record& record,
                            const Decision& decision) {
  const auto doubt =
      in_doubt(listing.queue, ticket->place.key.id, record, listing.record_rev, decision);
  if (!doubt) {
    tell_who_is_kept_out(ticket->request.name, listing);
    return leave(ticket, AcquisitionState{.status = AcquisitionStatus::kBusy});
  }
  const bool many = ticket->place.key.shape == Shape::kPermits;
  if (!many || listing.queue[*doubt].details) {
    return ask_fate(ticket, listing, record, decision, *doubt);
  }
  // Several may be in doubt: one answer tells of all.
  backend_.list_in_full(ticket->request.name, soon(),
                        [self = shared_from_this(), ticket](Result<Listing> full) {
                          if (!self->still_looking(ticket)) return;
                          if (!full) return self->look_failed(ticket, full.error());
                          self->decide(ticket, *std::move(full), /*watching=*/false);
                        });
}

void Engine::ask_fate(const TicketPtr& ticket, Listing listing, const Record& record,
                      const Decision& decision, std::size_t at) {
  const Place place = listing.queue[at];
  const bool attempt = place.details && place.details->attempt;
  if (attempt) ticket->waker = waker_for(ticket);
  backend_.read(ticket->request.name, place, attempt ? ticket->waker : nullptr, soon(),
                [self = shared_from_this(), ticket, listing = std::move(listing), record, decision,
                 at, attempt](const Result<std::optional<Read>>& read) mutable {
                  if (!self->still_looking(ticket)) return;
                  if (!read) return self->look_failed(ticket, read.error());
                  if (!*read) {
                    ticket->head.reset();
                    return self->look_with(ticket, false);
                  }
                  if (attempt && (*read)->details.attempt) return self->stand_by(ticket);
                  Place& found = listing.queue[at];
                  found.details = (*read)->details;
                  found.created = (*read)->created;
                  found.modified = (*read)->modified;
                  self->refuse_to_wait(ticket, listing, record, decision);
                });
}

// Until the fate is known, or its own time is over (on_lease_end()).
void Engine::stand_by(const TicketPtr& ticket) {
  ticket->looking = false;
  ticket->standing_by = true;
  if (ticket->look_again) return look(ticket);
  at(base::BootClock::now() + kPoll, ticket, &Engine::look_at_fate);
}

void Engine::look_at_fate(const TicketPtr& ticket) {
  if (ticket->stage != Stage::kEntering || !ticket->standing_by || ticket->looking) return;
  ticket->head.reset();
  look(ticket);
}

// It holds what it would not have waited for, and others have to know.
void Engine::show_hold(const TicketPtr& ticket) {
  if (ticket->stage != Stage::kHeld || !ticket->details.attempt) return;
  const auto again = [self = shared_from_this(), ticket](auto pause) {
    self->at(base::BootClock::now() + pause, ticket, &Engine::show_hold);
  };
  if (ticket->rewriting) return again(kPause);  // That takes the mark back as well.
  Details details = ticket->details;
  details.attempt = false;
  details.token = ticket->token.counter;
  backend_.write(
      ticket->epoch, ticket->request.name, ticket->place, details, soon(),
      [self = shared_from_this(), ticket, again](const Result<std::optional<Read>>& written) {
        if (self->closed_ || ticket->stage != Stage::kHeld) return;
        if (!written) {
          const Errc code = written.error().code();
          const bool passing = code == Errc::kUnavailable || code == Errc::kOutcomeUnknown;
          return passing ? again(kPause) : again(kLongPause);
        }
        if (!*written) return self->find_out_why(ticket);
        ticket->place.modified = (*written)->modified;
        // Of a write that was asked for meanwhile the rest is newer.
        ticket->details.attempt = false;
        ticket->details.token = ticket->token.counter;
      });
}

}  // namespace holdfast::contend
