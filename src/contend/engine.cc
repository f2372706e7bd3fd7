// How tickets come in; what is said of them.
#include "src/contend/engine.h"

#include <algorithm>
#include <utility>

#include "src/base/random.h"
#include "src/port/outcome.h"

namespace holdfast::contend {
namespace {

using port::AcquisitionState;
using port::AcquisitionStatus;

// For what nobody waits for: looked at again, and again.
constexpr auto kBackground = std::chrono::seconds(5);
constexpr auto kPause = std::chrono::milliseconds(100);
constexpr auto kTick = std::chrono::milliseconds(20);
// A confirmation of the session is taken to be answered within this part of its length.
constexpr int kAnswersPerSession = 100;
// As the session layer's (src/session/deadline.h): one part in so many.
constexpr int kRateError = 100;
// So many are told one by one; beyond, everybody is told to ask.
constexpr std::size_t kMostHints = 32;

bool well_formed(const port::AcquireRequest& request) {
  if (request.name.empty() || !request.id || request.ttl <= machine::Duration::zero()) return false;
  if (request.may_wait && request.waiter_ttl <= machine::Duration::zero()) return false;
  if (request.upgrade_of && request.mode.kind != machine::ModeKind::kExclusive) return false;
  return request.mode.kind != machine::ModeKind::kPermits ||
         (request.mode.permits > 0 && request.mode.capacity > 0);
}

bool counts_permits(const Ticket& ticket) {
  return mode_of(ticket.place.key).kind == machine::ModeKind::kPermits;
}

}  // namespace

Engine::Engine(Backend& backend, const port::StoreContext& context, machine::Duration min_ttl)
    : backend_(backend),
      listener_(context.listener),
      min_ttl_(min_ttl),
      timer_(*context.io, [this] { on_timer(); }) {}

Engine::BootInstant Engine::soon() const { return base::BootClock::now() + kBackground; }

TicketPtr Engine::find(const std::string& name, const machine::AcquisitionId& id) const {
  const auto found = tickets_.find({name, id});
  return found == tickets_.end() ? nullptr : found->second;
}

std::optional<Error> Engine::refuse(const port::AcquireRequest& request) const {
  if (!well_formed(request)) {
    return port::to_acquire_result({.outcome = machine::Outcome::kInvalid}, request, nullptr, {})
        .error();
  }
  if (request.ttl < min_ttl_) {
    return Error(Errc::kInvalidArgument,
                 "a ttl of " + std::to_string(request.ttl.count() / 1000) +
                     " ms is shorter than the session's " +
                     std::to_string(min_ttl_.count() / 1000) +
                     " ms: ask for a longer one, or set a shorter session in the store's URL");
  }
  return std::nullopt;
}

// Of what its owner was not told to be a shared lease that it holds.
std::optional<Error> Engine::refuse_upgrade(const port::AcquireRequest& request) const {
  if (!request.upgrade_of) return std::nullopt;
  const TicketPtr base = find(request.name, request.upgrade_of);
  if (base == nullptr || (base->stage != Stage::kHeld && !counts_permits(*base))) {
    return port::to_acquire_result({.outcome = machine::Outcome::kInvalid}, request, nullptr, {})
        .error();
  }
  const bool shared = base->place.key.shape == Shape::kShared || base->details.weakened;
  if (shared) return std::nullopt;
  return port::to_ticket_state({.outcome = machine::Outcome::kInvalid}, request.name, {}).error();
}

void Engine::acquire(port::AcquireRequest request, BootInstant now, Done<AcquisitionState> done) {
  if (const TicketPtr known = find(request.name, request.id)) {
    if (known->stage == Stage::kHeld || known->stage == Stage::kWaiting) {
      return done(state_of(*known));
    }
    known->request.deadline = std::max(known->request.deadline, request.deadline);
    known->asks.push_back(std::move(done));
    return;
  }
  if (auto error = refuse(request)) return done(*std::move(error));
  // An acquisition that has ended is not begun anew.
  if (request.issue != 0 && request.issue <= last_issue_) {
    return done(AcquisitionState{.status = AcquisitionStatus::kGone});
  }
  last_issue_ = std::max(last_issue_, request.issue);
  if (auto error = refuse_upgrade(request)) return done(*std::move(error));

  auto ticket = std::make_shared<Ticket>();
  const TicketPtr upgraded = request.upgrade_of ? find(request.name, request.upgrade_of) : nullptr;
  ticket->place.key = key_for(request.id, request.mode,
                              upgraded ? upgraded->place.key.id : machine::AcquisitionId{});
  ticket->details.owner = request.owner;
  ticket->details.attempt = !request.may_wait && backend_.rewrites();
  ticket->seq_at = now;
  ticket->request = std::move(request);
  ticket->asks.push_back(std::move(done));
  tickets_[{ticket->request.name, ticket->request.id}] = ticket;
  enter(ticket);
}

void Engine::enter(const TicketPtr& ticket) {
  const SessionView session = backend_.session();
  // Not past those who wait for the session, and are about to be told that it is there.
  if (session.epoch != 0 && awaiting_session_.empty()) return enter_in(ticket, session);
  awaiting_session_.push_back(ticket);
  at(ticket->request.deadline, ticket, &Engine::give_up_session);
  backend_.ensure_session(ticket->request.deadline,
                          [self = shared_from_this(), ticket](const Result<SessionView>& opened) {
                            if (!self->closed_) self->enter_all(ticket, opened);
                          });
}

// Whoever is told first, all enter in the order in which they came.
void Engine::enter_all(const TicketPtr& told, const Result<SessionView>& opened) {
  const auto found = std::find(awaiting_session_.begin(), awaiting_session_.end(), told);
  if (found == awaiting_session_.end()) return;
  if (!opened) {
    note_failure(opened.error());
    awaiting_session_.erase(found);
    if (told->stage != Stage::kEnded) fail_entering(told, opened.error());
    return;
  }
  for (const TicketPtr& ticket : std::exchange(awaiting_session_, {})) {
    if (ticket->stage != Stage::kEnded) enter_in(ticket, *opened);
  }
}

// A session may take longer to open, for somebody who has more time.
void Engine::give_up_session(const TicketPtr& ticket) {
  const auto found = std::find(awaiting_session_.begin(), awaiting_session_.end(), ticket);
  if (found == awaiting_session_.end()) return;
  if (base::BootClock::now() < ticket->request.deadline) {
    at(ticket->request.deadline, ticket, &Engine::give_up_session);
    return;
  }
  awaiting_session_.erase(found);
  note_failure(unheard(*ticket));
  fail_entering(ticket, unheard(*ticket));
}

void Engine::enter_in(const TicketPtr& ticket, const SessionView& session) {
  if (ticket->stage == Stage::kLeaving) return ended(ticket, port::EndStatus::kCancelled);
  if (ticket->epoch != session.epoch) choose_key(*ticket, session.epoch);
  ticket->epoch = session.epoch;
  ticket->details.lease = session.length;
  ticket->details.session = backend_.session_tag();
  ticket->sent = true;
  backend_.enter(session.epoch, ticket->request.name, ticket->place.key, ticket->details,
                 ticket->request.deadline,
                 [self = shared_from_this(), ticket](const Result<Entered>& entered) {
                   if (self->closed_ || ticket->stage == Stage::kEnded) return;
                   self->on_entered(ticket, entered);
                 });
}

// The first of this client's names in that lock that none of its tickets goes by.
void Engine::choose_key(Ticket& ticket, std::uint64_t epoch) {
  const Shape shape = ticket.place.key.shape;
  // These are named elsewhere, also when they have gone.
  if (!backend_.remembers_names() || shape == Shape::kUpgrade || shape == Shape::kShrink) return;
  if (names_epoch_ != epoch) names_ = base::random_128().high;
  names_epoch_ = epoch;
  std::vector<bool> used;
  const auto note = [&](const machine::AcquisitionId& id) {
    if (id.high != names_ || id.low == 0) return;
    used.resize(std::max<std::size_t>(used.size(), id.low));
    used[id.low - 1] = true;
  };
  auto at = tickets_.lower_bound({ticket.request.name, {}});
  for (; at != tickets_.end() && at->first.first == ticket.request.name; ++at) {
    note(at->second->place.key.id);
    note(at->second->place.key.upgrade_of);
  }
  const auto free = std::find(used.begin(), used.end(), false) - used.begin();
  ticket.place.key.id = {names_, static_cast<std::uint64_t>(free) + 1};
}

void Engine::on_entered(const TicketPtr& ticket, const Result<Entered>& entered) {
  if (!entered) {
    note_failure(entered.error());
    if (entered.error().code() == Errc::kOutcomeUnknown) return find_again(ticket);
    return fail_entering(ticket, entered.error());
  }
  // It has come under a session that has ended meanwhile.
  if (ticket->epoch != backend_.session().epoch) {
    return fail_entering(ticket, Error(Errc::kLost, "the session has ended"));
  }
  note_answer();
  ticket->placed = true;
  ticket->place.created = entered->created;
  for (const Place& place : entered->listing.queue) {
    if (place.key == ticket->place.key) ticket->place.order = place.order;
  }
  if (ticket->stage == Stage::kLeaving) return remove(ticket);
  watch_lease(ticket);
  ticket->looking = true;
  decide(ticket, entered->listing, /*watching=*/false);
}

// The reply to the creation was lost: it is there, or it never will be. Who asks is answered in
// time; then we go on looking.
void Engine::find_again(const TicketPtr& ticket) {
  const bool in_time = ticket->request.deadline > base::BootClock::now();
  if (!in_time) {
    answer(ticket, Error(Errc::kOutcomeUnknown,
                         backend_.guarantees().store +
                             ": no answer in time; it is not known whether the request arrived"));
  }
  const bool asked = in_time && !ticket->asks.empty();
  const BootInstant deadline = asked ? ticket->request.deadline : soon();
  backend_.list(ticket->request.name, /*latest=*/true, nullptr, deadline,
                [self = shared_from_this(), ticket](const Result<Listing>& listing) {
                  if (self->closed_ || ticket->stage == Stage::kEnded) return;
                  if (!listing) {
                    // The caller may ask again with the same id; meanwhile we go on looking.
                    const Errc code = listing.error().code();
                    if (code == Errc::kLost) return self->fail_entering(ticket, listing.error());
                    self->answer(ticket, Error(Errc::kOutcomeUnknown, listing.error().message()));
                    self->at(base::BootClock::now() + kPause, ticket, &Engine::find_again);
                    return;
                  }
                  for (const Place& place : listing->queue) {
                    if (place.key != ticket->place.key) continue;
                    if (ticket->epoch != self->backend_.session().epoch) break;
                    ticket->placed = true;
                    ticket->place.order = place.order;
                    if (ticket->stage == Stage::kLeaving) return self->remove(ticket);
                    self->watch_lease(ticket);
                    return self->look(ticket);
                  }
                  const bool over = ticket->epoch != self->backend_.session().epoch;
                  self->fail_entering(ticket, Error(over ? Errc::kLost : Errc::kUnavailable,
                                                    "the request did not arrive"));
                });
}

// It is surely not in the store. Tried again while somebody waits for the answer.
void Engine::fail_entering(const TicketPtr& ticket, const Error& error) {
  ticket->sent = false;
  if (ticket->stage == Stage::kLeaving) return left_unheard(ticket, error);
  if (error.code() == Errc::kLost) {
    // Perhaps it came, and goes with its session: its key must not be taken up by the next one.
    ticket->verdict = AcquisitionState{.status = AcquisitionStatus::kGone};
    return ended(ticket, port::EndStatus::kGone);
  }
  const bool passing = error.code() == Errc::kUnavailable;
  const BootInstant again = base::BootClock::now() + kPause;
  if (passing && !ticket->asks.empty() && again < ticket->request.deadline) {
    ticket->unheard = error;
    at(again, ticket, &Engine::enter_again);
    return;
  }
  ticket->verdict = passing ? Error(Errc::kUnavailable, error.message()) : error;
  ended(ticket, port::EndStatus::kGone);
}

void Engine::enter_again(const TicketPtr& ticket) {
  if (ticket->stage == Stage::kLeaving) return left_unheard(ticket, *ticket->unheard);
  enter(ticket);
}

// --- What is said of a ticket.

// Counted from when its newest request came, which its owner sent before. The session layer allows
// for clock rates over what is told; what had passed of the session's length by then is here.
machine::Duration Engine::lease_of(const Ticket& ticket, const SessionView& session) {
  if (session.epoch != ticket.epoch) return {};
  const auto left = std::chrono::floor<machine::Duration>(session.deadline - ticket.seq_at);
  const auto passed = std::max(session.length - left, machine::Duration::zero());
  return std::clamp(left - passed / kRateError, machine::Duration::zero(), ticket.request.ttl);
}

// Asked for just before the session is confirmed, a renewal would tell what was told before.
std::optional<machine::Duration> Engine::more_in(const Ticket& ticket, const SessionView& session) {
  if (session.epoch != ticket.epoch || !session.more_at) return std::nullopt;
  if (session.length > ticket.request.ttl) return std::nullopt;  // There always is.
  const auto answered = *session.more_at + session.length / kAnswersPerSession;
  return std::max(std::chrono::ceil<machine::Duration>(answered - ticket.seq_at),
                  machine::Duration::zero());
}

// Up to when what is told now holds: the servers may have made the session longer than the ttl.
Engine::BootInstant Engine::told_until(const Ticket& ticket, const SessionView& session) {
  return std::min(session.deadline, ticket.seq_at + ticket.request.ttl);
}

AcquisitionState Engine::state_of(const Ticket& ticket) const {
  AcquisitionState state;
  state.seq = ticket.seq;
  if (ticket.stage == Stage::kHeld) {
    state.status = AcquisitionStatus::kHeld;
    state.token = ticket.token;
    const SessionView session = backend_.session();
    state.lease = lease_of(ticket, session);
    state.more_in = more_in(ticket, session);
  } else {
    state.status = AcquisitionStatus::kWaiting;
    state.ahead = ticket.ahead;
    state.lease = ticket.request.waiter_ttl;
    if (ticket.opens_at) {
      state.next_expiry = std::chrono::ceil<machine::Duration>(
          std::max(*ticket.opens_at - base::BootClock::now(), BootInstant::duration::zero()));
    }
  }
  return state;
}

void Engine::answer(const TicketPtr& ticket, const Result<AcquisitionState>& result) {
  auto asks = std::exchange(ticket->asks, {});
  for (const auto& done : asks) done(result);
}

void Engine::push(const TicketPtr& ticket, port::Push::Kind kind) {
  port::Push push{kind, ticket->request.id, {}};
  if (kind == port::Push::Kind::kGranted) push.state = state_of(*ticket);
  listener_->on_push(push);
}

void Engine::hint(const std::vector<TicketPtr>& tickets) {
  if (tickets.size() > kMostHints) return listener_->on_pushes_missed();
  for (const TicketPtr& ticket : tickets) push(ticket, port::Push::Kind::kHint);
}

// nullopt: the ticket waits, which is looked at; or it is not sure that the session lives.
std::optional<Result<AcquisitionState>> Engine::renew_one(const port::RenewItem& item,
                                                          BootInstant now,
                                                          const SessionView& session) {
  const auto broken = broken_.find({item.name, item.id});
  if (broken != broken_.end() && item.token != machine::Token{}) {
    return Result<AcquisitionState>(broken->second);
  }
  const TicketPtr ticket = find(item.name, item.id);
  if (!ticket || ticket->stage == Stage::kLeaving || ticket->system()) {
    return Result<AcquisitionState>(AcquisitionState{.status = AcquisitionStatus::kGone});
  }
  const bool newer = item.seq > ticket->seq;
  if (newer &&
      (item.ttl <= machine::Duration::zero() || item.waiter_ttl <= machine::Duration::zero())) {
    return port::to_ticket_state({.outcome = machine::Outcome::kInvalid}, item.name, {});
  }
  // Nothing new to tell: a session that is confirmed soon has.
  const bool stale = newer && session.deadline <= ticket->told_until;
  if (ticket->stage == Stage::kHeld && (session.in_doubt || stale)) return std::nullopt;
  if (newer) {
    ticket->seq = item.seq;
    ticket->seq_at = now;
    ticket->request.ttl = item.ttl;
    ticket->request.waiter_ttl = item.waiter_ttl;
  }
  if (ticket->stage != Stage::kHeld) return std::nullopt;
  ticket->told_until = told_until(*ticket, session);
  return Result<AcquisitionState>(state_of(*ticket));
}

void Engine::renew(const std::vector<port::RenewItem>& items, BootInstant now, BootInstant deadline,
                   const Done<std::vector<Result<AcquisitionState>>>& done) {
  struct Gathered {
    std::vector<Result<AcquisitionState>> results;
    std::size_t left = 1;
  };
  auto gathered = std::make_shared<Gathered>();
  gathered->results.assign(items.size(), AcquisitionState{.status = AcquisitionStatus::kGone});
  const auto arrived = [gathered, done] {
    if (--gathered->left == 0) done(std::move(gathered->results));
  };
  const SessionView session = backend_.session();
  note_session(session);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (auto result = renew_one(items[i], now, session)) {
      gathered->results[i] = *std::move(result);
      continue;
    }
    ++gathered->left;
    const TicketPtr ticket = find(items[i].name, items[i].id);
    ticket->asks.emplace_back([gathered, arrived, i](const Result<AcquisitionState>& state) {
      gathered->results[i] = state;
      arrived();
    });
    if (ticket->stage == Stage::kWaiting) look_at_blocker(ticket, deadline);
    if (ticket->stage == Stage::kHeld) await_session(ticket, items[i], now, deadline);
  }
  arrived();
}

