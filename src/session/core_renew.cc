// How the core keeps leases: deadlines on the loop, renewals in batches on their own thread.
#include <algorithm>

#include "src/base/fork_guard.h"
#include "src/session/core.h"
#include "src/session/core_call.h"
#include "src/session/names.h"
#include "src/session/watch_sampler.h"

namespace holdfast::session {
namespace {

// What falls due within this is done in one turn, so that renewals leave in batches.
constexpr Nanos kTick = std::chrono::milliseconds(2);
constexpr Nanos kReleaseRetry = std::chrono::milliseconds(200);

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
  {
    const base::LocalLock lock(mutex_);
    const BootInstant now = base::BootClock::now();
    armed_at_ = BootInstant::max();
    while (!schedule_.empty() && schedule_.begin()->first <= now) {
      const ContenderPtr contender = schedule_.begin()->second;
      unschedule(*contender);
      on_due(contender, now);
    }
    std::erase_if(samplers_, [](const auto& sampler) { return sampler.expired(); });
    for (const auto& weak : samplers_) {
      if (const auto sampler = weak.lock()) arm(sampler->on_tick(now));
    }
    if (!schedule_.empty()) arm(std::max(schedule_.begin()->first, now + kTick));
  }
  flush_outbox();
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
  contender->changed.notify_all();
  log(std::move(text));
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
                     waiting});
}

