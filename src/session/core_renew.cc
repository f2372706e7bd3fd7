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
// A request may take a third of each lease it renews: then there is time for another one.
constexpr int kRequestsPerLease = 3;
// A batch that is given up in the instant before it is sent is not ended by that.
constexpr Nanos kGiveUpAgain = std::chrono::milliseconds(10);

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
  give_up_renewal(now);
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
  const Duration waiter_ttl = waiter_lease(contender->ttl);
  Outgoing outgoing{contender,
                    {contender->stored_name, contender->id, seq, contender->ttl, waiter_ttl, {}},
                    waiter_ttl,
                    waiting};
  if (!waiting) {
    contender->wall_minus_boot_at_send = base::wall_minus_boot().count();
    const RenewalFsm& renewal = *contender->renewal;
    outgoing.item.token = contender->token;
    outgoing.lease = renewal.lease();
    outgoing.planned = renewal.planned_at();
    outgoing.end = renewal.deadline();
  }
  put_out(std::move(outgoing));
}

void Core::put_out(Outgoing outgoing) {
  const BootInstant now = base::BootClock::now();
  const Nanos left = std::max<Nanos>(outgoing.end - now, Nanos::zero());
  outgoing.waits_until = now + std::min(outgoing.lease / kWaitsPerLease, left / 2);
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
                [this, batch](const Result<std::vector<Result<port::TicketState>>>& replies) {
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
  // What is left to the store for a moment is not tried again.
  if (outgoing.contender->keeping) return BootInstant::max();
  return now + outgoing.lease / kRequestsPerLease;
}

void Core::give_up_renewal(BootInstant now) {
  if (under_way_ == nullptr) return;
  if (now < outbox_waits_until_) return arm(outbox_waits_until_);
  under_way_->given_up = true;
  store_->give_up_renewal();
  arm(now + kGiveUpAgain);
}

void Core::on_renewed(const Batch& batch,
                      const Result<std::vector<Result<port::TicketState>>>& replies) {
  const Turn turn(*this);
  const BootInstant now = base::BootClock::now();
  const bool given_up = batch.given_up || now >= batch.deadline;
  for (std::size_t i = 0; i < batch.sent.size(); ++i) {
    const Outgoing& sent = batch.sent[i];
    Result<port::TicketState> reply =
        replies ? (*replies)[i] : Result<port::TicketState>(replies.error());
    if (sent.adopted) {
      answers_.emplace_back(
          [done = sent.adopted, reply = AdoptReply{std::move(reply), given_up}] { done(reply); });
    } else if (sent.contender->id == sent.item.id) {
      on_renewed(sent, now, reply);
    }
  }
}

void Core::on_renewed(const Outgoing& sent, BootInstant now,
                      const Result<port::TicketState>& reply) {
  const ContenderPtr& contender = sent.contender;
  if (sent.waiting && contender->acquire) {
    execute(contender, contender->acquire->on_reply(now, reply));
  } else if (sent.waiting && (!reply || reply->status != port::TicketStatus::kHeld)) {
    // A heartbeat's answer that the push of the grant has overtaken: it is about the time before.
  } else if (contender->renewal && !contender->releasing && !contender->released) {
    if (feed_) see_renewed(sent, now, reply);
    const RenewalFsm::Action action = contender->renewal->on_reply(now, reply);
    if (reply.has_value()) {
      contender->wall_minus_boot_ns = contender->wall_minus_boot_at_send;
    } else {
      const bool again = contender->renewal->tries_again();
      log(log_event(LogSeverity::kWarning, "renewal_failed",
                    "lock '" + printable(contender->name) + "'" + at_store() + ": renewal failed" +
                        (again ? ", will try again: " : ": ") + reply.error().message(),
                    *contender, reply.error().code()));
    }
    apply(contender, action);
    answer_renewals(*contender);
    contender->changed.notify_all();
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
