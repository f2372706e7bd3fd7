// How an acquisition enters and leaves, and its answers to callers.
#include "src/contend/acquisition.h"

#include <algorithm>
#include <cassert>
#include <tuple>

#include "holdfast/detail/transient.h"
#include "src/contend/acquisition_table.h"
#include "src/contend/answers.h"
#include "src/contend/timing.h"
#include "src/port/outcome.h"

namespace holdfast::contend {
namespace {

using port::AcquisitionState;
using port::AcquisitionStatus;
using port::EndStatus;

// A caller that gives up before the store was heard grants it this grace period. It is shorter than
// what the caller waits for us (AcquireFsm::Terms::patience).
constexpr auto kGrace = std::chrono::milliseconds(1500);
// Assumes that a confirmation of the session is answered within this part of its length.
constexpr int kAnswersPerSession = 100;
// The same allowance for clock rates as the session layer's (src/session/deadline.h): 1/100.
constexpr int kRateError = 100;

bool same_but_time(const machine::OwnerInfo& one, const machine::OwnerInfo& other) {
  const auto text = [](const machine::OwnerInfo& each) {
    return std::tie(each.owner, each.host, each.pid, each.program, each.reason, each.wake,
                    each.trace_id, each.lock_delay);
  };
  return text(one) == text(other);
}

}  // namespace

AcquisitionFsm::AcquisitionFsm(const StoreTraits& traits, port::AcquireRequest request,
                               const AcquisitionFsm* upgrades, BootInstant now)
    : traits_(&traits),
      lock_(request.name),
      id_(request.id),
      ttl_(request.ttl),
      deadline_(request.deadline),
      owner_(std::exchange(request.owner, nullptr)),
      owner_since_unix_ms_(owner_ ? owner_->since_unix_ms : 0),
      seq_at_(now),
      asks_(1),
      outlives_client_(request.outlives_client) {
  due_.fill(BootInstant::max());
  const auto base = upgrades != nullptr ? upgrades->entry_.key.id : machine::AcquisitionId{};
  entry_.key = key_for(id_, request.mode, base);
  written_.attempt = !request.may_wait && traits.rewrites;
  if (request.outlives_client && traits.keeps) keeping_ = std::make_unique<Keeping>();
  view_ = std::make_unique<View>();
  view_->request = std::move(request);
}

AcquisitionFsm AcquisitionFsm::shrink(const StoreTraits& traits,
                                      const port::AcquisitionRequest& request, std::uint32_t by,
                                      std::uint32_t from, BootInstant now) {
  port::AcquireRequest acquire;
  acquire.name = request.name;
  acquire.id = request.id;
  acquire.mode = machine::Mode::of_permits(by, from);
  acquire.deadline = request.deadline;
  acquire.ttl = acquire.waiter_ttl = std::chrono::hours(24);
  AcquisitionFsm shrink(traits, std::move(acquire), nullptr, now);
  shrink.entry_.key.shape = Shape::kShrink;
  return shrink;
}

void AcquisitionFsm::share_owner(machine::OwnerPtr& known) {
  if (known && owner_ && same_but_time(*known, *owner_)) {
    owner_ = known;
  } else {
    known = owner_;
  }
}

// --- Steps.

void AcquisitionFsm::step(Event&& event, const Context& context, Actions& actions) {
  if (ended()) return;
  context_ = &context;
  actions_ = &actions;
  [[maybe_unused]] const State before = state_;
  [[maybe_unused]] const EventKind kind = kind_of(event);
  std::visit([this](auto& what) { on(what); }, event);
  assert(allowed(before, kind, state_));
}

void AcquisitionFsm::on(const Begin&) {
  ask(State::kAwaitingSession, deadline_, AwaitSession{});
  set(kStateAlarm, deadline_);
}

void AcquisitionFsm::on(SessionOpened& event) {
  if (state_ != State::kAwaitingSession) return;
  if (!event.opened) return fail_entering(event.opened.error());
  if (unwanted_) return end(EndStatus::kCancelled);
  if (event.id) entry_.key.id = *event.id;
  epoch_ = context_->session.epoch;
  view_->session_length = context_->session.length;
  if (keeping_ && keeping_->adopts) return find_kept();
  ask(State::kCreating, deadline_, Create{});
}

void AcquisitionFsm::on(const Asked& event) {
  deadline_ = std::max(deadline_, event.deadline);
  ++asks_;
}

void AcquisitionFsm::on(const End& event) {
  ends_asked_ = true;
  deadline_ = std::max(deadline_, event.deadline);
  if (state_ == State::kRemovePause) return remove();
  leave(gone());
}

void AcquisitionFsm::on(const Leave&) { leave(gone()); }

void AcquisitionFsm::on(const Woken&) {
  if (view_) view_->head.reset();
  look();
}

void AcquisitionFsm::on(const Notified&) {
  if (held()) return check();
  if (waits()) look();
}

// If its contender was not seen yet, the store's answer to the request decides. An unwanted
// acquisition ends now.
void AcquisitionFsm::on(const SessionEnded&) {
  if (perhaps_kept() && state_ >= State::kListing) {
    if (kept() && held()) return;
    if (leaving()) return;
    if (held()) return leave_in_doubt();
    if (keeping_->adopts) return fail_adoption(Error(Errc::kLost, "the session has ended"));
    answer(gone());
    set_verdict(gone());
    return remove();
  }
  if (unwanted_ || state_ >= State::kListing) end(EndStatus::kGone);
}

void AcquisitionFsm::on(const TimeIsUp&) {
  if (take_due(kLeaseAlarm)) on_lease_alarm();
  if (take_due(kStateAlarm)) on_state_alarm();
  if (take_due(kShowAlarm)) show();
  if (take_due(kCheckAlarm)) check();
  if (take_due(kConfirmAlarm)) answer_when_confirmed();
  forget_beside();
}

void AcquisitionFsm::on_state_alarm() {
  switch (state_) {
    case State::kAwaitingSession:
      if (!unwanted_ && context_->now < deadline_) {
        return set(kStateAlarm, deadline_);
      }
      if (!unwanted_) act(NoteUnheard{unheard()});
      return fail_entering(unheard());
    case State::kCreatePause:
      if (unwanted_) return leave_unheard(unheard());
      return on(Begin{});
    case State::kSearchPause: return search();
    case State::kWaiting:                         // The time of a kept blocker is over.
    case State::kStandingBy: return on(Woken{});  // In case the watch was missed.
    case State::kLookPause: return look();
    case State::kRemovePause: return remove();
    default: return;
  }
}

void AcquisitionFsm::on(Replied& event) {
  switch (event.slot) {
    case Slot::kMain: break;
    case Slot::kKeep: return on_kept(std::get<Result<std::optional<Read>>>(event.reply));
    case Slot::kShow: return on_shown(std::get<Result<std::optional<Read>>>(event.reply));
    case Slot::kRewrite: return on_weakened(std::get<Result<std::optional<Read>>>(event.reply));
    case Slot::kCheck:
      if (const auto* read = std::get_if<Result<std::optional<Read>>>(&event.reply)) {
        return on_checked(*read);
      }
      return on_reason(std::get<Result<std::pair<Record, std::uint64_t>>>(event.reply));
  }
  switch (state_) {
    case State::kCreating:
      return on_created(std::get<Result<Entered>>(event.reply), event.record_known);
    case State::kSearching: return on_searched(std::get<Result<Listing>>(event.reply));
    case State::kFinding: return on_found(std::get<Result<Listing>>(event.reply));
    case State::kRemoving: return on_removed(std::get<Result<bool>>(event.reply));
    default: return on_decision_reply(event);
  }
}

// --- Entering.

void AcquisitionFsm::on_created(Result<Entered>& entered, bool record_known) {
  if (!entered) {
    if (entered.error().code() == Errc::kOutcomeUnknown) return search();
    return fail_entering(entered.error());
  }
  if (epoch_ != context_->session.epoch) {
    return fail_entering(Error(Errc::kLost, "the session has ended"));
  }
  entry_.created = entered->created;
  for (const QueueEntry& each : entered->listing.queue) {
    if (each.key == entry_.key) entry_.order = each.order;
  }
  if (unwanted_) return remove();
  watch_lease();
  enter(State::kListing);  // The same answer lists the queue.
  decide(std::move(entered->listing), /*watching=*/false, record_known);
}

// The reply to the creation was lost: the contender exists, or never will. The caller is answered
// in time, and the search continues.
void AcquisitionFsm::search() {
  const bool in_time = deadline_ > context_->now;
  if (!in_time) {
    answer(
        Error(Errc::kOutcomeUnknown,
              traits_->store + ": no answer in time; it is not known whether the request arrived"));
  }
  const bool awaited = in_time && asks_ > 0;
  ask(State::kSearching, awaited ? deadline_ : soon(), ListQueue{.latest = true});
}

void AcquisitionFsm::on_searched(const Result<Listing>& listing) {
  if (!listing) {
    if (listing.error().code() == Errc::kLost) return fail_entering(listing.error());
    // The search continues, because the caller may ask again with the same id.
    answer(Error(Errc::kOutcomeUnknown, listing.error().message()));
    enter(State::kSearchPause);
    return set(kStateAlarm, context_->now + kPause);
  }
  const bool same_session = epoch_ == context_->session.epoch;
  const auto& queue = listing->queue;
  const auto found = std::find_if(queue.begin(), queue.end(), [this](const QueueEntry& each) {
    return each.key == entry_.key;
  });
  if (!same_session || found == queue.end()) {
    return fail_entering(
        Error(same_session ? Errc::kUnavailable : Errc::kLost, "the request did not arrive"));
  }
  entry_.order = found->order;
  if (unwanted_) return remove();
  watch_lease();
  list(/*watching=*/false);
}

// The contender is surely not in the store. While a caller waits, it is created again.
void AcquisitionFsm::fail_entering(const Error& error) {
  if (unwanted_) return leave_unheard(error);
  if (error.code() == Errc::kLost) {
    // It was perhaps created, and ends with its session. The next session must not use its key
    // again.
    return end(EndStatus::kGone);
  }
  const bool passing = error.code() == Errc::kUnavailable;
  const BootInstant again = context_->now + kPause;
  if (passing && asks_ > 0 && again < deadline_) {
    view_->unheard = std::make_unique<Error>(error);
    enter(State::kCreatePause);
    return set(kStateAlarm, again);
  }
  set_verdict(error);
  end(EndStatus::kGone);
}

Error AcquisitionFsm::unheard() const {
  if (view_->unheard) return *view_->unheard;
  return {Errc::kUnavailable, traits_->store + ": no server has answered so far"};
}

// No contender is in the store, and none will come. The answer says that the store was silent, so
// that the caller does not think that others hold the lock.
void AcquisitionFsm::leave_unheard(const Error& error) {
  if (error.code() == Errc::kLost) return end(EndStatus::kGone);
  end(error);
}

// --- Leaving.

bool AcquisitionFsm::leaving() const {
  return unwanted_ || state_ == State::kRemoving || state_ == State::kRemovePause;
}

void AcquisitionFsm::leave(Result<AcquisitionState> verdict) {
  if (leaving() || ended()) return;
  was_held_ = held();
  set_verdict(std::move(verdict));
  if (state_ >= State::kListing) return remove();
  // A contender whose creation is under way is removed once it exists.
  unwanted_ = true;
  const BootInstant grace = std::max(context_->now, seq_at_ + kGrace);
  if (state_ == State::kAwaitingSession) set(kStateAlarm, std::min(deadline_, grace));
  if (state_ == State::kCreatePause) set(kStateAlarm, std::min(due(kStateAlarm), grace));
}

void AcquisitionFsm::remove() {
  const BootInstant deadline = ends_asked_ ? std::max(deadline_, context_->now) : soon();
  // Waiters behind a holder that waited itself watch its entry.
  ask(State::kRemoving, deadline,
      Remove{.handoff = was_held_ && queued_ && held_alone() && !perhaps_kept()});
}

void AcquisitionFsm::on_removed(const Result<bool>& removed) {
  if (removed) {
    removed_ = *removed;
    const bool by_us = *removed || removal_unanswered_;
    const auto how = was_held_ ? EndStatus::kReleased : EndStatus::kCancelled;
    return end(by_us ? how : EndStatus::kGone);
  }
  Error error = removed.error();
  if (error.code() == Errc::kLost) {
    if (!perhaps_kept()) return end(EndStatus::kGone);
    error = Error(Errc::kUnavailable, error.message());  // The next session can remove it.
  }
  removal_unanswered_ = removal_unanswered_ || error.code() == Errc::kOutcomeUnknown;
  const bool passing = detail::is_transient(error.code());
  const BootInstant again = context_->now + (passing ? kPause : kLongPause);
  enter(State::kRemovePause);
  set(kStateAlarm, again);
  if (passing && again < deadline_) return;  // There is time to find out.
  ends_asked_ = false;
  act(AnswerEnds{error});
  answer(Error(Errc::kOutcomeUnknown, error.message()));
}

void AcquisitionFsm::end(const Result<EndStatus>& how) {
  enter(State::kEnded);
  act(Forget{});
  act(AnswerEnds{how});
  if (rewriting_) act(AnswerDowngrades{gone()});
  if (keeping_ && keeping_->letting_go) {
    act(AnswerKeeps{port::to_done({.outcome = machine::Outcome::kNotHeld}, lock_)});
  }
  answer(verdict_ ? *verdict_ : gone());
}

// Its contender is gone, and this client has not removed it.
void AcquisitionFsm::taken_away() {
  const bool told = told_ || held();
  end(EndStatus::kGone);
  if (told) tell(port::Push::Kind::kHint);
}

// --- Answers to callers.

bool AcquisitionFsm::waits() const { return told_ && !held() && !leaving() && !ended(); }

bool AcquisitionFsm::can_be_followed() const {
  return entry_.key.shape == Shape::kExclusive && state_ >= State::kListing && !ended() &&
         !keeping_;
}

std::optional<machine::Token> AcquisitionFsm::handed_off() const {
  if (!ended() || !removed_ || !was_held_ || !held_alone() || keeping_) return std::nullopt;
  return token();
}

bool AcquisitionFsm::may_be_watching() const {
  return state_ >= State::kListing && state_ <= State::kSessionLost;
}

AcquisitionState AcquisitionFsm::status(const Context& context) const {
  AcquisitionState state;
  state.seq = seq_;
  if (!held()) {
    state.status = AcquisitionStatus::kWaiting;
    state.ahead = view_->decision.ahead;
    state.lease = view_->request.waiter_ttl;
    if (view_->gate_opens_at) {
      state.next_expiry = std::chrono::ceil<machine::Duration>(
          std::max(*view_->gate_opens_at - context.now, BootInstant::duration::zero()));
    }
    return state;
  }
  state.status = AcquisitionStatus::kHeld;
  state.token = token();
  if (perhaps_kept()) return kept_state(state);
  const SessionView& session = context.session;
  if (session.epoch != epoch_) return state;
  // The lease counts from the arrival of the newest request, which its owner sent earlier. The
  // session layer allows for clock rates over the time that it is told; this line allows for the
  // time before.
  const auto left = std::chrono::floor<machine::Duration>(session.deadline - seq_at_);
  const auto passed = std::max(session.length - left, machine::Duration::zero());
  state.lease = std::clamp(left - passed / kRateError, machine::Duration::zero(), ttl_);
  // A renewal just before the session's next confirmation would bring nothing new, so the answer
  // says when to ask. A session longer than the ttl always has more.
  if (session.more_at && session.length <= ttl_) {
    const auto answered = *session.more_at + session.length / kAnswersPerSession;
    state.more_in = std::max(std::chrono::ceil<machine::Duration>(answered - seq_at_),
                             machine::Duration::zero());
  }
  return state;
}

// --- Actions, and time.

AcquisitionFsm::BootInstant AcquisitionFsm::soon() const { return context_->now + kBackground; }

bool AcquisitionFsm::take_due(Alarm alarm) {
  if (ended() || due(alarm) > context_->now) return false;
  clear(alarm);
  return true;
}

AcquisitionFsm::BootInstant AcquisitionFsm::next_due() const {
  const BootInstant first = *std::min_element(due_.begin(), due_.end());
  if (!beside_) return first;
  return std::min(first, *std::min_element(beside_->due.begin(), beside_->due.end()));
}

AcquisitionFsm::BootInstant AcquisitionFsm::due(Alarm alarm) const {
  if (alarm < kLastingAlarms) return due_.at(alarm);
  return beside_ ? beside_->due.at(alarm - kLastingAlarms) : BootInstant::max();
}

void AcquisitionFsm::set(Alarm alarm, BootInstant when) {
  if (alarm < kLastingAlarms) {
    due_.at(alarm) = when;
  } else if (beside_ || when != BootInstant::max()) {
    beside().due.at(alarm - kLastingAlarms) = when;
  }
}

AcquisitionFsm::Beside& AcquisitionFsm::beside() {
  if (!beside_) {
    beside_ = std::make_unique<Beside>();
    beside_->due.fill(BootInstant::max());
  }
  return *beside_;
}

void AcquisitionFsm::forget_beside() {
  if (!beside_) return;
  const auto& due = beside_->due;
  if (*std::min_element(due.begin(), due.end()) == BootInstant::max()) beside_.reset();
}

// Replies to earlier requests are outdated from now on.
void AcquisitionFsm::enter(State state) {
  state_ = state;
  ++numbers_.front();
  clear(kStateAlarm);
  if (state == State::kRemoving || state == State::kEnded) {
    clear(kLeaseAlarm);
    beside_.reset();
  }
  if (state >= State::kHeld) view_.reset();
}

void AcquisitionFsm::ask(State state, BootInstant deadline, Request request) {
  enter(state);
  act(Ask{Slot::kMain, numbers_.front(), deadline, std::move(request)});
}

void AcquisitionFsm::ask_beside(Slot slot, BootInstant deadline, Request request) {
  std::uint32_t& number = numbers_.at(static_cast<std::size_t>(slot));
  act(Ask{slot, ++number, deadline, std::move(request)});
}

bool AcquisitionFsm::wants(Slot slot, std::uint32_t number) const {
  return !ended() && numbers_.at(static_cast<std::size_t>(slot)) == number;
}

void AcquisitionFsm::answer(const Result<AcquisitionState>& result) {
  if (asks_ > 0) act(Answer{asks_, result});
  asks_ = asks_seen_ = 0;
}

void AcquisitionFsm::tell(port::Push::Kind kind) {
  port::Push push{kind, id_, {}};
  if (kind == port::Push::Kind::kGranted) push.state = status(*context_);
  act(Tell{push});
}

// The session keeps a contender as long as the client lives, but the owner's lease may end earlier.
AcquisitionFsm::BootInstant AcquisitionFsm::lease_end() const {
  if (!held() && !view_->request.may_wait) return deadline_;
  // A waiter among a thousand may be late with its heartbeat. Queueing again would delay all of
  // them more.
  const machine::Duration length =
      held() ? ttl_ : std::max(view_->request.waiter_ttl, view_->session_length);
  const auto left = BootInstant::max() - seq_at_;
  return length > left ? BootInstant::max() : seq_at_ + length;
}

void AcquisitionFsm::watch_lease() {
  if (!system()) set(kLeaseAlarm, lease_end());
}

void AcquisitionFsm::on_lease_alarm() {
  if (leaving()) return;
  if (lease_end() > context_->now) return watch_lease();
  // At the store it ends by itself; or it does not, because another client has taken it over.
  if (held() && kept()) return end(EndStatus::kGone);
  if (!held() && !view_->request.may_wait) {
    return leave(Error(Errc::kTimedOut, "it was not known in time whether somebody holds it"));
  }
  leave(gone());
}

bool AcquisitionFsm::held_alone() const {
  return entry_.key.shape == Shape::kExclusive && !perhaps_weakened_;
}

}  // namespace holdfast::contend