// Hands what is due to the renewal thread, which takes all that has gathered when it gets to it.
void Core::flush_outbox() {
  {
    const base::LocalLock lock(mutex_);
    if (outbox_.empty()) return;
  }
  renewal_.post([this] {
    std::vector<Outgoing> batch;
    std::vector<port::RenewItem> items;
    BootInstant deadline = request_deadline();
    {
      const base::LocalLock lock(mutex_);
      batch.swap(outbox_);
      const BootInstant now = base::BootClock::now();
      for (const Outgoing& outgoing : batch) {
        items.push_back(outgoing.item);
        // A request that hangs for one must leave time to try again for the shortest lease.
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
  {
    const base::LocalLock lock(mutex_);
    const BootInstant now = base::BootClock::now();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const ContenderPtr& contender = batch[i].contender;
      if (contender->id != batch[i].item.id) continue;
      const Result<port::TicketState> reply =
          replies ? (*replies)[i] : Result<port::TicketState>(replies.error());
      if (batch[i].waiting && contender->acquire) {
        execute(contender, contender->acquire->on_reply(now, reply));
      } else if (contender->renewal && !contender->releasing && !contender->released) {
        if (reply.has_value()) {
          contender->wall_minus_boot_ns = contender->wall_minus_boot_at_send;
        } else {
          log("lock '" + printable(contender->name) + "'" + at_store() +
              ": renewal failed, will try again: " + reply.error().message());
        }
        apply(contender, contender->renewal->on_reply(now, reply));
        contender->changed.notify_all();
      }
    }
  }
  flush_outbox();
}

void Core::doubt(const ContenderPtr& contender) {
  loop_.post([this, contender] {
    {
      const base::LocalLock lock(mutex_);
      if (!contender->renewal || contender->releasing || contender->released) return;
      if (contender->renewal->in_flight()) return;
      apply(contender, contender->renewal->on_renew_asked(base::BootClock::now()));
    }
    flush_outbox();
  });
}

Result<void> Core::renew(const ContenderPtr& contender) {
  const Call call(*this);
  if (!call.alive()) return call.alive();
  const BootInstant until = request_deadline();
  std::uint64_t wanted = 0;
  {
    const base::LocalLock lock(mutex_);
    if (contender->released || !contender->renewal) {
      return Error(Errc::kLost, "lock '" + printable(contender->name) + "' was released already");
    }
    // The reply to a renewal that is under way may be about an older state.
    wanted = contender->renewal->replies() + (contender->renewal->in_flight() ? 2 : 1);
    if (contender->renewal->state() != RenewalFsm::State::kLost) {
      apply(contender, contender->renewal->on_renew_asked(base::BootClock::now()));
    }
  }
  flush_outbox();
  const base::LocalLock lock(mutex_);
  while (contender->state != LeaseState::kLost && contender->renewal->replies() < wanted) {
    const BootInstant now = base::BootClock::now();
    if (now >= until) {
      return Error(Errc::kOutcomeUnknown, "lock '" + printable(contender->name) + "'" + at_store() +
                                              ": the renewal was not answered in time");
    }
    contender->changed.wait_for(mutex_, until - now);
  }
  if (contender->state == LeaseState::kHeld) return {};
  const base::LocalLock loss_lock(contender->loss_mutex);
  if (contender->loss) return *contender->loss;
  return Error(Errc::kUnavailable, "lock '" + printable(contender->name) + "'" + at_store() +
                                       ": the renewal failed; it is held until its deadline");
}

void Core::detach(const ContenderPtr& contender) {
  if (forked()) return;
  const base::LocalLock lock(mutex_);
  if (contender->released) return;
  end_locally(contender);
  contender->released =
      Result<void>(Error(Errc::kInvalidArgument, "lock '" + printable(contender->name) +
                                                     "': this lease was detached; who has its id "
                                                     "can release it"));
}

// The lease is not kept any more and answers "released".
void Core::end_locally(const ContenderPtr& contender) {
  unschedule(*contender);
  contender->released.emplace();
  LeaseState before = contender->state.load();
  while (before != LeaseState::kLost &&
         !contender->state.compare_exchange_weak(before, LeaseState::kReleased)) {
  }
  contender->changed.notify_all();
}

Result<void> Core::release(const ContenderPtr& contender) {
  // In a forked child a mutex may be held by a thread that does not exist there.
  if (forked()) return forked_error();
  const Call call(*this);
  if (!call.alive()) {
    const base::LocalLock lock(contender->loss_mutex);
    return contender->loss ? *contender->loss : call.alive().error();
  }
  std::optional<Error> loss;
  {
    const base::LocalLock lock(mutex_);
    if (contender->released) return *contender->released;
    if (contender->renewal && base::BootClock::now() >= contender->renewal->deadline()) {
      apply(contender, contender->renewal->on_tick(base::BootClock::now()));
    }
    {
      const base::LocalLock loss_lock(contender->loss_mutex);
      loss = contender->loss;
    }
    end_locally(contender);
    if (contender->renewal->taken_over()) {
      contender->released = Result<void>(*loss);
      return *loss;
    }
  }
  const port::TicketRequest request = end_of(*contender);
  auto inlined = store_->release_inline(request);
  const Result<port::EndStatus> ended =
      inlined
          ? *inlined
          : ask<port::EndStatus>([&](BootInstant deadline, port::Done<port::EndStatus> done) {
              store_->release({request.name, request.id, deadline, request.issue}, std::move(done));
            });
  Result<void> answer;
  if (loss) {
    answer = *loss;
  } else if (!ended) {
    answer = Error(ended.error().code(), "lock '" + printable(contender->name) + "'" + at_store() +
                                             ": the release failed (the store frees it at the end "
                                             "of the lease): " +
                                             ended.error().message());
  } else if (*ended == port::EndStatus::kGone) {
    answer = Error(Errc::kLost, "lock '" + printable(contender->name) + "'" + at_store() +
                                    ": the store had taken it back before it was released");
  }
  const base::LocalLock lock(mutex_);
  contender->released = answer;
  if (!ended && !closed_) send_release(contender);  // Goes on trying while the lease lasts.
  return answer;
}

void Core::release_later(const ContenderPtr& contender) {
  if (!check_alive()) return;
  const base::LocalLock lock(mutex_);
  if (closed_ || contender->released || contender->releasing) return;
  end_locally(contender);
  if (!contender->renewal->taken_over()) send_release(contender);
}

// Tried until the lease is over by itself.
void Core::send_release(const ContenderPtr& contender) {
  if (!contender->releasing) ++releases_under_way_;
  contender->releasing = true;
  store_->release(end_of(*contender), [this, contender](const Result<port::EndStatus>& reply) {
    const base::LocalLock lock(mutex_);
    const BootInstant now = base::BootClock::now();
    if (!reply && reply.error().code() != Errc::kClosed &&
        now.time_since_epoch().count() < contender->deadline_ns) {
      schedule(contender, now + kReleaseRetry);
      return;
    }
    contender->releasing = false;
    --releases_under_way_;
    drained_.notify_all();
  });
}

}  // namespace holdfast::session
