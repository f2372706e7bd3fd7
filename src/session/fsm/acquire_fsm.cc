#include "src/session/fsm/acquire_fsm.h"

#include <algorithm>
#include <utility>

#include "holdfast/detail/transient.h"

namespace holdfast::session {
namespace {

using port::AcquisitionStatus;

constexpr Nanos kRetryPause = std::chrono::milliseconds(50);
// The poll at the end of the holder's lease lands just after it.
constexpr Nanos kAfterExpiry = std::chrono::milliseconds(2);
// Only waiters that are next in line time a poll at the holder's end: the others would find
// nothing.
constexpr std::uint32_t kPollersAtExpiry = 2;
// A store answers by a request's deadline. Its error says more than our own timeout could, so it
// gets this much longer.
constexpr Nanos kBehindDeadline = std::chrono::milliseconds(200);

}  // namespace

AcquireFsm::Action AcquireFsm::start(BootInstant now) {
  if (terms_.may_wait && terms_.wait) wait_until_ = now + *terms_.wait;
  retry_until_ =
      now + (terms_.may_wait ? Nanos(terms_.ttl) : std::min(Nanos(terms_.ttl), terms_.request));
  answer_until_ = now + terms_.request + kBehindDeadline;
  return ask(now, /*fresh_id=*/true);
}

AcquireFsm::Action AcquireFsm::start_again(BootInstant now, BootInstant sent) {
  start(sent);
  maybe_applied_ = true;
  return ask(now, /*fresh_id=*/false);
}

AcquireFsm::Action AcquireFsm::ask(BootInstant now, bool fresh_id) {
  phase_ = Phase::kAsking;
  in_flight_ = true;
  away_.reset();
  // A repeated request keeps the number and the send time of the first. The lease ends no earlier
  // than counted from there, whichever of them the store applied.
  if (fresh_id) {
    maybe_applied_ = false;
    log_.clear();
    log_.add(now);
  }
  // A caller that does not wait gets its answer within the time of one request. Only an unknown
  // outcome is worth the time of repetitions.
  const BootInstant overdue = maybe_applied_ ? retry_until_ : answer_until_;
  sleep_until(terms_.may_wait ? BootInstant::max() : overdue);
  return {Step::kSendAcquire, 0, fresh_id};
}

AcquireFsm::Action AcquireFsm::beat(BootInstant now) {
  // The answer under way is about an older state, so another heartbeat follows it.
  if (in_flight_) {
    ask_again_ = true;
    sleep_until(BootInstant::max());
    return {};
  }
  in_flight_ = true;
  sleep_until(BootInstant::max());
  return {Step::kSendHeartbeat, log_.add(now), false};
}

void AcquireFsm::sleep_until(BootInstant at) {
  wake_at_ = wait_until_ ? std::min(at, *wait_until_) : at;
}

AcquireFsm::Action AcquireFsm::on_reply(BootInstant now,
                                        const Result<port::AcquisitionState>& reply) {
  if (phase_ == Phase::kLeaving) {
    // The wait has ended already. The answer only shows whether the store could be reached.
    if (!reply && reply.error().code() == Errc::kUnavailable) unreached_ = reply.error();
    if (!reply) note(reply.error());
    return {};
  }
  if (phase_ == Phase::kDone) return {};
  in_flight_ = false;
  const bool again = std::exchange(ask_again_, false);
  if (!reply) return on_failed_reply(now, reply.error());
  unreached_.reset();
  switch (reply->status) {
    case AcquisitionStatus::kHeld: {
      const bool renewed = phase_ == Phase::kConfirming && !again;
      if (renewed && lease_is_too_short(*reply)) return leave(now, leaving_error_->code());
      return on_held(now, *reply);
    }
    case AcquisitionStatus::kWaiting: {
      const Action action = on_waiting(now, *reply);
      return again && action.step == Step::kWait ? beat(now) : action;
    }
    case AcquisitionStatus::kBusy:
      // An earlier request may still be on its way: it must not hold the lock for nobody.
      if (maybe_applied_) return leaving_busy_ = true, leave(now, Errc::kTimedOut);
      phase_ = Phase::kDone;
      return {Step::kBusy, 0, false};
    case AcquisitionStatus::kGone:
      // Our ticket died while we could not keep it alive. Nobody was told that we hold, so we may
      // queue again, at the end.
      return wait_over(now) ? leave(now, Errc::kTimedOut) : ask(now, /*fresh_id=*/true);
  }
  return {};
}

// Servers may grant less than was asked for, and the lock-delay comes first.
bool AcquireFsm::lease_is_too_short(const port::AcquisitionState& renewed) {
  if (terms_.lock_delay == Duration::zero()) return false;
  const Duration lease = without_delay(renewed.lease, terms_.lock_delay);
  if (lease - terms_.bound.slack(lease) > terms_.min_left) return false;
  const auto millis = [](Duration time) {
    return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
  };
  leaving_error_ = Error(Errc::kUnsupported, "the store grants leases of " + millis(renewed.lease) +
                                                 " ms, in which a lock_delay of " +
                                                 millis(terms_.lock_delay) + " ms does not fit");
  return true;
}

AcquireFsm::Action AcquireFsm::on_held(BootInstant now, const port::AcquisitionState& state) {
  has_queued_ = true;
  const Duration lease = without_delay(state.lease, terms_.lock_delay);
  const auto sent = log_.sent_at(state.seq);
  const BootInstant deadline = sent ? terms_.bound.safe_deadline(*sent, lease) : BootInstant::min();
  // A lease that nobody renews must have its whole length at the grant. One from the queue has a
  // waiter's length.
  const bool to_renew = terms_.whole && lease < terms_.ttl && phase_ != Phase::kConfirming;
  // Servers may have shortened the session, so as much as was asked for may never be left. After a
  // renewal the store has granted all that it can.
  const bool all_there_is = phase_ == Phase::kConfirming && state.more_in;
  const Nanos least = all_there_is ? std::min(terms_.min_left, RenewalSchedule(lease).safe_part())
                                   : terms_.min_left;
  if (deadline > now + least && !to_renew) {
    phase_ = Phase::kDone;
    held_ = state;
    return {Step::kGranted, 0, false};
  }
  // Too little of the lease is left. A renewal that the store acknowledges makes it long enough.
  if (wait_over(now)) return leave(now, Errc::kTimedOut);
  phase_ = Phase::kConfirming;
  return beat(now);
}

AcquireFsm::Action AcquireFsm::on_waiting(BootInstant now, const port::AcquisitionState& state) {
  has_queued_ = true;
  if (wait_over(now)) return leave(now, Errc::kTimedOut);
  phase_ = Phase::kQueued;
  ahead_ = state.ahead;
  if (state.opens_in) opens_at_ = now + *state.opens_in;
  // The heartbeat keeps the ticket and finds a grant whose push was lost. The poll after the
  // holder's end serves stores that act only when they are asked.
  BootInstant next = now + terms_.heartbeat;
  if (state.next_expiry && ahead_ < kPollersAtExpiry) {
    next = std::min(next, now + *state.next_expiry + kAfterExpiry);
  }
  sleep_until(next);
  return {};
}

AcquireFsm::Action AcquireFsm::on_failed_reply(BootInstant now, const Error& error) {
  const bool unknown = error.code() == Errc::kOutcomeUnknown;
  const bool passing = detail::is_transient(error.code());
  note(error);
  if (phase_ == Phase::kAsking) {
    // A first request that was surely not applied fails, unless the terms say otherwise: the caller
    // knows best whether to retry. One that may have been applied is asked again with the same id,
    // because only the store can tell. A repetition that was surely not applied says nothing about
    // the first request. If one is refused, the first may still arrive, so it is withdrawn.
    maybe_applied_ = maybe_applied_ || unknown;
    const bool outlasts = has_queued_ || terms_.outlasts_first;
    if (passing && outlasts && terms_.may_wait) return outlast(now, error);
    if (!maybe_applied_) return fail(error);
    if (!passing) {
      leaving_error_ = error;
      return leave(now, error.code());
    }
    if (now >= retry_until_ || wait_over(now)) return leave(now, Errc::kOutcomeUnknown);
    sleep_until(now + kRetryPause);
    return {};
  }
  if (!passing) {
    leaving_error_ = error;
    return leave(now, error.code());
  }
  // A heartbeat that failed costs nothing yet: the ticket lives for its lease.
  unreached_ = error;
  if (wait_over(now)) return leave(now, Errc::kTimedOut);
  sleep_until(now + std::min(terms_.heartbeat, kRetryPause * 4));
  return {};
}

void AcquireFsm::note(const Error& error) {
  if (detail::is_transient(error.code())) passing_ = error;
}

// Once queued, the caller waits out a store outage as it would wait for the lock. It keeps its id
// while a request with that id may still arrive, and takes a new one once none can.
AcquireFsm::Action AcquireFsm::outlast(BootInstant now, const Error& error) {
  if (!maybe_applied_) away_ = error;
  if (wait_over(now)) return leave(now, Errc::kTimedOut);
  if (!has_queued_) held_up_ = error;
  sleep_until(now + std::min(terms_.heartbeat, kRetryPause * 4));
  return {};
}

AcquireFsm::Action AcquireFsm::on_push(BootInstant now, const port::Push& push) {
  if (push.kind == port::Push::Kind::kDelayed) {
    if (push.state.opens_in) opens_at_ = now + *push.state.opens_in;
    return {};
  }
  if (phase_ != Phase::kQueued) {
    if (phase_ == Phase::kAsking || phase_ == Phase::kConfirming) ask_again_ = true;
    return {};
  }
  // A push of a grant carries the lease. A hint only says that a look is worth it.
  if (push.kind == port::Push::Kind::kGranted) return on_held(now, push.state);
  return beat(now);
}

AcquireFsm::Action AcquireFsm::on_timer(BootInstant now) {
  if (phase_ == Phase::kDone || phase_ == Phase::kIdle || now < wake_at_) return {};
  if (phase_ == Phase::kLeaving) {
    if (now >= leave_until_) {
      return fail(unconfirmed());
    }
    sleep_until(std::min(leave_until_, now + kRetryPause * 4));
    return in_flight_ ? Action{} : Action{Step::kSendCancel, 0, false};
  }
  if (wait_over(now)) return leave(now, Errc::kTimedOut);
  if (phase_ == Phase::kAsking) {
    // No answer came in the time that a request has, so it may still arrive. It is withdrawn.
    if (in_flight_) return leave(now, Errc::kOutcomeUnknown);
    return ask(now, /*fresh_id=*/!maybe_applied_);
  }
  return beat(now);
}

AcquireFsm::Action AcquireFsm::on_cancel(BootInstant now, Errc why) {
  if (phase_ == Phase::kDone || phase_ == Phase::kLeaving) return {};
  return leave(now, why);
}

AcquireFsm::Action AcquireFsm::on_deadlock(BootInstant now, Error why) {
  if (phase_ != Phase::kQueued) return {};
  leaving_error_ = std::move(why);
  return leave(now, leaving_error_->code());
}

AcquireFsm::Action AcquireFsm::leave(BootInstant now, Errc why) {
  // A heartbeat without an answer shows that the store is away. The caller is told so in place of a
  // timeout.
  if (phase_ != Phase::kAsking && in_flight_) {
    unreached_ = Error(Errc::kUnavailable, "it has not answered the last heartbeat");
  }
  phase_ = Phase::kLeaving;
  leaving_why_ = why;
  if (away_) {  // Nothing is to be taken back.
    unreached_ = away_;
    return left();
  }
  leave_until_ = now + terms_.patience;
  // For try_acquire() the patience counts from the request's deadline.
  if (!terms_.may_wait && why == Errc::kOutcomeUnknown) {
    const BootInstant asked_until = answer_until_ - kBehindDeadline;
    leave_until_ = std::min(leave_until_, std::max(now, asked_until + terms_.patience));
  }
  wait_until_.reset();
  in_flight_ = true;
  sleep_until(leave_until_);
  return {Step::kSendCancel, 0, false};
}

AcquireFsm::Action AcquireFsm::on_cancel_reply(BootInstant now,
                                               const Result<port::EndStatus>& reply) {
  in_flight_ = false;
  if (phase_ != Phase::kLeaving) return {};
  if (reply) {
    // The client's clock alone may have answered that the ticket is gone. Then this proves no
    // contact with the store.
    if (*reply != port::EndStatus::kGone) unreached_.reset();
    return left();
  }
  const Errc code = reply.error().code();
  if (!detail::is_transient(code)) {
    const Error& why = leaving_error_ ? *leaving_error_ : reply.error();
    return fail({why.code(), why.message() +
                                 "; the wait could not be cancelled: we may stay queued, or "
                                 "even be granted the lock, for up to one more ttl"});
  }
  if (code == Errc::kUnavailable) unreached_ = reply.error();
  note(reply.error());
  sleep_until(std::min(leave_until_, now + kRetryPause));
  return {};
}

// The store has no ticket of ours, and no request is on its way.
AcquireFsm::Action AcquireFsm::left() {
  if (leaving_error_) return fail(*leaving_error_);
  if (leaving_busy_) return phase_ = Phase::kDone, Action{Step::kBusy, 0, false};
  if (leaving_why_ == Errc::kTimedOut && unreached_) {
    return fail({Errc::kUnavailable,
                 "the store could not be reached within the wait: " + unreached_->message() +
                     (has_queued_ ? "; once it is back we may stay queued, or even be granted the "
                                    "lock, for up to one more ttl"
                                  : "")});
  }
  if (leaving_why_ == Errc::kTimedOut) {
    return fail({Errc::kTimedOut, "the lock was not granted within the wait" + still_closed()});
  }
  if (leaving_why_ == Errc::kOutcomeUnknown) {
    return fail({Errc::kUnavailable, "the store did not answer; the request was taken back"});
  }
  return fail({leaving_why_,
               leaving_why_ == Errc::kClosed ? "the client was closed" : "the wait was cancelled"});
}

// The store's own words say whether it is out of reach, without a majority, or just silent.
Error AcquireFsm::unconfirmed() const {
  const std::optional<Error>& why = leaving_error_ ? leaving_error_ : passing_;
  return {Errc::kOutcomeUnknown,
          (why ? why->message() + "; the store did not confirm that the "
               : std::string("the store does not answer, and did not confirm that the ")) +
              (terms_.may_wait ? "wait was given up" : "request was taken back") +
              "; the lock may be held for up to one more ttl"};
}

std::string AcquireFsm::still_closed() const {
  const BootInstant left_at = leave_until_ - terms_.patience;
  if (!opens_at_ || *opens_at_ <= left_at) return {};
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(*opens_at_ - left_at);
  return "; nobody holds it any more, and its last holder's lock_delay keeps it closed for " +
         std::to_string(rest.count()) + " ms";
}

AcquireFsm::Action AcquireFsm::fail(Error error) {
  phase_ = Phase::kDone;
  error_ = std::move(error);
  return {Step::kFailed, 0, false};
}

}  // namespace holdfast::session
