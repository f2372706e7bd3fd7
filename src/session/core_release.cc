// How leases are given back, or let go.
#include "src/session/core.h"
#include "src/session/core_call.h"
#include "src/session/names.h"

namespace holdfast::session {
namespace {

constexpr Nanos kReleaseRetry = std::chrono::milliseconds(200);

}  // namespace

void Core::detach(const AcquisitionPtr& acquisition) {
  if (forked()) return;
  const Turn turn(*this);
  if (acquisition->released) return;
  // Whoever releases it by its id counts on the ttl.
  if (acquisition->renewal && acquisition->renewal->inherited()) {
    apply(acquisition, acquisition->renewal->on_renew_asked(base::BootClock::now()));
  }
  if (feed_) see_ended(*acquisition, HoldEnd::kDetached);
  end_locally(acquisition);
  acquisition->released =
      Result<void>(Error(Errc::kInvalidArgument, "lock '" + printable(acquisition->name) +
                                                     "': this lease was detached; who has its id "
                                                     "can release it"));
}

// The lease is not kept any more and answers "released".
void Core::end_locally(const AcquisitionPtr& acquisition) {
  unschedule(*acquisition);
  acquisition->released.emplace();
  LeaseState before = acquisition->state.load();
  while (before != LeaseState::kLost &&
         !acquisition->state.compare_exchange_weak(before, LeaseState::kReleased)) {
  }
  answer_renewals(*acquisition);
  acquisition->changed.notify_all();
  // At the store it ends with the lease under it.
  if (const auto upgrade = acquisition->upgrade.lock(); upgrade && !upgrade->released) {
    end_locally(upgrade);
  }
}

// An answer, when the store need not be asked. `loss`: how the lease ended before.
// The thread that watches over deadlines may be late: a hold that ran out was lost, not released.
void Core::look_at_deadline(const AcquisitionPtr& acquisition) {
  const BootInstant now = base::BootClock::now();
  if (acquisition->renewal && now >= acquisition->renewal->deadline()) {
    apply(acquisition, acquisition->renewal->on_tick(now));
  }
}

std::optional<Result<void>> Core::begin_release(const AcquisitionPtr& acquisition,
                                                std::optional<Error>& loss) {
  if (acquisition->released) return *acquisition->released;
  look_at_deadline(acquisition);
  {
    const base::LocalLock loss_lock(acquisition->loss_mutex);
    loss = acquisition->loss;
  }
  end_locally(acquisition);
  if (!acquisition->renewal->taken_over()) return std::nullopt;
  acquisition->released = Result<void>(*loss);
  return *loss;
}

Result<void> Core::end_release(const AcquisitionPtr& acquisition, const std::optional<Error>& loss,
                               const Result<port::EndStatus>& ended) {
  Result<void> answer;
  if (loss) {
    answer = *loss;
  } else if (!ended) {
    answer =
        Error(ended.error().code(), "lock '" + printable(acquisition->name) + "'" + at_store() +
                                        ": the release failed (the store frees it at the end "
                                        "of the lease): " +
                                        ended.error().message());
  } else if (*ended == port::EndStatus::kGone) {
    answer = Error(Errc::kLost, "lock '" + printable(acquisition->name) + "'" + at_store() +
                                    ": the store had taken it back before it was released");
  }
  const base::LocalLock lock(mutex_);
  if (feed_) {
    const bool gone = ended && *ended == port::EndStatus::kGone;
    see_ended(*acquisition, gone ? HoldEnd::kGone : HoldEnd::kReleased);
  }
  acquisition->released = answer;
  if (!ended && !closed_) send_release(acquisition);  // Goes on trying while the lease lasts.
  return answer;
}

Result<void> Core::release(const AcquisitionPtr& acquisition) {
  // In a forked child a mutex may be held by a thread that does not exist there.
  if (forked()) return forked_error();
  const Call call(*this);
  if (!call.alive()) {
    const base::LocalLock lock(acquisition->loss_mutex);
    return acquisition->loss ? *acquisition->loss : call.alive().error();
  }
  std::optional<Error> loss;
  {
    const Turn turn(*this);
    if (auto answer = begin_release(acquisition, loss)) return *answer;
  }
  if (const auto ended = store_->release_inline(release_of(*acquisition))) {
    return end_release(acquisition, loss, *ended);
  }
  const auto ended = await<port::EndStatus>([&](Done<port::EndStatus> done) {
    store_->release(release_of(*acquisition), std::move(done));
  });
  return end_release(acquisition, loss, ended);
}

void Core::release(const AcquisitionPtr& acquisition, Done<void> done) {
  if (forked()) return done(forked_error());
  std::optional<Error> loss;
  std::optional<Result<void>> answer;
  {
    const Turn turn(*this);
    if (closed_) {
      const base::LocalLock loss_lock(acquisition->loss_mutex);
      answer = acquisition->loss ? *acquisition->loss : closed_error();
    } else {
      answer = begin_release(acquisition, loss);
    }
    if (!answer) ++calls_under_way_;
  }
  if (answer) return done(*std::move(answer));
  if (store_->answers_at_once()) {
    if (const auto ended = store_->release_inline(release_of(*acquisition))) {
      done(end_release(acquisition, loss, *ended));
      return end_call();
    }
  }
  store_->release(release_of(*acquisition),
                  [self = shared_from_this(), acquisition, loss,
                   done = std::move(done)](const Result<port::EndStatus>& ended) mutable {
                    // The store may keep copies of this for longer, on threads of its own.
                    const auto core = std::move(self);
                    core->answer_later([core, done = std::move(done),
                                        answer = core->end_release(acquisition, loss, ended)] {
                      done(answer);
                      core->end_call();
                    });
                  });
}

void Core::release_later(const AcquisitionPtr& acquisition, std::optional<BootInstant> at) {
  if (!check_alive()) return;
  const Turn turn(*this);
  if (closed_ || acquisition->released || acquisition->releasing) return;
  look_at_deadline(acquisition);
  acquisition->let_go_at = at;
  const bool left = acquisition->keeping || (acquisition->perhaps_kept && !at);
  const bool stays = left || (at && *at > base::BootClock::now());
  if (feed_) see_ended(*acquisition, stays ? HoldEnd::kDetached : HoldEnd::kReleased);
  end_locally(acquisition);
  if (!left && !acquisition->renewal->taken_over()) send_release(acquisition);
}

// Tried until the lease is over by itself.
void Core::send_release(const AcquisitionPtr& acquisition) {
  if (!acquisition->releasing) ++releases_under_way_;
  acquisition->releasing = true;
  const BootInstant now = base::BootClock::now();
  if (!acquisition->let_go_at || *acquisition->let_go_at <= now) {
    store_->release(
        release_of(*acquisition), [this, acquisition](const Result<port::EndStatus>& reply) {
          on_release_sent(acquisition, reply ? std::nullopt : std::optional(reply.error().code()));
        });
    return;
  }
  const auto left = std::chrono::ceil<Duration>(*acquisition->let_go_at - now);
  store_->keep(
      {acquisition->stored_name, acquisition->id, acquisition->renewal->begin_to_keep(now, left),
       left, std::nullopt, request_deadline()},
      [this, acquisition](const Result<bool>& kept) {
        on_release_sent(acquisition, kept ? std::nullopt : std::optional(kept.error().code()));
      });
}

void Core::on_release_sent(const AcquisitionPtr& acquisition, std::optional<Errc> failure) {
  const base::LocalLock lock(mutex_);
  const BootInstant now = base::BootClock::now();
  if (failure && *failure != Errc::kClosed && *failure != Errc::kLost &&
      now.time_since_epoch().count() < acquisition->deadline_ns) {
    schedule(acquisition, now + kReleaseRetry);
    return;
  }
  acquisition->releasing = false;
  --releases_under_way_;
  drained_.notify_all();
}

}  // namespace holdfast::session
