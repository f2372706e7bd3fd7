#include "src/session/renewing.h"

#include <algorithm>

#include "src/base/fork_guard.h"
#include "src/session/core_call.h"
#include "src/session/names.h"

namespace holdfast::session {

void Renewing::start_lease(const AcquisitionPtr& acquisition, const port::AcquisitionState& state,
                           const SendLog& log) {
  const BootInstant now = base::BootClock::now();
  RenewalFsm::Terms terms;
  terms.ttl = acquisition->ttl;
  terms.lock_delay = acquisition->lock_delay;
  terms.bound = bound_;
  const AcquireOptions& options = *acquisition->wait->options;
  terms.renew = options.auto_renew;
  if (options.max_hold > std::chrono::milliseconds::zero()) {
    terms.hold_until = now + options.max_hold;
  }
  acquisition->token = state.token;
  acquisition->renewal.emplace(now, terms, state, log);
  acquisition->wall_minus_boot_ns = acquisition->wall_minus_boot_at_send;
  acquisition->state = LeaseState::kHeld;
  reports_.granted(*acquisition, now);
  if (acquisition->base) acquisition->base->rare_members().upgrade = acquisition;
  // The shared lease may have ended while the store granted its upgrade.
  if (acquisition->base &&
      (acquisition->base->released || acquisition->base->state == LeaseState::kLost)) {
    return lose(acquisition, Error(Errc::kLost, "the shared lease under it has ended"));
  }
  apply(acquisition, acquisition->wait->pushes_missed_at_send == pushes_missed_
                         ? acquisition->renewal->on_tick(now)
                         : acquisition->renewal->on_push_missed(now));
}

void Renewing::apply(const AcquisitionPtr& acquisition, const RenewalFsm::Action& action) {
  switch (action.step) {
    case RenewalFsm::Step::kWait: break;
    case RenewalFsm::Step::kSend: send_out(acquisition, action.seq, /*waiting=*/false); break;
    case RenewalFsm::Step::kLost: lose(acquisition, *acquisition->renewal->loss()); return;
  }
  if (acquisition->renewal->state() == RenewalFsm::State::kLost) return;
  publish(*acquisition);
  schedule(acquisition, acquisition->renewal->wake_at());
}

// The thread that watches over deadlines may be late: a hold that ran out was lost, not released.
void Renewing::look_at_deadline(const AcquisitionPtr& acquisition) {
  const BootInstant now = base::BootClock::now();
  if (acquisition->renewal && now >= acquisition->renewal->deadline()) {
    apply(acquisition, acquisition->renewal->on_tick(now));
  }
}

// One of the held locks may have been broken while pushes were missed. The renewals all leave in
// one batch.
void Renewing::look_at_what_is_held() {
  ++pushes_missed_;
  const BootInstant now = base::BootClock::now();
  for (const AcquisitionPtr& acquisition : held()) {
    apply(acquisition, acquisition->renewal->on_push_missed(now));
  }
}

std::vector<Renewing::AcquisitionPtr> Renewing::held() const {
  std::vector<AcquisitionPtr> held;
  for (const auto& [at, acquisition] : schedule_) {
    if (acquisition->renewal && !acquisition->releasing) held.push_back(acquisition);
  }
  return held;
}

void Renewing::publish(Acquisition& acquisition) {
  acquisition.deadline_ns.store(acquisition.renewal->deadline().time_since_epoch().count(),
                                std::memory_order_release);
  const bool doubt = acquisition.renewal->state() == RenewalFsm::State::kInDoubt;
  acquisition.state.store(doubt ? LeaseState::kInDoubt : LeaseState::kHeld,
                          std::memory_order_release);
}

void Renewing::lose(const AcquisitionPtr& acquisition, const Error& why) {
  unschedule(*acquisition);
  acquisition->state.store(LeaseState::kLost, std::memory_order_release);
  std::string text = lock_here(*acquisition) + " was lost: " + why.message();
  {
    const base::LocalLock lock(Acquisition::loss_mutex);
    if (acquisition->loss) return;
    acquisition->loss = std::make_unique<Error>(why.code(), text);
    acquisition->has_loss = true;
  }
  reports_.lost(*acquisition, why);
  answer_renewals(*acquisition);
  reports_.log(
      reports_.event(LogSeverity::kError, "lock_lost", std::move(text), *acquisition, why.code()));
  if (const auto upgrade = acquisition->upgrade(); upgrade && !upgrade->released) {
    lose(upgrade, Error(why.code(), "the shared lease under it was lost: " + why.message()));
  }
  // Callbacks of the program may block, so they run on the notifier's thread.
  notifier_.post([acquisition] {
    std::stop_source source(std::nostopstate);
    {
      const base::LocalLock lock(Acquisition::loss_mutex);
      source = acquisition->lost_source;
    }
    source.request_stop();
  });
}

std::stop_token Renewing::lost_token(Acquisition& acquisition) {
  if (acquisition.generation != base::process_generation()) {
    std::stop_source stopped;  // A forked child holds nothing, and must not touch the mutex.
    stopped.request_stop();
    return stopped.get_token();
  }
  const base::LocalLock lock(Acquisition::loss_mutex);
  if (!acquisition.lost_source.stop_possible()) {
    acquisition.lost_source = std::stop_source();
    if (acquisition.loss) acquisition.lost_source.request_stop();
  }
  return acquisition.lost_source.get_token();
}

void Renewing::on_renewed(const Outgoing& sent, BootInstant now,
                          const Result<port::AcquisitionState>& reply) {
  const AcquisitionPtr& acquisition = sent.acquisition;
  if (sent.waiting && acquisition->acquire) {
    on_heartbeat_reply(acquisition, now, reply);
  } else if (sent.waiting && (!reply || reply->status != port::AcquisitionStatus::kHeld)) {
    // The push of the grant has overtaken this heartbeat's answer, which is about the time before.
  } else if (acquisition->renewal && !acquisition->releasing && !acquisition->released) {
    reports_.renewed(*acquisition, {sent.planned, sent.sent_at, now}, reply);
    const RenewalFsm::Action action = acquisition->renewal->on_reply(now, reply);
    if (reply.has_value()) {
      acquisition->wall_minus_boot_ns = acquisition->wall_minus_boot_at_send;
    } else {
      const Error& why = reply.error();
      const char* const then =
          acquisition->renewal->tries_again() ? ", will try again (in doubt): " : ": ";
      reports_.log(
          reports_.event(LogSeverity::kWarning, "renewal_failed",
                         lock_before(*acquisition, why) + ": renewal failed" + then + why.message(),
                         *acquisition, why.code()));
    }
    apply(acquisition, action);
    answer_renewals(*acquisition);
  }
}

void Renewing::doubt(const AcquisitionPtr& acquisition) {
  loop_.post([this, acquisition] {
    const Turn turn(*this);
    if (!acquisition->renewal || acquisition->releasing || acquisition->released) return;
    if (acquisition->renewal->in_flight()) return;
    apply(acquisition, acquisition->renewal->on_renew_asked(base::BootClock::now()));
  });
}

// Gives the number of replies once this renewal's has come.
Result<std::uint64_t> Renewing::ask_to_renew(const AcquisitionPtr& acquisition) {
  if (acquisition->released || !acquisition->renewal) {
    return Error(Errc::kLost, lock_named(acquisition->name) + " was released already");
  }
  // The reply to a renewal that is under way may be about an older state.
  const std::uint64_t wanted =
      acquisition->renewal->replies() + (acquisition->renewal->in_flight() ? 2 : 1);
  if (acquisition->renewal->state() != RenewalFsm::State::kLost) {
    apply(acquisition, acquisition->renewal->on_renew_asked(base::BootClock::now()));
  }
  return wanted;
}

// nullopt: not yet.
std::optional<Result<void>> Renewing::renewed(Acquisition& acquisition, std::uint64_t wanted) {
  const LeaseState state = acquisition.state;
  if (state == LeaseState::kReleased) {
    return Error(Errc::kLost, lock_named(acquisition.name) + " was released meanwhile");
  }
  if (state != LeaseState::kLost && acquisition.renewal->replies() < wanted) return std::nullopt;
  if (state == LeaseState::kHeld) return Result<void>();
  if (const auto loss = acquisition.why_lost()) return *loss;
  return Error(Errc::kUnavailable,
               lock_here(acquisition) + ": the renewal failed; it is held until its deadline");
}

Result<void> Renewing::renew(const AcquisitionPtr& acquisition) {
  const Call call(*this);
  if (!call.alive()) return call.alive();
  const BootInstant until = request_deadline();
  std::uint64_t wanted = 0;
  {
    const Turn turn(*this);
    const auto asked = ask_to_renew(acquisition);
    if (!asked) return asked.error();
    wanted = *asked;
  }
  const base::LocalLock lock(mutex_);
  while (true) {
    if (auto answer = renewed(*acquisition, wanted)) return *answer;
    const BootInstant now = base::BootClock::now();
    if (now >= until) {
      return Error(Errc::kOutcomeUnknown,
                   lock_here(*acquisition) + ": the renewal was not answered in time");
    }
    renewed_.wait_for(mutex_, until - now);
  }
}

// The call ends with the reply, which the store owes by its deadline, or else with the lease.
void Renewing::renew(const AcquisitionPtr& acquisition, Done<void> done) {
  const Call call(*this);
  if (!call.alive()) return done(call.alive());
  const Turn turn(*this);
  const auto asked = ask_to_renew(acquisition);
  if (asked) {
    acquisition->rare_members().renew_waits.push_back({*asked, std::move(done)});
    answer_renewals(*acquisition);
  } else {
    answers_.emplace_back([done = std::move(done), error = asked.error()] { done(error); });
  }
}

void Renewing::answer_renewals(Acquisition& acquisition) {
  renewed_.notify_all();
  if (!acquisition.rare) return;
  std::erase_if(acquisition.rare->renew_waits, [&](Acquisition::RenewWait& wait) HOLDFAST_NO_TSA {
    auto answer = renewed(acquisition, wait.replies);
    if (!answer) return false;
    answers_.emplace_back([done = std::move(wait.done), answer = *answer] { done(answer); });
    return true;
  });
}

}  // namespace holdfast::session