// What has just been told is told again a little later, so that whoever asks until more is left
// asks a few times in a second. A session in doubt may be confirmed until the deadline.
void Engine::await_session(const TicketPtr& ticket, const port::RenewItem& item, BootInstant now,
                           BootInstant deadline) {
  if (item.seq > ticket->seq) {
    ticket->seq = item.seq;
    ticket->seq_at = now;
  }
  ticket->answer_from = base::BootClock::now() + kPause * 2;
  ticket->answer_by = deadline;
  answer_when_confirmed(ticket);
}

void Engine::answer_when_confirmed(const TicketPtr& ticket) {
  if (ticket->stage != Stage::kHeld || ticket->asks.empty()) return;
  const SessionView session = backend_.session();
  const BootInstant next = base::BootClock::now() + kTick;
  const bool confirmed =
      !session.in_doubt && (session.deadline > ticket->told_until || next >= ticket->answer_from);
  if (!confirmed && next < ticket->answer_by) {
    at(next, ticket, &Engine::answer_when_confirmed);
    return;
  }
  if (session.in_doubt) {
    note_failure(keepalives_unanswered());
    return answer(ticket, keepalives_unanswered());
  }
  ticket->told_until = told_until(*ticket, session);
  answer(ticket, state_of(*ticket));
}

