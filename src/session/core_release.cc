// How leases are given back, or let go.
#include "src/session/core.h"
#include "src/session/core_call.h"
#include "src/session/names.h"

namespace holdfast::session {
namespace {

constexpr Nanos kReleaseRetry = std::chrono::milliseconds(200);

}  // namespace

void Core::detach(const ContenderPtr& contender) {
  if (forked()) return;
  const Turn turn(*this);
  if (contender->released) return;
  // Whoever releases it by its id counts on the ttl.
  if (contender->renewal && contender->renewal->inherited()) {
    apply(contender, contender->renewal->on_renew_asked(base::BootClock::now()));
  }
  if (feed_) see_ended(*contender, HoldEnd::kDetached);
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
  answer_renewals(*contender);
  contender->changed.notify_all();
  // At the store it ends with the lease under it.
  if (const auto upgrade = contender->upgrade.lock(); upgrade && !upgrade->released) {
    end_locally(upgrade);
  }
}

// An answer, when the store need not be asked. `loss`: how the lease ended before.
// The thread that watches over deadlines may be late: a hold that ran out was lost, not released.
void Core::look_at_deadline(const ContenderPtr& contender) {
  const BootInstant now = base::BootClock::now();
  if (contender->renewal && now >= contender->renewal->deadline()) {
    apply(contender, contender->renewal->on_tick(now));
  }
}

std::optional<Result<void>> Core::begin_release(const ContenderPtr& contender,
                                                std::optional<Error>& loss) {
  if (contender->released) return *contender->released;
  look_at_deadline(contender);
  {
    const base::LocalLock loss_lock(contender->loss_mutex);
    loss = contender->loss;
  }
  end_locally(contender);
  if (!contender->renewal->taken_over()) return std::nullopt;
  contender->released = Result<void>(*loss);
  return *loss;
}

Result<void> Core::end_release(const ContenderPtr& contender, const std::optional<Error>& loss,
                               const Result<port::EndStatus>& ended) {
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
  if (feed_) {
    const bool gone = ended && *ended == port::EndStatus::kGone;
    see_ended(*contender, gone ? HoldEnd::kGone : HoldEnd::kReleased);
  }
  contender->released = answer;
  if (!ended && !closed_) send_release(contender);  // Goes on trying while the lease lasts.
  return answer;
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
    const Turn turn(*this);
    if (auto answer = begin_release(contender, loss)) return *answer;
  }
  if (const auto ended = store_->release_inline(release_of(*contender))) {
    return end_release(contender, loss, *ended);
  }
  const auto ended = await<port::EndStatus>(
      [&](Done<port::EndStatus> done) { store_->release(release_of(*contender), std::move(done)); });
  return end_release(contender, loss, ended);
}

void Core::release(const ContenderPtr& contender, Done<void> done) {
  if (forked()) return done(forked_error());
  std::optional<Error> loss;
  std::optional<Result<void>> answer;
  {
    const Turn turn(*this);
    if (closed_) {
      const base::LocalLock loss_lock(contender->loss_mutex);
      answer = contender->loss ? *contender->loss : closed_error();
    } else {
      answer = begin_release(contender, loss);
    }
    if (!answer) ++calls_under_way_;
  }
  if (answer) return done(*std::move(answer));
  if (store_->answers_at_once()) {
    if (const auto ended = store_->release_inline(release_of(*contender))) {
      done(end_release(contender, loss, *ended));
      return end_call();
    }
  }
  store_->release(
      release_of(*contender), [self = shared_from_this(), contender, loss,
                           done = std::move(done)](const Result<port::EndStatus>& ended) mutable {
        // The store may keep copies of this for longer, on threads of its own.
        const auto core = std::move(self);
        core->answer_later(
            [core, done = std::move(done), answer = core->end_release(contender, loss, ended)] {
              done(answer);
              core->end_call();
            });
      });
}

void Core::release_later(const ContenderPtr& contender, std::optional<BootInstant> at) {
  if (!check_alive()) return;
  const Turn turn(*this);
  if (closed_ || contender->released || contender->releasing) return;
  look_at_deadline(contender);
  contender->let_go_at = at;
  const bool left = contender->keeping || (contender->perhaps_kept && !at);
  const bool stays = left || (at && *at > base::BootClock::now());
  if (feed_) see_ended(*contender, stays ? HoldEnd::kDetached : HoldEnd::kReleased);
  end_locally(contender);
  if (!left && !contender->renewal->taken_over()) send_release(contender);
}

// Tried until the lease is over by itself.
void Core::send_release(const ContenderPtr& contender) {
  if (!contender->releasing) ++releases_under_way_;
  contender->releasing = true;
  const BootInstant now = base::BootClock::now();
  if (!contender->let_go_at || *contender->let_go_at <= now) {
    store_->release(release_of(*contender), [this, contender](const Result<port::EndStatus>& reply) {
      on_release_sent(contender, reply ? std::nullopt : std::optional(reply.error().code()));
    });
    return;
  }
  const auto left = std::chrono::ceil<Duration>(*contender->let_go_at - now);
  store_->keep({contender->stored_name, contender->id, contender->renewal->begin_to_keep(now, left),
                left, std::nullopt, request_deadline()},
               [this, contender](const Result<bool>& kept) {
                 on_release_sent(contender,
                                 kept ? std::nullopt : std::optional(kept.error().code()));
               });
}

void Core::on_release_sent(const ContenderPtr& contender, std::optional<Errc> failure) {
  const base::LocalLock lock(mutex_);
  const BootInstant now = base::BootClock::now();
  if (failure && *failure != Errc::kClosed && *failure != Errc::kLost &&
      now.time_since_epoch().count() < contender->deadline_ns) {
    schedule(contender, now + kReleaseRetry);
    return;
  }
  contender->releasing = false;
  --releases_under_way_;
  drained_.notify_all();
}

}  // namespace holdfast::session
