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

// What falls due within this is done in one turn, so that renewals leave in batches.
constexpr Nanos kTick = std::chrono::milliseconds(2);

}  // namespace

void Core::schedule(const ContenderPtr& contender, BootInstant at) {
  if (contender->slot && (*contender->slot)->first == at) return;
  unschedule(*contender);
  if (at == BootInstant::max()) return;
  // New deadlines are mostly the latest.
  contender->slot = schedule_.emplace_hint(schedule_.end(), at, contender);
  arm(at);
}

void Core::unschedule(Contender& contender) {
  if (!contender.slot) return;
  const auto slot = *contender.slot;
  contender.slot.reset();
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
  leave_ear();
  while (!schedule_.empty() && schedule_.begin()->first <= now) {
    const ContenderPtr contender = schedule_.begin()->second;
    unschedule(*contender);
    on_due(contender, now);
  }
  std::erase_if(samplers_, [](const auto& sampler) { return sampler.expired(); });
  for (const auto& weak : samplers_) {
    if (const auto sampler = weak.lock()) arm(sampler->on_tick(now));
  }
  if (deadlocks_ && !closed_) arm(deadlocks_->on_tick(now));
  wake_sleepers(now);
  if (!schedule_.empty()) arm(std::max(schedule_.begin()->first, now + kTick));
}

void Core::on_due(const ContenderPtr& contender, BootInstant now) {
  if (contender->acquire) {
    execute(contender, contender->acquire->on_timer(now));
  } else if (contender->releasing) {
    send_release(contender);
  } else if (contender->renewal) {
    apply(contender, contender->renewal->on_tick(now));
  }
}

void Core::apply(const ContenderPtr& contender, const RenewalFsm::Action& action) {
  switch (action.step) {
    case RenewalFsm::Step::kWait: break;
    case RenewalFsm::Step::kSend: send_out(contender, action.seq, /*waiting=*/false); break;
    case RenewalFsm::Step::kLost: lose(contender, *contender->renewal->loss()); return;
  }
  if (contender->renewal->state() == RenewalFsm::State::kLost) return;
  publish(*contender);
  schedule(contender, contender->renewal->wake_at());
}

// One of them may have been broken, and the push of that was missed. All leave in one batch.
void Core::look_at_what_is_held() {
  ++pushes_missed_;
  const BootInstant now = base::BootClock::now();
  std::vector<ContenderPtr> held;
  for (const auto& [at, contender] : schedule_) {
    if (contender->renewal && !contender->releasing) held.push_back(contender);
  }
  for (const ContenderPtr& contender : held) {
    apply(contender, contender->renewal->on_push_missed(now));
  }
}

void Core::publish(Contender& contender) {
  contender.deadline_ns.store(contender.renewal->deadline().time_since_epoch().count(),
                              std::memory_order_release);
  const bool doubt = contender.renewal->state() == RenewalFsm::State::kInDoubt;
  contender.state.store(doubt ? LeaseState::kInDoubt : LeaseState::kHeld,
                        std::memory_order_release);
}

void Core::lose(const ContenderPtr& contender, const Error& why) {
  unschedule(*contender);
  contender->state.store(LeaseState::kLost, std::memory_order_release);
  std::string text =
      "lock '" + printable(contender->name) + "'" + at_store() + " was lost: " + why.message();
  {
    const base::LocalLock lock(contender->loss_mutex);
    if (contender->loss) return;
    contender->loss = Error(why.code(), text);
  }
  if (feed_) see_lost(*contender, why);
  contender->changed.notify_all();
  answer_renewals(*contender);
  log(log_event(LogSeverity::kError, "lock_lost", std::move(text), *contender, why.code()));
  if (const auto upgrade = contender->upgrade.lock(); upgrade && !upgrade->released) {
    lose(upgrade, Error(why.code(), "the shared lease under it was lost: " + why.message()));
  }
  notifier_.post([contender] {
    std::optional<std::stop_source> source;
    {
      const base::LocalLock lock(contender->loss_mutex);
      source = contender->lost_source;
    }
    if (source) source->request_stop();
  });
}

std::stop_token Core::lost_token(Contender& contender) {
  if (contender.generation != base::process_generation()) {
    std::stop_source stopped;  // A forked child holds nothing, and must not touch the mutex.
    stopped.request_stop();
    return stopped.get_token();
  }
  const base::LocalLock lock(contender.loss_mutex);
  if (!contender.lost_source) {
    contender.lost_source.emplace();
    if (contender.loss) contender.lost_source->request_stop();
  }
  return contender.lost_source->get_token();
}

void Core::send_out(const ContenderPtr& contender, std::uint64_t seq, bool waiting) {
  if (!waiting) contender->wall_minus_boot_at_send = base::wall_minus_boot().count();
  outbox_.push_back({contender,
                     {contender->stored_name, contender->id, seq, contender->ttl,
                      waiter_lease(contender->ttl), waiting ? port::Token{} : contender->token},
                     waiting,
                     waiting ? BootInstant{} : contender->renewal->planned_at(),
                     {}});
}

