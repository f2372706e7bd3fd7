// How tickets leave, and what ends them.
#include <algorithm>
#include <utility>

#include "src/contend/engine.h"
#include "src/port/outcome.h"

namespace holdfast::contend {
namespace {

using port::AcquisitionState;
using port::AcquisitionStatus;
using port::EndStatus;

constexpr auto kPause = std::chrono::milliseconds(100);
constexpr auto kLongPause = std::chrono::seconds(1);
// Whoever gives up before the store was heard has given it so long for a sign of life: what is left
// of that is less than he waits for us (AcquireFsm::Terms::patience).
constexpr auto kSignOfLife = std::chrono::milliseconds(1500);

}  // namespace

void Engine::end(const port::AcquisitionRequest& request, Done<EndStatus> done) {
  const TicketPtr ticket = find(request.name, request.id);
  broken_.erase({request.name, request.id});
  if (!ticket) {
    last_issue_ = std::max(last_issue_, request.issue);  // It has overtaken its acquire.
    return done(EndStatus::kGone);
  }
  ticket->ends.push_back(std::move(done));
  ticket->request.deadline = std::max(ticket->request.deadline, request.deadline);
  if (ticket->stage == Stage::kLeaving && ticket->maybe_removed) return remove(ticket);
  if (ticket->stage != Stage::kLeaving)
    leave(ticket, AcquisitionState{.status = AcquisitionStatus::kGone});
}

TicketPtr Engine::upgrade_of(const TicketPtr& ticket) const {
  if (mode_of(ticket->place.key).kind == machine::ModeKind::kPermits) return nullptr;
  auto at = tickets_.lower_bound({ticket->request.name, {}});
  for (; at != tickets_.end() && at->first.first == ticket->request.name; ++at) {
    if (at->second->place.key.upgrade_of == ticket->place.key.id) return at->second;
  }
  return nullptr;
}

void Engine::leave(const TicketPtr& ticket, Result<AcquisitionState> verdict) {
  if (ticket->stage == Stage::kLeaving || ticket->stage == Stage::kEnded) return;
  // The upgrade of a ticket goes before it: both requests are applied in their order.
  if (const TicketPtr upgrade = upgrade_of(ticket)) {
    leave(upgrade, AcquisitionState{.status = AcquisitionStatus::kGone});
  }
  ticket->was_held = ticket->stage == Stage::kHeld;
  ticket->verdict = std::move(verdict);
  ticket->looking = false;
  ticket->waker = nullptr;
  ticket->stage = Stage::kLeaving;
  // What is asked for just now is removed when it is there.
  if (ticket->placed) return remove(ticket);
  if (ticket->sent) return;
  at(std::max(base::BootClock::now(), ticket->seq_at + kSignOfLife), ticket,
     &Engine::give_up_unsent);
}

// The store has not opened a session for it yet, and it is not to be waited for any longer.
void Engine::give_up_unsent(const TicketPtr& ticket) {
  if (ticket->stage != Stage::kLeaving || ticket->placed || ticket->sent) return;
  left_unheard(ticket, unheard(*ticket));
}

Error Engine::unheard(const Ticket& ticket) const {
  return ticket.unheard.value_or(
      Error(Errc::kUnavailable, backend_.guarantees().store + ": no server has answered so far"));
}

// Nothing of it is in the store, nor will be. That the store has said nothing is told, so that
// nobody takes it for a lock that others hold.
void Engine::left_unheard(const TicketPtr& ticket, const Error& error) {
  if (error.code() == Errc::kLost) return ended(ticket, EndStatus::kGone);
  ended(ticket, error);
}

void Engine::remove(const TicketPtr& ticket) {
  ticket->maybe_removed = false;
  const BootInstant deadline =
      ticket->ends.empty() ? soon() : std::max(ticket->request.deadline, base::BootClock::now());
  const auto done = [self = shared_from_this(), ticket](const Result<bool>& removed) {
    if (self->closed_ || ticket->stage == Stage::kEnded) return;
    self->on_removed(ticket, removed);
  };
  // Others stand behind whoever waited himself.
  const bool hands_on = ticket->was_held && ticket->waited && ticket->held_alone();
  if (!hands_on) {
    return backend_.remove(ticket->epoch, ticket->request.name, ticket->place, deadline, done);
  }
  backend_.handoff(ticket->epoch, ticket->request.name, ticket->place, ticket->token, deadline,
                   done);
}

void Engine::on_removed(const TicketPtr& ticket, const Result<bool>& removed) {
  const auto how = ticket->was_held ? EndStatus::kReleased : EndStatus::kCancelled;
  if (removed) {
    const bool by_us = *removed || ticket->removal_unanswered;
    return ended(ticket, by_us ? how : EndStatus::kGone);
  }
  const Errc code = removed.error().code();
  if (code == Errc::kLost) return ended(ticket, EndStatus::kGone);
  ticket->maybe_removed = true;
  ticket->removal_unanswered = ticket->removal_unanswered || code == Errc::kOutcomeUnknown;
  const bool passing = code == Errc::kOutcomeUnknown || code == Errc::kUnavailable;
  const BootInstant again =
      base::BootClock::now() + (passing ? kPause : std::chrono::milliseconds(kLongPause));
  at(again, ticket, &Engine::remove_again);
  if (passing && again < ticket->request.deadline) return;  // There is time to find out.
  auto ends = std::exchange(ticket->ends, {});
  for (const auto& done : ends) done(removed.error());
  answer(ticket, Error(Errc::kOutcomeUnknown, removed.error().message()));
}

void Engine::remove_again(const TicketPtr& ticket) {
  if (ticket->stage == Stage::kLeaving && ticket->maybe_removed) remove(ticket);
}

void Engine::ended(const TicketPtr& ticket, const Result<EndStatus>& how) {
  ticket->stage = Stage::kEnded;
  ticket->looking = false;
  ticket->waker = nullptr;
  if (ticket->lease_due) due_.erase(*std::exchange(ticket->lease_due, std::nullopt));
  const TicketName name{ticket->request.name, ticket->request.id};
  if (const auto found = tickets_.find(name); found != tickets_.end() && found->second == ticket) {
    tickets_.erase(found);
  }
  auto ends = std::exchange(ticket->ends, {});
  for (const auto& done : ends) done(how);
  answer(ticket, ticket->verdict.value_or(AcquisitionState{.status = AcquisitionStatus::kGone}));
}

// Its contender is not there any more, and it was not us.
void Engine::taken_away(const TicketPtr& ticket) {
  ticket->looking = false;
  const bool told = ticket->told || ticket->stage == Stage::kHeld;
  if (const TicketPtr upgrade = upgrade_of(ticket)) {
    leave(upgrade, AcquisitionState{.status = AcquisitionStatus::kGone});
  }
  ended(ticket, EndStatus::kGone);
  if (told) push(ticket, port::Push::Kind::kHint);
}

// --- What ends them from outside.

void Engine::on_session_ended(std::uint64_t epoch, const Error&) {
  if (closed_) return;
  std::vector<TicketPtr> told;
  std::vector<TicketPtr> mine;
  for (const auto& [name, ticket] : tickets_) {
    if (ticket->epoch == epoch) mine.push_back(ticket);
  }
  for (const TicketPtr& ticket : mine) {
    if (ticket->stage == Stage::kEntering && !ticket->placed) continue;  // It is told kLost.
    if (ticket->stage == Stage::kHeld || ticket->stage == Stage::kWaiting) told.push_back(ticket);
    ended(ticket, EndStatus::kGone);
  }
  hint(told);
}

void Engine::on_notify() {
  if (closed_) return;
  std::vector<TicketPtr> mine;
  for (const auto& [name, ticket] : tickets_) mine.push_back(ticket);
  for (const TicketPtr& ticket : mine) {
    if (ticket->stage == Stage::kWaiting) look(ticket);
    look_whether_there(ticket);
  }
}

// A knock comes once: what could not be looked at is looked at again.
void Engine::look_whether_there(const TicketPtr& ticket) {
  if (ticket->stage != Stage::kHeld) return;
  backend_.read(ticket->request.name, ticket->place, nullptr, soon(),
                [self = shared_from_this(), ticket](const Result<std::optional<Read>>& read) {
                  if (self->closed_ || ticket->stage != Stage::kHeld) return;
                  if (read && !*read) return self->find_out_why(ticket);
                  const Errc code = read ? Errc::kLost : read.error().code();
                  if (code != Errc::kUnavailable && code != Errc::kOutcomeUnknown) return;
                  self->at(base::BootClock::now() + kPause, ticket, &Engine::look_whether_there);
                });
}

void Engine::find_out_why(const TicketPtr& ticket) {
  backend_.read_record(
      ticket->request.name, soon(),
      [self = shared_from_this(), ticket](const Result<std::pair<Record, std::uint64_t>>& record) {
        if (self->closed_ || ticket->stage != Stage::kHeld) return;
        const bool broken =
            record && record->first.broken && record->first.broken->token == ticket->token.counter;
        if (broken) {
          const Trace& trace = *record->first.broken;
          const BreakInfo info{port::to_public(ticket->token), port::to_public(trace.by)};
          const Error why = port::broken_error(ticket->request.name, info);
          self->broken_.insert_or_assign({ticket->request.name, ticket->request.id}, why);
          ticket->verdict = why;  // For a renewal that is under way.
        }
        self->taken_away(ticket);
      });
}

Error Engine::keepalives_unanswered() {
  return {Errc::kUnavailable, "the session's keepalives are not answered"};
}

// Whoever asks first is told why he has no answer. Later on nobody may be: waiters go on.
void Engine::note_failure(const Error& error) {
  const bool passing = error.code() == Errc::kUnavailable || error.code() == Errc::kOutcomeUnknown;
  if (!passing || !answered_ || std::exchange(away_, true)) return;
  away_since_ = backend_.session();
  on_alarm(backend_.guarantees().store +
           ": the store does not serve at present; who waits goes on waiting, leases last until "
           "their deadlines: " +
           error.message());
}

void Engine::note_answer() {
  answered_ = true;
  if (!away_ || backend_.session().in_doubt) return;
  away_ = false;
  on_alarm(backend_.guarantees().store + ": the store serves again");
}

void Engine::note_session(const SessionView& session) {
  if (session.epoch == 0) return;
  if (session.in_doubt) return note_failure(keepalives_unanswered());
  if (!away_) return;
  if (session.epoch != away_since_.epoch || session.deadline > away_since_.deadline) note_answer();
}

void Engine::on_alarm(const std::string& line) {
  if (!closed_) listener_->on_alarm(line);
}

void Engine::close() {
  if (std::exchange(closed_, true)) return;
  timer_.stop();
  due_.clear();
  awaiting_session_.clear();
  const Error closed(Errc::kClosed, "the client was closed");
  for (const auto& [name, ticket] : std::exchange(tickets_, {})) {
    ticket->stage = Stage::kEnded;
    ticket->waker = nullptr;
    ticket->lease_due.reset();
    auto ends = std::exchange(ticket->ends, {});
    for (const auto& done : ends) done(closed);
    answer(ticket, closed);
  }
}

}  // namespace holdfast::contend
