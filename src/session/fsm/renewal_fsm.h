// Decides when a held lease is renewed, when it is in doubt and when it is lost. Pure: events in,
// actions out; no clock, thread or socket.
//
//   State     reply: held (1)     reply: gone   no or failed reply      clock at the deadline
//   kHeld     kHeld, extended     kLost         kInDoubt                kLost
//   kInDoubt  kHeld, extended     kLost         kInDoubt                kLost
//   kLost     kLost               kLost         kLost                   kLost
//
//   (1) but for a request that this side has not sent yet: somebody has adopted the lease. kLost.
//
// Guarantee: the deadline counts from the send of the request that the store names, never from a
// reply. It moves back only when the owner lets go by begin_to_keep(). Nothing revives a passed
// deadline.
// Not guaranteed: that the owner notices. The driver must call on_tick() at wake_at().
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "holdfast/result.h"
#include "src/port/store.h"
#include "src/session/deadline.h"
#include "src/session/send_log.h"

namespace holdfast::session {

class RenewalFsm {
 public:
  enum class State : std::uint8_t { kHeld, kInDoubt, kLost };

  enum class Step : std::uint8_t {
    kWait,  // Nothing until wake_at().
    kSend,  // Send a renewal numbered `seq`.
    kLost,  // Tell the owner; nothing more will come.
  };
  struct Action {
    Step step = Step::kWait;
    std::uint64_t seq = 0;
  };

  struct Terms {
    Duration ttl{};
    Duration lock_delay{};  // The end of each granted lease, which this side does not count on.
    ClockBound bound{};
    BootInstant hold_until = BootInstant::max();  // No renewal from here on, and the lease ends.
    bool renew = true;
  };

  // The ticket was found held at `now`, on the terms of `state`; `log` has when its requests went
  // out. A lease shorter than the ttl (inherited by handoff) is renewed after 50 ms: a shorter
  // hold sends nothing. One whose store says when it can grant more is renewed then.
  RenewalFsm(BootInstant now, const Terms& terms, const port::AcquisitionState& state, SendLog log);

  // Whether it is still the shorter lease.
  bool inherited() const { return inherited_; }

  Action on_tick(BootInstant now);
  Action on_reply(BootInstant now, const Result<port::AcquisitionState>& reply);
  // Whether its renewal is nearly due, so that it may go now with others that leave. Many leases
  // that were granted one after the other then take a few requests together.
  bool likes_company(BootInstant now) const { return !in_flight_ && now >= company_from_; }
  // The store hinted at a change, or the wall clock outran boot time: ask now.
  Action on_doubt(BootInstant now);
  // The store cannot say whether it hinted: ask soon. A shorter hold sends nothing.
  Action on_push_missed(BootInstant now);
  // The owner asks for a renewal now, also where none is sent by itself.
  Action on_renew_asked(BootInstant now);
  // The owner lets go by a request of its own, which bears the returned number and ends the lease
  // `left` from now. From here on nothing beyond that is counted on, and nothing is sent or told.
  // After a failure, on_not_kept() has the lease renewed again. The earlier grant counts again only
  // if the request surely did not take effect.
  std::uint64_t begin_to_keep(BootInstant now, Duration left);
  Action on_not_kept(BootInstant now, bool surely_not);
  // Grows with every reply about a request that this side made.
  std::uint64_t replies() const { return replies_; }
  bool in_flight() const { return in_flight_; }
  // Whether a request that failed is followed by another one.
  bool tries_again() const { return state_ != State::kLost && may_renew(); }

  State state() const { return state_; }
  BootInstant deadline() const { return std::min(sure_until_, terms_.hold_until); }
  // As long as one lease lasts: of those that were granted the last, and never above the ttl.
  Nanos lease() const { return std::min(terms_.ttl, granted_); }
  BootInstant wake_at() const;
  // Lost to somebody who adopted it and renews it now: it must not be released from here.
  bool taken_over() const { return taken_over_; }
  enum class LossCause : std::uint8_t { kNone, kStore, kExpired, kMaxHold, kTakenOver };
  LossCause loss_cause() const { return loss_cause_; }
  // When the renewal that was sent last should have been sent.
  BootInstant planned_at() const { return renew_at_; }
  // Why it is lost; nullptr while it is not.
  const Error* loss() const { return loss_.get(); }

 private:
  Action next(BootInstant now);
  Action ask_by(BootInstant at, BootInstant now);
  bool may_renew() const;
  Action lose(LossCause cause, Error why);
  Duration counted(const port::AcquisitionState& state) const;
  void extend(const port::AcquisitionState& state);
  Nanos until_next(const port::AcquisitionState& state) const;
  Nanos before_retry() const;

  // A program may hold 100,000 locks, so small members stand together.
  Terms terms_;
  SendLog log_;
  BootInstant sure_until_ = BootInstant::min();  // By what the store confirmed.
  BootInstant sure_before_keeping_{};
  Duration granted_{};  // The lease as it was granted last.
  BootInstant renew_at_{};
  BootInstant company_from_ = BootInstant::max();  // From then on the next renewal may go early.
  std::uint64_t counts_from_ = 0;  // The grant of an older request may have been shortened.
  std::uint64_t replies_ = 0;
  std::unique_ptr<const Error> loss_;
  State state_ = State::kHeld;
  LossCause loss_cause_ = LossCause::kNone;
  bool in_flight_ = false;
  bool ask_again_ = false;
  bool asked_ = false;
  bool inherited_ = false;
  bool keeping_ = false;
  bool taken_over_ = false;
};

}  // namespace holdfast::session