// --- Time.

// The session keeps a ticket for as long as the client lives; its owner may have given it up
// earlier.
Engine::BootInstant Engine::lease_end(const Ticket& ticket) const {
  const bool held = ticket.stage == Stage::kHeld;
  if (!held && !ticket.request.may_wait) return ticket.request.deadline;
  machine::Duration length = held ? ticket.request.ttl : ticket.request.waiter_ttl;
  // Who waits with a thousand others may be late: to queue anew would make all of them later.
  if (!held) length = std::max(length, ticket.details.lease);
  const auto left = BootInstant::max() - ticket.seq_at;
  return length > left ? BootInstant::max() : ticket.seq_at + length;
}

void Engine::watch_lease(const TicketPtr& ticket) {
  if (ticket->system() || ticket->lease_due) return;
  ticket->lease_due = at(lease_end(*ticket), ticket, &Engine::on_lease_end);
}

void Engine::on_lease_end(const TicketPtr& ticket) {
  ticket->lease_due.reset();
  if (ticket->stage == Stage::kLeaving) return;
  if (lease_end(*ticket) > base::BootClock::now()) return watch_lease(ticket);
  if (ticket->stage != Stage::kHeld && !ticket->request.may_wait) {
    return leave(ticket,
                 Error(Errc::kTimedOut, "it was not known in time whether somebody holds it"));
  }
  leave(ticket, AcquisitionState{.status = AcquisitionStatus::kGone});
}

Dues::iterator Engine::at(BootInstant when, const TicketPtr& ticket,
                          void (Engine::*then)(const TicketPtr&)) {
  const auto due = due_.emplace(when, Due{ticket, then});
  timer_.arm(when);
  return due;
}

void Engine::on_timer() {
  if (closed_) return;
  const auto self = shared_from_this();
  const BootInstant now = base::BootClock::now();
  while (!due_.empty() && due_.begin()->first <= now && !closed_) {
    const Due due = std::move(due_.begin()->second);
    due_.erase(due_.begin());
    const TicketPtr ticket = due.ticket.lock();
    if (ticket && ticket->stage != Stage::kEnded) (this->*due.then)(ticket);
  }
  if (!due_.empty()) timer_.arm(due_.begin()->first);
}

}  // namespace holdfast::contend
