// Decides how a lock is asked for, waited for, and left. Pure: events in, actions out; no clock,
// thread or socket.
//
//   Phase        held         waiting     busy    gone            error        wait over, cancel
//   kAsking      kDone or     kQueued     kDone   kAsking anew    kDone, or    kLeaving; or kDone
//                kConfirming                                      asks again   while it is away
//   kQueued      kDone or     kQueued     -       kAsking anew    kQueued      kLeaving
//                kConfirming                                      or kLeaving
//   kConfirming  kDone        kQueued     -       kAsking anew    the same     kLeaving
//   kLeaving     -            -           -       -               -            kDone: confirmed, or
//                                                                              patience ended
//
// Guarantee: "granted" is said only with a deadline counted from a send, and while at least
// `min_left` of it is left. Otherwise the ticket is renewed first. A wait that ends for any other
// reason has left the queue and given back a crossing grant, or says kOutcomeUnknown. This includes
// a wait that ends because the store refused a heartbeat (a revoked permission, damaged state). If
// the store also refuses the cancel, the error is that of the heartbeat and says so, and the ticket
// stays until its lease ends. An acquisition that has queued waits out a store outage as it waits
// for the lock. With `outlasts_first` so does one that has not.
// Time: on_timer() wants to be called at wake_at(); while waiting nothing is sent but the
// heartbeat.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "holdfast/result.h"
#include "src/port/store.h"
#include "src/session/deadline.h"
#include "src/session/send_log.h"

namespace holdfast::session {

class AcquireFsm {
 public:
  struct Terms {
    Duration ttl{};
    Duration lock_delay{};  // The end of a granted lease, which this side does not count on.
    Duration waiter_ttl{};
    bool may_wait = true;
    bool outlasts_first = false;  // An outage before the first answer is waited out, too.
    std::optional<Nanos> wait{};  // Not set: without limit.
    Nanos heartbeat{};            // Period of the heartbeat, which is also the safety poll.
    Nanos min_left{};
    bool whole = false;  // Nobody renews it later: a grant is for the ttl, not a waiter's lease.
    Nanos request = std::chrono::seconds(5);   // Longest that one who does not wait asks again.
    Nanos patience = std::chrono::seconds(2);  // For the store to confirm that we left.
    ClockBound bound{};
  };

  enum class Step : std::uint8_t {
    kWait,           // Nothing until wake_at() or an event.
    kSendAcquire,    // With a fresh id if `fresh_id`, else with the same one.
    kSendHeartbeat,  // Numbered `seq`.
    kSendCancel,
    kGranted,  // held() and log() tell the rest.
    kBusy,
    kFailed,  // error() tells why. Nothing is held, nothing is under way.
  };
  struct Action {
    Step step = Step::kWait;
    std::uint64_t seq = 0;
    bool fresh_id = false;
  };

  explicit AcquireFsm(const Terms& terms) : terms_(terms) {}

  Action start(BootInstant now);
  // Instead, where the first request went out elsewhere at `sent`, and perhaps was applied.
  Action start_again(BootInstant now, BootInstant sent);
  Action on_reply(BootInstant now,
                  const Result<port::AcquisitionState>& reply);  // Acquire, heartbeat.
  Action on_cancel_reply(BootInstant now, const Result<port::EndStatus>& reply);
  Action on_push(BootInstant now, const port::Push& push);
  Action on_timer(BootInstant now);
  Action on_cancel(BootInstant now, Errc why);  // kCancelled, kClosed.
  Action on_deadlock(BootInstant now, Error why);

  BootInstant wake_at() const { return wake_at_; }
  bool queued() const { return phase_ == Phase::kQueued; }
  bool may_wait() const { return terms_.may_wait; }
  std::uint32_t ahead() const { return ahead_; }
  // Why the store has had no ticket of this acquisition so far, which waits for the store.
  const std::optional<Error>& held_up() const { return held_up_; }
  // A waiter was told that only lock-delays keep the lock closed, and until when at most.
  const std::optional<BootInstant>& opens_at() const { return opens_at_; }
  const port::AcquisitionState& held() const { return held_; }
  const SendLog& log() const { return log_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  enum class Phase : std::uint8_t { kIdle, kAsking, kQueued, kConfirming, kLeaving, kDone };

  Action ask(BootInstant now, bool fresh_id);
  Action beat(BootInstant now);
  Action on_held(BootInstant now, const port::AcquisitionState& state);
  bool lease_is_too_short(const port::AcquisitionState& renewed);
  Action on_waiting(BootInstant now, const port::AcquisitionState& state);
  Action on_failed_reply(BootInstant now, const Error& error);
  Action outlast(BootInstant now, const Error& error);
  Action leave(BootInstant now, Errc why);
  Action left();
  void note(const Error& error);
  Error unconfirmed() const;
  std::string still_closed() const;
  Action fail(Error error);
  void sleep_until(BootInstant at);
  bool wait_over(BootInstant now) const { return wait_until_ && now >= *wait_until_; }

  Terms terms_;
  Phase phase_ = Phase::kIdle;
  SendLog log_;
  port::AcquisitionState held_;
  std::optional<BootInstant> wait_until_;
  BootInstant wake_at_ = BootInstant::max();
  BootInstant retry_until_ = BootInstant::max();
  BootInstant answer_until_ = BootInstant::max();  // For a caller that does not wait.
  BootInstant leave_until_ = BootInstant::max();
  std::uint32_t ahead_ = 0;
  std::optional<BootInstant> opens_at_;
  bool in_flight_ = false;
  bool ask_again_ = false;
  bool maybe_applied_ = false;  // A request with this id had no answer.
  bool has_queued_ = false;     // The store has had a ticket of this acquisition.
  std::optional<Error> away_;   // Until it is asked again, nothing of ours is there or on its way.
  std::optional<Error> held_up_;
  Errc leaving_why_ = Errc::kCancelled;
  bool leaving_busy_ = false;           // The same for an end that is no failure.
  std::optional<Error> unreached_;      // The store was out of reach when it was asked last.
  std::optional<Error> passing_;        // The last failure that may pass.
  std::optional<Error> leaving_error_;  // Set: what to fail with once the store has confirmed.
  std::optional<Error> error_;
};

}  // namespace holdfast::session