// Hands what is due to the renewal thread, which takes all that has gathered when it gets to it.
void Core::send_outbox() {
  renewal_.post([this] {
    std::vector<Outgoing> batch;
    std::vector<port::RenewItem> items;
    BootInstant deadline = request_deadline();
    {
      const base::LocalLock lock(mutex_);
      batch.swap(outbox_);
      const BootInstant now = base::BootClock::now();
      for (Outgoing& outgoing : batch) {
        outgoing.sent_at = now;
        items.push_back(outgoing.item);
        // A request that hangs for one must leave time to try again for the shortest lease. (What
        // is left to the store for a moment is not tried again.)
        if (outgoing.contender->keeping) continue;
        deadline = std::min(deadline, now + Nanos(outgoing.item.ttl) / 3);
      }
    }
    if (items.empty()) return;
    store_->renew(std::move(items), deadline,
                  [this, batch = std::make_shared<std::vector<Outgoing>>(std::move(batch))](
                      const Result<std::vector<Result<port::TicketState>>>& replies) {
                    on_renewed(*batch, replies);
                  });
  });
}

void Core::on_renewed(const std::vector<Outgoing>& batch,
                      const Result<std::vector<Result<port::TicketState>>>& replies) {
  const Turn turn(*this);
  const BootInstant now = base::BootClock::now();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const ContenderPtr& contender = batch[i].contender;
    if (contender->id != batch[i].item.id) continue;
    const Result<port::TicketState> reply =
        replies ? (*replies)[i] : Result<port::TicketState>(replies.error());
    if (batch[i].waiting && contender->acquire) {
      execute(contender, contender->acquire->on_reply(now, reply));
    } else if (batch[i].waiting && (!reply || reply->status != port::TicketStatus::kHeld)) {
      // A heartbeat's answer that the push of the grant has overtaken: it is about the time before.
    } else if (contender->renewal && !contender->releasing && !contender->released) {
      if (feed_) see_renewed(batch[i], now, reply);
      const RenewalFsm::Action action = contender->renewal->on_reply(now, reply);
      if (reply.has_value()) {
        contender->wall_minus_boot_ns = contender->wall_minus_boot_at_send;
      } else {
        const bool again = contender->renewal->tries_again();
        log(log_event(LogSeverity::kWarning, "renewal_failed",
                      "lock '" + printable(contender->name) + "'" + at_store() +
                          ": renewal failed" + (again ? ", will try again: " : ": ") +
                          reply.error().message(),
                      *contender, reply.error().code()));
      }
      apply(contender, action);
      answer_renewals(*contender);
      contender->changed.notify_all();
    }
  }
}

void Core::doubt(const ContenderPtr& contender) {
  loop_.post([this, contender] {
    const Turn turn(*this);
    if (!contender->renewal || contender->releasing || contender->released) return;
    if (contender->renewal->in_flight()) return;
    apply(contender, contender->renewal->on_renew_asked(base::BootClock::now()));
  });
}

// How many replies there will be when this one has come.
Result<std::uint64_t> Core::ask_to_renew(const ContenderPtr& contender) {
  if (contender->released || !contender->renewal) {
    return Error(Errc::kLost, "lock '" + printable(contender->name) + "' was released already");
  }
  // The reply to a renewal that is under way may be about an older state.
  const std::uint64_t wanted =
      contender->renewal->replies() + (contender->renewal->in_flight() ? 2 : 1);
  if (contender->renewal->state() != RenewalFsm::State::kLost) {
    apply(contender, contender->renewal->on_renew_asked(base::BootClock::now()));
  }
  return wanted;
}

// nullopt: not yet.
std::optional<Result<void>> Core::renewed(Contender& contender, std::uint64_t wanted) {
  const LeaseState state = contender.state;
  if (state == LeaseState::kReleased) {
    return Error(Errc::kLost, "lock '" + printable(contender.name) + "' was released meanwhile");
  }
  if (state != LeaseState::kLost && contender.renewal->replies() < wanted) return std::nullopt;
  if (state == LeaseState::kHeld) return Result<void>();
  const base::LocalLock loss_lock(contender.loss_mutex);
  if (contender.loss) return *contender.loss;
  return Error(Errc::kUnavailable, "lock '" + printable(contender.name) + "'" + at_store() +
                                       ": the renewal failed; it is held until its deadline");
}

Result<void> Core::renew(const ContenderPtr& contender) {
  const Call call(*this);
  if (!call.alive()) return call.alive();
  const BootInstant until = request_deadline();
  std::uint64_t wanted = 0;
  {
    const Turn turn(*this);
    const auto asked = ask_to_renew(contender);
    if (!asked) return asked.error();
    wanted = *asked;
  }
  const base::LocalLock lock(mutex_);
  while (true) {
    if (auto answer = renewed(*contender, wanted)) return *answer;
    const BootInstant now = base::BootClock::now();
    if (now >= until) {
      return Error(Errc::kOutcomeUnknown, "lock '" + printable(contender->name) + "'" + at_store() +
                                              ": the renewal was not answered in time");
    }
    contender->changed.wait_for(mutex_, until - now);
  }
}

// Ends with the reply, which the store owes by its deadline, or else with the lease.
void Core::renew(const ContenderPtr& contender, Done<void> done) {
  const Call call(*this);
  if (!call.alive()) return done(call.alive());
  const Turn turn(*this);
  const auto asked = ask_to_renew(contender);
  if (asked) {
    contender->renew_waits.push_back({*asked, std::move(done)});
    answer_renewals(*contender);
  } else {
    answers_.emplace_back([done = std::move(done), error = asked.error()] { done(error); });
  }
}

void Core::answer_renewals(Contender& contender) {
  std::erase_if(contender.renew_waits, [&](Contender::RenewWait& wait) HOLDFAST_NO_TSA {
    auto answer = renewed(contender, wait.replies);
    if (!answer) return false;
    answers_.emplace_back([done = std::move(wait.done), answer = *answer] { done(answer); });
    return true;
  });
}

}  // namespace holdfast::session
