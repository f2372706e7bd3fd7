#include "src/session/releasing.h"

#include "src/session/core_call.h"
#include "src/session/names.h"

namespace holdfast::session {
namespace {

constexpr Nanos kReleaseRetry = std::chrono::milliseconds(200);

}  // namespace

// A release need not outlast the lease, after which nothing is left to give back. A lease that has
// ended gets a moment.
port::AcquisitionRequest Releasing::release_of(const Acquisition& acquisition) const {
  constexpr Nanos kMoment = std::chrono::milliseconds(200);
  port::AcquisitionRequest request = end_of(acquisition);
  const BootInstant lease_end{Nanos(acquisition.deadline_ns.load())};
  request.deadline =
      std::min(request.deadline, std::max(lease_end, base::BootClock::now() + kMoment));
  return request;
}

void Releasing::detach(const AcquisitionPtr& acquisition) {
  if (forked()) return;
  const Turn turn(*this);
  if (acquisition->released) return;
  // Whoever releases the lease by its id counts on the ttl, and one from the queue has a waiter's
  // length.
  if (acquisition->renewal && acquisition->renewal->inherited()) {
    apply(acquisition, acquisition->renewal->on_renew_asked(base::BootClock::now()));
  }
  reports_.ended(*acquisition, HoldEnd::kDetached);
  end_locally(acquisition);
  acquisition->answer_release(detached_error(*acquisition));
}

Error Releasing::detached_error(const Acquisition& acquisition) {
  return {Errc::kInvalidArgument,
          lock_named(acquisition.name) +
              ": this lease was detached; whoever has its id can release it"};
}

// The lease is not kept any more and answers "released".
void Releasing::end_locally(const AcquisitionPtr& acquisition) {
  unschedule(*acquisition);
  acquisition->released = true;
  LeaseState before = acquisition->state.load();
  while (before != LeaseState::kLost &&
         !acquisition->state.compare_exchange_weak(before, LeaseState::kReleased)) {
  }
  answer_renewals(*acquisition);
  // At the store it ends with the lease under it.
  if (const auto upgrade = acquisition->upgrade(); upgrade && !upgrade->released) {
    end_locally(upgrade);
  }
}

// Where another process has adopted a lease, a release would end that one's hold, and where a
// lock-delay follows a loss, it would end the delay.
bool Releasing::must_run_out(const Acquisition& acquisition) {
  const bool delayed = acquisition.lock_delay > Duration::zero() && acquisition.why_lost();
  return delayed || acquisition.renewal->taken_over();
}

// An answer, when the store need not be asked. `loss`: how the lease ended before.
std::optional<Result<void>> Releasing::begin_release(const AcquisitionPtr& acquisition,
                                                     std::optional<Error>& loss) {
  if (acquisition->released) return acquisition->release_answer();
  // The loop's timer may be late: a hold that ran out counts as lost, even if the store still
  // answers "released".
  look_at_deadline(acquisition);
  loss = acquisition->why_lost();
  end_locally(acquisition);
  if (!must_run_out(*acquisition)) return std::nullopt;
  acquisition->answer_release(*loss);
  return *loss;
}

Result<void> Releasing::end_release(const AcquisitionPtr& acquisition,
                                    const std::optional<Error>& loss,
                                    const Result<port::EndStatus>& ended) {
  Result<void> answer;
  if (loss) {
    answer = *loss;
  } else if (!ended) {
    answer = Error(ended.error().code(),
                   lock_here(*acquisition) +
                       ": the release failed (the store frees it at the end of the lease): " +
                       ended.error().message());
  } else if (*ended == port::EndStatus::kGone) {
    answer = Error(Errc::kLost, lock_here(*acquisition) +
                                    ": the store had taken it back before it was released");
  }
  const base::LocalLock lock(mutex_);
  const bool gone = ended && *ended == port::EndStatus::kGone;
  reports_.ended(*acquisition, gone ? HoldEnd::kGone : HoldEnd::kReleased);
  acquisition->answer_release(answer);
  if (!ended && !closed_) send_release(acquisition);  // Goes on trying while the lease lasts.
  return answer;
}

Result<void> Releasing::release(const AcquisitionPtr& acquisition) {
  // In a forked child a mutex may be held by a thread that does not exist there.
  if (forked()) return forked_error();
  const Call call(*this);
  if (!call.alive()) return acquisition->why_lost().value_or(call.alive().error());
  std::optional<Error> loss;
  {
    const Turn turn(*this);
    if (auto answer = begin_release(acquisition, loss)) return *answer;
  }
  port::AcquisitionRequest request = release_of(*acquisition);
  if (const auto ended = store_->release_inline(request)) {
    return end_release(acquisition, loss, *ended);
  }
  const auto ended = await<port::EndStatus>(
      [&](Done<port::EndStatus> done) { store_->release(std::move(request), std::move(done)); });
  return end_release(acquisition, loss, ended);
}

void Releasing::release(const AcquisitionPtr& acquisition, Done<void> done) {
  if (forked()) return done(forked_error());
  loop_.rouse();
  std::optional<Error> loss;
  std::optional<Result<void>> answer;
  {
    const Turn turn(*this);
    if (closed_) {
      answer = acquisition->why_lost().value_or(closed_error());
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
                  [this, alive = self(), acquisition, loss,
                   done = std::move(done)](const Result<port::EndStatus>& ended) mutable {
                    // The store may keep copies of this for longer, on threads of its own.
                    answer_later([this, alive = std::move(alive), done = std::move(done),
                                  answer = end_release(acquisition, loss, ended)] {
                      done(answer);
                      end_call();
                    });
                  });
}

// The outcomes of several leases that are given back at once.
struct Releasing::Giving {
  std::vector<AcquisitionPtr> held;
  std::vector<std::optional<Error>> losses;
  std::vector<std::optional<Result<void>>> answers;  // Known without asking the store.
  std::vector<port::AcquisitionRequest> requests;    // For the others, in their order.
};

Releasing::Giving Releasing::begin_release_all(const std::vector<AcquisitionPtr>& held) {
  Giving giving{held, {}, {}, {}};
  const Turn turn(*this);
  for (const AcquisitionPtr& acquisition : held) {
    std::optional<Error> loss;
    std::optional<Result<void>> answer;
    if (closed_) {
      answer = acquisition->why_lost().value_or(closed_error());
    } else {
      answer = begin_release(acquisition, loss);
    }
    if (!answer) giving.requests.push_back(release_of(*acquisition));
    giving.losses.push_back(std::move(loss));
    giving.answers.push_back(std::move(answer));
  }
  if (!giving.requests.empty()) ++calls_under_way_;
  return giving;
}

std::vector<Result<void>> Releasing::end_release_all(
    const Giving& giving, const Result<std::vector<Result<port::EndStatus>>>& ended) {
  std::vector<Result<void>> results;
  std::size_t asked = 0;
  for (std::size_t i = 0; i < giving.held.size(); ++i) {
    if (giving.answers[i]) {
      results.push_back(*giving.answers[i]);
      continue;
    }
    const Result<port::EndStatus> one =
        ended ? (*ended)[asked++] : Result<port::EndStatus>(ended.error());
    results.push_back(end_release(giving.held[i], giving.losses[i], one));
  }
  return results;
}

std::vector<Result<void>> Releasing::release_all(const std::vector<AcquisitionPtr>& held) {
  using Ends = std::vector<Result<port::EndStatus>>;
  if (forked()) return {held.size(), forked_error()};
  const Giving giving = begin_release_all(held);
  if (giving.requests.empty()) return end_release_all(giving, Ends());
  auto ended = store_->release_all_inline(giving.requests);
  if (!ended) {
    ended = await<Ends>(
        [&](Done<Ends> done) { store_->release_all(giving.requests, std::move(done)); });
  }
  auto results = end_release_all(giving, *ended);
  end_call();
  return results;
}

void Releasing::release_all(const std::vector<AcquisitionPtr>& held,
                            Done<std::vector<Result<void>>> done) {
  using Ends = std::vector<Result<port::EndStatus>>;
  if (forked()) return done(std::vector<Result<void>>(held.size(), forked_error()));
  loop_.rouse();
  const auto giving = std::make_shared<Giving>(begin_release_all(held));
  if (giving->requests.empty()) return done(end_release_all(*giving, Ends()));
  if (store_->answers_at_once()) {
    if (const auto ended = store_->release_all_inline(giving->requests)) {
      done(end_release_all(*giving, *ended));
      return end_call();
    }
  }
  store_->release_all(giving->requests, [this, alive = self(), giving, done = std::move(done)](
                                            const Result<Ends>& ended) mutable {
    answer_later([this, alive = std::move(alive), done = std::move(done),
                  results = end_release_all(*giving, ended)] {
      done(results);
      end_call();
    });
  });
}

void Releasing::release_later(const AcquisitionPtr& acquisition, std::optional<BootInstant> at) {
  if (!check_alive()) return;
  const Turn turn(*this);
  if (closed_ || acquisition->released || acquisition->releasing) return;
  look_at_deadline(acquisition);
  if (at) acquisition->rare_members().let_go_at = *at;
  const bool left = acquisition->being_left || (acquisition->perhaps_left && !at);
  const bool stays = left || (at && *at > base::BootClock::now());
  reports_.ended(*acquisition, stays ? HoldEnd::kDetached : HoldEnd::kReleased);
  end_locally(acquisition);
  // A lease that the store keeps for a time is not released here.
  if (!left && !must_run_out(*acquisition)) send_release(acquisition);
}

// Repeated until the store answers or the lease is over by itself.
void Releasing::send_release(const AcquisitionPtr& acquisition) {
  if (!acquisition->releasing) ++releases_under_way_;
  acquisition->releasing = true;
  const BootInstant now = base::BootClock::now();
  const BootInstant let_go_at =
      acquisition->rare ? acquisition->rare->let_go_at : BootInstant::min();
  if (let_go_at <= now) {
    store_->release(
        release_of(*acquisition), [this, acquisition](const Result<port::EndStatus>& reply) {
          on_release_sent(acquisition, reply ? std::nullopt : std::optional(reply.error().code()));
        });
    return;
  }
  const auto left = std::chrono::ceil<Duration>(let_go_at - now);
  store_->keep(
      {stored(acquisition->name), acquisition->id, acquisition->renewal->begin_to_keep(now, left),
       left, std::nullopt, request_deadline()},
      [this, acquisition](const Result<bool>& kept) {
        on_release_sent(acquisition, kept ? std::nullopt : std::optional(kept.error().code()));
      });
}

void Releasing::give_back(const AcquisitionPtr& acquisition) {
  acquisition->deadline_ns = (base::BootClock::now() + acquisition->ttl).time_since_epoch().count();
  send_release(acquisition);
}

void Releasing::on_release_sent(const AcquisitionPtr& acquisition, std::optional<Errc> failure) {
  const base::LocalLock lock(mutex_);
  const BootInstant now = base::BootClock::now();
  // The store keeps the lock for the lock-delay, too, unless the release arrives.
  const BootInstant end{Nanos(acquisition->deadline_ns.load()) + acquisition->lock_delay};
  if (failure && *failure != Errc::kClosed && *failure != Errc::kLost && now < end) {
    schedule(acquisition, now + kReleaseRetry);
    return;
  }
  acquisition->releasing = false;
  --releases_under_way_;
  drained_.notify_all();
}

}  // namespace holdfast::session
