// How the core keeps leases: deadlines on the loop, renewals in batches on their own thread.
#include <algorithm>

#include "src/base/fork_guard.h"
#include "src/session/core.h"
#include "src/session/core_call.h"
#include "src/session/deadlock_watch.h"
#include "src/session/names.h"
#include "src/session/watch_sampler.h"

namespace holdfast::session {
namespace {

// Everything due within this time is done in one turn, so that renewals leave in batches.
constexpr Nanos kTick = std::chrono::milliseconds(2);
// A batch that is given up in the instant before it is sent is not ended by that.
constexpr Nanos kGiveUpAgain = std::chrono::milliseconds(10);

}  // namespace

void Core::schedule(const AcquisitionPtr& acquisition, BootInstant at) {
  if (acquisition->slot && (*acquisition->slot)->first == at) return;
  unschedule(*acquisition);
  if (at == BootInstant::max()) return;
  // New deadlines are mostly the latest.
  acquisition->slot = schedule_.emplace_hint(schedule_.end(), at, acquisition);
  arm(at);
}

void Core::unschedule(Acquisition& acquisition) {
  if (!acquisition.slot) return;
  const auto slot = *acquisition.slot;
  acquisition.slot.reset();
  schedule_.erase(slot);
}

// The timer may stand too early (what it was armed for is gone): the next turn arms it anew.
void Core::arm(BootInstant at) {
  if (at >= armed_at_) return;
  armed_at_ = at;
  loop_.arm(at);
}

void Core::on_timer() {
  const Turn turn(*this);
  const BootInstant now = base::BootClock::now();
  armed_at_ = BootInstant::max();
  leave_push_reader();
  while (!schedule_.empty() && schedule_.begin()->first <= now) {
    const AcquisitionPtr acquisition = schedule_.begin()->second;
    unschedule(*acquisition);
    on_due(acquisition, now);
  }
  std::erase_if(samplers_, [](const auto& sampler) { return sampler.expired(); });
  for (const auto& weak : samplers_) {
    if (const auto sampler = weak.lock()) arm(sampler->on_tick(now));
  }
  if (deadlocks_ && !closed_) arm(deadlocks_->on_tick(now));
  give_up_renewal(now);
  wake_sleepers(now);
  if (!schedule_.empty()) arm(std::max(schedule_.begin()->first, now + kTick));
}

void Core::on_due(const AcquisitionPtr& acquisition, BootInstant now) {
  if (acquisition->acquire) {
    execute(acquisition, acquisition->acquire->on_timer(now));
  } else if (acquisition->releasing) {
    send_release(acquisition);
  } else if (acquisition->renewal) {
    apply(acquisition, acquisition->renewal->on_tick(now));
  }
}

void Core::apply(const AcquisitionPtr& acquisition, const RenewalFsm::Action& action) {
  switch (action.step) {
    case RenewalFsm::Step::kWait: break;
    case RenewalFsm::Step::kSend: send_out(acquisition, action.seq, /*waiting=*/false); break;
    case RenewalFsm::Step::kLost: lose(acquisition, *acquisition->renewal->loss()); return;
  }
  if (acquisition->renewal->state() == RenewalFsm::State::kLost) return;
  publish(*acquisition);
  schedule(acquisition, acquisition->renewal->wake_at());
}

// One of them may have been broken, and the push of that was missed. All leave in one batch.
void Core::look_at_what_is_held() {
  ++pushes_missed_;
  const BootInstant now = base::BootClock::now();
  std::vector<AcquisitionPtr> held;
  for (const auto& [at, acquisition] : schedule_) {
    if (acquisition->renewal && !acquisition->releasing) held.push_back(acquisition);
  }
  for (const AcquisitionPtr& acquisition : held) {
    apply(acquisition, acquisition->renewal->on_push_missed(now));
  }
}

void Core::publish(Acquisition& acquisition) {
  acquisition.deadline_ns.store(acquisition.renewal->deadline().time_since_epoch().count(),
                                std::memory_order_release);
  const bool doubt = acquisition.renewal->state() == RenewalFsm::State::kInDoubt;
  acquisition.state.store(doubt ? LeaseState::kInDoubt : LeaseState::kHeld,
                          std::memory_order_release);
}

void Core::lose(const AcquisitionPtr& acquisition, const Error& why) {
  unschedule(*acquisition);
  acquisition->state.store(LeaseState::kLost, std::memory_order_release);
  std::string text =
      "lock '" + printable(acquisition->name) + "'" + at_store() + " was lost: " + why.message();
  {
    const base::LocalLock lock(acquisition->loss_mutex);
    if (acquisition->loss) return;
    acquisition->loss = Error(why.code(), text);
  }
  if (feed_) see_lost(*acquisition, why);
  acquisition->changed.notify_all();
  answer_renewals(*acquisition);
  log(log_event(LogSeverity::kError, "lock_lost", std::move(text), *acquisition, why.code()));
  if (const auto upgrade = acquisition->upgrade.lock(); upgrade && !upgrade->released) {
    lose(upgrade, Error(why.code(), "the shared lease under it was lost: " + why.message()));
  }
  notifier_.post([acquisition] {
    std::optional<std::stop_source> source;
    {
      const base::LocalLock lock(acquisition->loss_mutex);
      source = acquisition->lost_source;
    }
    if (source) source->request_stop();
  });
}

std::stop_token Core::lost_token(Acquisition& acquisition) {
  if (acquisition.generation != base::process_generation()) {
    std::stop_source stopped;  // A forked child holds nothing, and must not touch the mutex.
    stopped.request_stop();
    return stopped.get_token();
  }
  const base::LocalLock lock(acquisition.loss_mutex);
  if (!acquisition.lost_source) {
    acquisition.lost_source.emplace();
    if (acquisition.loss) acquisition.lost_source->request_stop();
  }
  return acquisition.lost_source->get_token();
}

void Core::send_out(const AcquisitionPtr& acquisition, std::uint64_t seq, bool waiting) {
  const Duration waiter_ttl = RenewalSchedule::waiter_lease(acquisition->ttl);
  Outgoing outgoing{
      acquisition,
      {acquisition->stored_name, acquisition->id, seq, acquisition->ttl, waiter_ttl, {}},
      waiter_ttl,
      waiting};
  if (!waiting) {
    acquisition->wall_minus_boot_at_send = base::wall_minus_boot().count();
    const RenewalFsm& renewal = *acquisition->renewal;
    outgoing.item.token = acquisition->token;
    outgoing.lease = renewal.lease();
    outgoing.planned = renewal.planned_at();
    outgoing.end = renewal.deadline();
  }
  put_out(std::move(outgoing));
}

void Core::put_out(Outgoing outgoing) {
  const BootInstant now = base::BootClock::now();
  const Nanos left = std::max<Nanos>(outgoing.end - now, Nanos::zero());
  outgoing.waits_until = now + std::min(RenewalSchedule(outgoing.lease).batch_wait(), left / 2);
  outbox_waits_until_ = std::min(outbox_waits_until_, outgoing.waits_until);
  outbox_.push_back(std::move(outgoing));
  if (under_way_ != nullptr) arm(outbox_waits_until_);
}

// Hands what is due to the renewal thread, which takes all that has gathered when it gets to it.
void Core::send_outbox() {
  renewal_.post([this] {
    while (send_batch()) {
    }
  });
}

bool Core::send_batch() {
  const auto batch = std::make_shared<Batch>();
  std::vector<port::RenewItem> items = take_outbox(*batch);
  if (items.empty()) return false;
  store_->renew(std::move(items), batch->deadline,
                [this, batch](const Result<std::vector<Result<port::AcquisitionState>>>& replies) {
                  on_renewed(*batch, replies);
                });
  const base::LocalLock lock(mutex_);
  under_way_ = nullptr;
  return true;
}

// An adoption goes behind what is renewed, and not with it: it may take longer, and is tried again
// at once.
std::vector<port::RenewItem> Core::take_outbox(Batch& batch) {
  std::vector<port::RenewItem> items;
  const base::LocalLock lock(mutex_);
  const auto behind = std::stable_partition(outbox_.begin(), outbox_.end(),
                                            [](const Outgoing& each) { return !each.adopted; });
  const auto end = behind == outbox_.begin() ? outbox_.end() : behind;
  batch.sent.assign(std::move_iterator(outbox_.begin()), std::move_iterator(end));
  outbox_.erase(outbox_.begin(), end);
  outbox_waits_until_ = BootInstant::max();
  for (const Outgoing& left : outbox_) {
    outbox_waits_until_ = std::min(outbox_waits_until_, left.waits_until);
  }
  if (batch.sent.empty()) return items;
  under_way_ = &batch;
  if (!outbox_.empty()) arm(outbox_waits_until_);
  const BootInstant now = base::BootClock::now();
  batch.deadline = request_deadline();
  items.reserve(batch.sent.size());
  for (Outgoing& outgoing : batch.sent) {
    outgoing.sent_at = now;
    items.push_back(outgoing.item);
    batch.deadline = std::min(batch.deadline, request_end(outgoing, now));
  }
  return items;
}

BootInstant Core::request_end(const Outgoing& outgoing, BootInstant now) {
  if (outgoing.adopted) return outgoing.end;
  // A lease that is left to the store for a moment is not tried again.
  if (outgoing.acquisition->keeping) return BootInstant::max();
  return now + RenewalSchedule(outgoing.lease).request_time();
}

void Core::give_up_renewal(BootInstant now) {
  if (under_way_ == nullptr) return;
  if (now < outbox_waits_until_) return arm(outbox_waits_until_);
  under_way_->given_up = true;
  store_->give_up_renewal();
  arm(now + kGiveUpAgain);
}

void Core::on_renewed(const Batch& batch,
                      const Result<std::vector<Result<port::AcquisitionState>>>& replies) {
  const Turn turn(*this);
  const BootInstant now = base::BootClock::now();
  const bool given_up = batch.given_up || now >= batch.deadline;
  for (std::size_t i = 0; i < batch.sent.size(); ++i) {
    const Outgoing& sent = batch.sent[i];
    Result<port::AcquisitionState> reply =
        replies ? (*replies)[i] : Result<port::AcquisitionState>(replies.error());
    if (sent.adopted) {
      answers_.emplace_back(
          [done = sent.adopted, reply = AdoptReply{std::move(reply), given_up}] { done(reply); });
    } else if (sent.acquisition->id == sent.item.id) {
      on_renewed(sent, now, reply);
    }
  }
}

void Core::on_renewed(const Outgoing& sent, BootInstant now,
                      const Result<port::AcquisitionState>& reply) {
  const AcquisitionPtr& acquisition = sent.acquisition;
  if (sent.waiting && acquisition->acquire) {
    execute(acquisition, acquisition->acquire->on_reply(now, reply));
  } else if (sent.waiting && (!reply || reply->status != port::AcquisitionStatus::kHeld)) {
    // A heartbeat's answer that the push of the grant has overtaken: it is about the time before.
  } else if (acquisition->renewal && !acquisition->releasing && !acquisition->released) {
    if (feed_) see_renewed(sent, now, reply);
    const RenewalFsm::Action action = acquisition->renewal->on_reply(now, reply);
    if (reply.has_value()) {
      acquisition->wall_minus_boot_ns = acquisition->wall_minus_boot_at_send;
    } else {
      const bool again = acquisition->renewal->tries_again();
      log(log_event(LogSeverity::kWarning, "renewal_failed",
                    "lock '" + printable(acquisition->name) + "'" + at_store() +
                        ": renewal failed" + (again ? ", will try again: " : ": ") +
                        reply.error().message(),
                    *acquisition, reply.error().code()));
    }
    apply(acquisition, action);
    answer_renewals(*acquisition);
    acquisition->changed.notify_all();
  }
}

void Core::doubt(const AcquisitionPtr& acquisition) {
  loop_.post([this, acquisition] {
    const Turn turn(*this);
    if (!acquisition->renewal || acquisition->releasing || acquisition->released) return;
    if (acquisition->renewal->in_flight()) return;
    apply(acquisition, acquisition->renewal->on_renew_asked(base::BootClock::now()));
  });
}

// How many replies there will be when this one has come.
Result<std::uint64_t> Core::ask_to_renew(const AcquisitionPtr& acquisition) {
  if (acquisition->released || !acquisition->renewal) {
    return Error(Errc::kLost, "lock '" + printable(acquisition->name) + "' was released already");
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
std::optional<Result<void>> Core::renewed(Acquisition& acquisition, std::uint64_t wanted) {
  const LeaseState state = acquisition.state;
  if (state == LeaseState::kReleased) {
    return Error(Errc::kLost, "lock '" + printable(acquisition.name) + "' was released meanwhile");
  }
  if (state != LeaseState::kLost && acquisition.renewal->replies() < wanted) return std::nullopt;
  if (state == LeaseState::kHeld) return Result<void>();
  const base::LocalLock loss_lock(acquisition.loss_mutex);
  if (acquisition.loss) return *acquisition.loss;
  return Error(Errc::kUnavailable, "lock '" + printable(acquisition.name) + "'" + at_store() +
                                       ": the renewal failed; it is held until its deadline");
}

Result<void> Core::renew(const AcquisitionPtr& acquisition) {
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
      return Error(Errc::kOutcomeUnknown, "lock '" + printable(acquisition->name) + "'" +
                                              at_store() +
                                              ": the renewal was not answered in time");
    }
    acquisition->changed.wait_for(mutex_, until - now);
  }
}

// Ends with the reply, which the store owes by its deadline, or else with the lease.
void Core::renew(const AcquisitionPtr& acquisition, Done<void> done) {
  const Call call(*this);
  if (!call.alive()) return done(call.alive());
  const Turn turn(*this);
  const auto asked = ask_to_renew(acquisition);
  if (asked) {
    acquisition->renew_waits.push_back({*asked, std::move(done)});
    answer_renewals(*acquisition);
  } else {
    answers_.emplace_back([done = std::move(done), error = asked.error()] { done(error); });
  }
}

void Core::answer_renewals(Acquisition& acquisition) {
  std::erase_if(acquisition.renew_waits, [&](Acquisition::RenewWait& wait) HOLDFAST_NO_TSA {
    auto answer = renewed(acquisition, wait.replies);
    if (!answer) return false;
    answers_.emplace_back([done = std::move(wait.done), answer = *answer] { done(answer); });
    return true;
  });
}

}  // namespace holdfast::session
