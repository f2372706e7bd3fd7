#include "src/session/fsm/renewal_fsm.h"

#include <algorithm>
#include <utility>

namespace holdfast::session {
namespace {

// A lease granted from a queue still has a waiter's length, and one held while a connection comes
// up may need a look. A holder that gives it back within this time saves the renewal, and the delay
// that it would cause the waiters behind.
constexpr Nanos kShortHold = std::chrono::milliseconds(50);

}  // namespace

RenewalFsm::RenewalFsm(BootInstant now, const Terms& terms, const port::AcquisitionState& state,
                       SendLog log)
    : terms_(terms), log_(log), renew_at_(now) {
  extend(state);
  inherited_ = counted(state) < terms_.ttl && !state.more_in;
  if (!inherited_) return;
  renew_at_ = std::min(renew_at_, now + kShortHold);
  company_from_ = BootInstant::max();
}

Duration RenewalFsm::counted(const port::AcquisitionState& state) const {
  return without_delay(state.lease, terms_.lock_delay);
}

void RenewalFsm::extend(const port::AcquisitionState& state) {
  const Duration lease = counted(state);
  const auto sent = log_.sent_at(state.seq);
  if (!sent || state.seq < counts_from_) return;
  const BootInstant sure = terms_.bound.safe_deadline(*sent, lease);
  // Answers may come in another order than the requests. A deadline that was shown to the owner
  // never moves back.
  if (sure <= sure_until_) return;
  sure_until_ = sure;
  inherited_ = inherited_ && lease < terms_.ttl;
  granted_ = lease;
  renew_at_ = *sent + until_next(state);
  company_from_ =
      state.more_in ? BootInstant::max() : renew_at_ - RenewalSchedule(lease).early_in_company();
}

// A store whose own confirmations come at intervals grants the most just after them.
Nanos RenewalFsm::until_next(const port::AcquisitionState& state) const {
  const RenewalSchedule schedule(counted(state));
  if (!state.more_in) return schedule.renew_after();
  return std::clamp<Nanos>(*state.more_in, schedule.retry_after(), schedule.latest_renewal());
}

// The store may have granted much less than was asked for.
Nanos RenewalFsm::before_retry() const { return RenewalSchedule(lease()).retry_after(); }

RenewalFsm::Action RenewalFsm::on_tick(BootInstant now) { return next(now); }

RenewalFsm::Action RenewalFsm::on_doubt(BootInstant now) { return ask_by(now, now); }

RenewalFsm::Action RenewalFsm::on_push_missed(BootInstant now) {
  return ask_by(now + kShortHold, now);
}

RenewalFsm::Action RenewalFsm::ask_by(BootInstant at, BootInstant now) {
  if (in_flight_) {
    ask_again_ = true;
  } else {
    renew_at_ = std::min(renew_at_, at);
  }
  return next(now);
}

RenewalFsm::Action RenewalFsm::on_renew_asked(BootInstant now) {
  asked_ = true;
  return on_doubt(now);
}

std::uint64_t RenewalFsm::begin_to_keep(BootInstant now, Duration left) {
  keeping_ = true;
  // The request may shorten the lease the moment it is sent. So the owner's deadline is shortened
  // before.
  sure_before_keeping_ = sure_until_;
  counts_from_ = log_.add(now);
  sure_until_ = std::min(sure_until_, terms_.bound.safe_deadline(now, left));
  return counts_from_;
}

RenewalFsm::Action RenewalFsm::on_not_kept(BootInstant now, bool surely_not) {
  keeping_ = false;
  if (surely_not) sure_until_ = sure_before_keeping_;
  renew_at_ = now;
  return next(now);
}

bool RenewalFsm::may_renew() const {
  return renew_at_ < terms_.hold_until && (terms_.renew || asked_);
}

RenewalFsm::Action RenewalFsm::on_reply(BootInstant now,
                                        const Result<port::AcquisitionState>& reply) {
  in_flight_ = false;
  ++replies_;
  if (state_ == State::kLost || keeping_) return {};
  // This check comes first: the owner was told to stop at the deadline, whatever the reply says.
  if (now >= deadline()) {
    const Action action = next(now);
    // The store may know the reason better than the clock. It changes the report only.
    const bool told = !reply && reply.error().code() == Errc::kBroken;
    if (told && loss_cause_ == LossCause::kExpired) {
      loss_cause_ = LossCause::kStore;
      loss_ = std::make_unique<Error>(reply.error());
    }
    return action;
  }
  if (reply.has_value() && reply->status == port::AcquisitionStatus::kHeld &&
      reply->seq >= log_.next()) {
    taken_over_ = true;
    return lose(LossCause::kTakenOver, {Errc::kLost, "another process has taken the lease over"});
  }
  if (reply.has_value() && reply->status == port::AcquisitionStatus::kHeld) {
    const BootInstant before = renew_at_;
    extend(*reply);
    // A reply about an older request extends nothing: then the next try is not put off.
    if (renew_at_ == before) renew_at_ = now + before_retry();
    state_ = State::kHeld;
  } else if (reply.has_value()) {
    return lose(LossCause::kStore, {Errc::kLost, "the store has no such lease any more"});
  } else if (reply.error().code() == Errc::kLost || reply.error().code() == Errc::kBroken) {
    return lose(LossCause::kStore, reply.error());
  } else {
    // A renewal that failed ends nothing. Nobody else can have the lock before the deadline.
    state_ = State::kInDoubt;
    renew_at_ = now + before_retry();
  }
  if (ask_again_) renew_at_ = now;
  ask_again_ = false;
  return next(now);
}

RenewalFsm::Action RenewalFsm::next(BootInstant now) {
  if (state_ == State::kLost || keeping_) return {};
  if (now >= deadline()) {
    if (now >= terms_.hold_until) {
      return lose(LossCause::kMaxHold, {Errc::kLost, "it was held for as long as max_hold allows"});
    }
    const char* why = terms_.renew ? "it could not be renewed before its lease ended"
                                   : "its lease ended, and renewal was not asked for";
    return lose(LossCause::kExpired, {Errc::kLost, why});
  }
  if (!may_renew() || in_flight_ || now < renew_at_) return {};
  in_flight_ = true;
  asked_ = false;
  return {Step::kSend, log_.add(now)};
}

RenewalFsm::Action RenewalFsm::lose(LossCause cause, Error why) {
  state_ = State::kLost;
  loss_cause_ = cause;
  loss_ = std::make_unique<Error>(std::move(why));
  return {Step::kLost, 0};
}

BootInstant RenewalFsm::wake_at() const {
  if (state_ == State::kLost || keeping_) return BootInstant::max();
  return !may_renew() || in_flight_ ? deadline() : std::min(deadline(), renew_at_);
}

}  // namespace holdfast::session
