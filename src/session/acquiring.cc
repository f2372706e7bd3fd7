#include "src/session/acquiring.h"

#include <algorithm>

#include "src/session/core_call.h"
#include "src/session/deadlock/deadlock_watch.h"
#include "src/session/names.h"

namespace holdfast::session {

using std::chrono::milliseconds;

namespace {

// A distant store has this time for the first request, however short the wait is.
constexpr milliseconds kLeastInline(2'000);

}  // namespace

Result<Acquiring::AcquisitionPtr> Acquiring::acquire(std::string name, const holdfast::Mode& mode,
                                                     AcquireOptions options, bool may_wait) {
  const Call call(*this);
  if (!call.alive()) return call.alive().error();
  return take(prepare(std::move(name), mode, std::move(options)), may_wait);
}

Acquiring::AcquisitionPtr Acquiring::acquire(std::string name, const holdfast::Mode& mode,
                                             AcquireOptions options, bool may_wait,
                                             Done<AcquisitionPtr> done) {
  const Call call(*this);
  if (!call.alive()) return done(call.alive().error()), nullptr;
  return take(prepare(std::move(name), mode, std::move(options)), may_wait, std::move(done));
}

Acquiring::AcquisitionPtr Acquiring::acquire(const InnerName& name, AcquireOptions options,
                                             Done<AcquisitionPtr> done) {
  const Call call(*this);
  if (!call.alive()) return done(call.alive().error()), nullptr;
  return take(prepare_checked(name.text(), holdfast::Mode::exclusive(), std::move(options)),
              /*may_wait=*/true, std::move(done));
}

Result<Acquiring::AcquisitionPtr> Acquiring::prepare_upgrade(const AcquisitionPtr& reader,
                                                             AcquireOptions options) {
  if (reader->mode_now() != holdfast::Mode::shared()) {
    return Error(Errc::kInvalidArgument,
                 lock_named(reader->name) + ": only a shared lease can be upgraded");
  }
  if (options.ttl == milliseconds::zero()) {
    options.ttl = std::chrono::ceil<milliseconds>(reader->ttl);
  }
  auto made = prepare(reader->name, holdfast::Mode::exclusive(), std::move(options));
  if (made) (*made)->base = reader;
  return made;
}

Result<Acquiring::AcquisitionPtr> Acquiring::upgrade(const AcquisitionPtr& reader,
                                                     AcquireOptions options, bool may_wait) {
  const Call call(*this);
  if (!call.alive()) return call.alive().error();
  return take(prepare_upgrade(reader, std::move(options)), may_wait);
}

Acquiring::AcquisitionPtr Acquiring::upgrade(const AcquisitionPtr& reader, AcquireOptions options,
                                             bool may_wait, Done<AcquisitionPtr> done) {
  const Call call(*this);
  if (!call.alive()) return done(call.alive().error()), nullptr;
  return take(prepare_upgrade(reader, std::move(options)), may_wait, std::move(done));
}

Result<Acquiring::AcquisitionPtr> Acquiring::take(Result<AcquisitionPtr> made, bool may_wait) {
  if (!made) return made;
  if ((*made)->wait->options->wait == milliseconds::zero()) may_wait = false;
  // On a store that answers at once a first try costs nothing, and spares the wait's bookkeeping.
  // On a remote one the first request queues at once.
  if (may_wait && !store_->answers_at_once()) {
    start_here(*made);
    return settle(*made, await_answer(*made));
  }
  auto answer = try_without_queueing(*made, may_wait);
  if (!answer) answer = acquire_waiting(*made, may_wait);
  return settle(*made, *std::move(answer));
}

Acquiring::AcquisitionPtr Acquiring::take(Result<AcquisitionPtr> made, bool may_wait,
                                          Done<AcquisitionPtr> done) {
  if (!made) return done(std::move(made)), nullptr;
  AcquisitionPtr acquisition = *std::move(made);
  if (acquisition->wait->options->wait == milliseconds::zero()) may_wait = false;
  // Starting a call must not block, so only a store that never waits is asked on this thread.
  if (store_->answers_at_once()) {
    if (auto answer = try_without_queueing(acquisition, may_wait)) {
      return done(settle(acquisition, *std::move(answer))), nullptr;
    }
  }
  loop_.rouse();
  const Turn turn(*this);
  leave_push_reader();
  acquisition->wait->done = std::move(done);
  ++asynchronous_waits_;
  start_waiting(acquisition, may_wait);
  return acquisition;
}

// The common end of every answer, on whichever thread it is given.
Result<Acquiring::AcquisitionPtr> Acquiring::settle(const AcquisitionPtr& acquisition,
                                                    Result<AcquisitionPtr> answer) {
  reports_.answered(*acquisition, answer);
  // The captures of its functions may hold this very client, so they must not outlive the wait. The
  // thread that has woken this one may have the rest for a moment longer.
  const WaitPtr wait = std::exchange(acquisition->wait, nullptr);
  wait->options.reset();
  wait->queued_news = nullptr;
  if (!answer) {
    answer =
        Error(answer.error().code(), lock_here(*acquisition) + ": " + answer.error().message());
  }
  // Last, because this may be the only reference to the core.
  if (!answer || *answer == nullptr) acquisition->core = nullptr;
  return answer;
}

// nullopt if the call needs the loop. Then the store has nothing of it, or it is being withdrawn.
std::optional<Result<Acquiring::AcquisitionPtr>> Acquiring::try_without_queueing(
    const AcquisitionPtr& acquisition, bool may_wait) {
  // A step function of its own: the wait that may follow begins anew, with another id.
  AcquireFsm fsm(terms_for(*acquisition, /*may_wait=*/false));
  begin_anew(*acquisition);
  fsm.start(base::BootClock::now());
  const auto reply = store_->acquire_inline(request_for(*acquisition, /*may_wait=*/false));
  if (!reply) return std::nullopt;
  const auto action = fsm.on_reply(base::BootClock::now(), *reply);
  switch (action.step) {
    case AcquireFsm::Step::kGranted: {
      const Turn turn(*this);
      start_lease(acquisition, fsm.held(), fsm.log());
      if (outlives_close(acquisition)) return acquisition;
      return closed_error();
    }
    case AcquireFsm::Step::kBusy:
      if (may_wait) return std::nullopt;
      return AcquisitionPtr();
    case AcquireFsm::Step::kFailed: return *fsm.error();
    case AcquireFsm::Step::kWait:
    case AcquireFsm::Step::kSendAcquire:
    case AcquireFsm::Step::kSendHeartbeat:
    case AcquireFsm::Step::kSendCancel: break;
  }
  if (!*reply) {
    // The try may have been applied. The loop asks again with the same id, and withdraws it if
    // necessary.
    acquisition->wait->asked_at = fsm.log().sent_at(0);
    return std::nullopt;
  }
  // The grant had too little time left, or the request was refused as too old. The loop asks again
  // with a new id, so the ticket of this one must go.
  store_->cancel(end_of(*acquisition), [](const Result<port::EndStatus>&) {});
  return std::nullopt;
}

Result<Acquiring::AcquisitionPtr> Acquiring::acquire_waiting(const AcquisitionPtr& acquisition,
                                                             bool may_wait) {
  {
    const Turn turn(*this);
    start_waiting(acquisition, may_wait);
  }
  return await_answer(acquisition);
}

// Starts a wait with a request from this thread. The request queues if the lock is not free,
// because for a remote store a try that answers "busy" would waste a round trip.
void Acquiring::start_here(const AcquisitionPtr& acquisition) {
  port::AcquireRequest request;
  {
    const Turn turn(*this);
    ++calls_under_way_;
    acquisition->acquire = std::make_unique<AcquireFsm>(terms_for(*acquisition, /*may_wait=*/true));
    if (fail_if_closed(acquisition)) return;
    acquisition->acquire->start(base::BootClock::now());
    begin_anew(*acquisition);
    waiting_[acquisition->id] =
        acquisition;  // The grant may be pushed before the request is answered.
    request = request_for(*acquisition, /*may_wait=*/true);
    // No timer ends this request, so its deadline does when the wait is shorter.
    if (const auto& wait = acquisition->wait->options->wait) {
      const BootInstant over = base::BootClock::now() + std::max(*wait, kLeastInline);
      request.deadline = std::min(request.deadline, over);
    }
    heed_stop(acquisition);
  }
  const auto reply = store_->acquire_inline(request);
  const Turn turn(*this);
  // The wait may have been cancelled or closed meanwhile.
  if (!acquisition->acquire || acquisition->id != request.id) return;
  if (reply) {
    execute(acquisition, acquisition->acquire->on_reply(base::BootClock::now(), *reply));
  } else {
    send_acquire(acquisition, std::move(request));
    schedule(acquisition, acquisition->acquire->wake_at());
  }
}

void Acquiring::start_waiting(const AcquisitionPtr& acquisition, bool may_wait) {
  ++calls_under_way_;
  acquisition->acquire = std::make_unique<AcquireFsm>(terms_for(*acquisition, may_wait));
  if (fail_if_closed(acquisition)) return;
  const BootInstant now = base::BootClock::now();
  const auto& asked_at = acquisition->wait->asked_at;
  execute(acquisition, asked_at ? acquisition->acquire->start_again(now, *asked_at)
                                : acquisition->acquire->start(now));
  heed_stop(acquisition);
}

bool Acquiring::fail_if_closed(const AcquisitionPtr& acquisition) {
  if (!closed_) return false;
  acquisition->wait->failure = std::make_unique<Error>(closed_error());
  finish(acquisition);
  conclude(acquisition);
  return true;
}

// Registers late, when there is something to cancel, because an earlier stop calls back at once.
void Acquiring::heed_stop(const AcquisitionPtr& acquisition) {
  const std::stop_token& stop = acquisition->wait->options->cancel;
  if (!stop.stop_possible()) return;
  acquisition->wait->on_stop = std::make_unique<std::stop_callback<std::function<void()>>>(
      stop, [this, acquisition] { cancel(acquisition); });
}

void Acquiring::heed_deadlocks(const AcquisitionPtr& acquisition) {
  if (!acquisition->wait->options->owner) return;
  if (!deadlocks_) {
    if (!store_->guarantees().list) return;
    deadlocks_ = std::make_shared<DeadlockWatch>(*this);
  }
  arm(deadlocks_->begin(acquisition, base::BootClock::now()));
}

void Acquiring::cancel(const AcquisitionPtr& acquisition) {
  if (forked()) return;
  loop_.post([this, acquisition] {
    const Turn turn(*this);
    if (!acquisition->acquire) return;
    execute(acquisition, acquisition->acquire->on_cancel(base::BootClock::now(), Errc::kCancelled));
  });
}

void Acquiring::execute(const AcquisitionPtr& acquisition, const AcquireFsm::Action& action) {
  switch (action.step) {
    case AcquireFsm::Step::kWait: break;
    case AcquireFsm::Step::kSendAcquire:
      if (action.fresh_id) {
        waiting_.erase(acquisition->id);
        begin_anew(*acquisition);
        waiting_[acquisition->id] = acquisition;
      }
      send_acquire(acquisition, request_for(*acquisition, acquisition->acquire->may_wait()));
      break;
    case AcquireFsm::Step::kSendHeartbeat:
      send_out(acquisition, action.seq, /*waiting=*/true);
      break;
    case AcquireFsm::Step::kSendCancel: send_cancel(acquisition); break;
    case AcquireFsm::Step::kGranted: {
      const auto fsm = std::move(acquisition->acquire);
      acquisition->wait->granted = true;
      finish(acquisition);
      start_lease(acquisition, fsm->held(), fsm->log());
      conclude(acquisition);
      return;
    }
    case AcquireFsm::Step::kFailed:
      acquisition->wait->failure = std::make_unique<Error>(*acquisition->acquire->error());
      finish(acquisition);
      if (acquisition->wait->failure->code() == Errc::kOutcomeUnknown && !closed_) {
        // The store may grant the lock to nobody for a whole ttl. So it is given back as soon as
        // the store answers.
        give_back(acquisition);
      }
      conclude(acquisition);
      return;
    case AcquireFsm::Step::kBusy:
      finish(acquisition);
      conclude(acquisition);
      return;
  }
  if (!acquisition->acquire) return;
  if (!acquisition->queued && acquisition->acquire->queued()) {
    acquisition->queued = true;
    heed_deadlocks(acquisition);
    listen_for(*acquisition->wait);
  }
  reports_.queued(*acquisition);
  tell_queued(acquisition);
  tell_delayed(acquisition);
  tell_held_up(acquisition);
  schedule(acquisition, acquisition->acquire->wake_at());
}

void Acquiring::on_heartbeat_reply(const AcquisitionPtr& acquisition, BootInstant now,
                                   const Result<port::AcquisitionState>& reply) {
  execute(acquisition, acquisition->acquire->on_reply(now, reply));
}

bool Acquiring::outlives_close(const AcquisitionPtr& acquisition) {
  if (!closed_) return true;
  lose(acquisition, closed_error());
  send_release(acquisition);
  return false;
}

void Acquiring::send_acquire(const AcquisitionPtr& acquisition, port::AcquireRequest request) {
  const port::AcquisitionId id = request.id;
  store_->acquire(
      std::move(request), [this, acquisition, id](const Result<port::AcquisitionState>& reply) {
        const Turn turn(*this, /*on_loop=*/true);
        // An answer to an id that was given up since is about a ticket that is being cancelled.
        if (!acquisition->acquire || acquisition->id != id) return;
        execute(acquisition, acquisition->acquire->on_reply(base::BootClock::now(), reply));
      });
}

void Acquiring::send_cancel(const AcquisitionPtr& acquisition) {
  store_->cancel(end_of(*acquisition), [this, acquisition](const Result<port::EndStatus>& reply) {
    const Turn turn(*this);
    if (!acquisition->acquire) return;
    execute(acquisition, acquisition->acquire->on_cancel_reply(base::BootClock::now(), reply));
  });
}

void Acquiring::tell_queued(const AcquisitionPtr& acquisition) {
  Wait& wait = *acquisition->wait;
  if (!wait.options->on_queued || wait.told_queued || !acquisition->acquire->queued()) return;
  wait.told_queued = true;
  tell_waiter(wait, [callback = wait.options->on_queued, ahead = acquisition->acquire->ahead()] {
    callback(ahead);
  });
}

// Each heartbeat hears of the same end again, a little earlier or later by the time of the answer.
void Acquiring::tell_delayed(const AcquisitionPtr& acquisition) {
  constexpr Nanos kTheSame = std::chrono::seconds(1);
  const auto& opens_at = acquisition->acquire->opens_at();
  if (!opens_at || !acquisition->acquire->queued()) return;
  const BootInstant now = base::BootClock::now();
  if (*opens_at <= now) return;
  Wait& wait = *acquisition->wait;
  if (wait.told_opens_at && std::chrono::abs(*wait.told_opens_at - *opens_at) < kTheSame) return;
  wait.told_opens_at = *opens_at;
  const auto left = std::chrono::ceil<milliseconds>(*opens_at - now);
  reports_.delayed(*acquisition, left);
  if (!wait.options->on_lock_delay) return;
  tell_waiter(wait, [callback = wait.options->on_lock_delay, left] { callback(left); });
}

// The news that a queued caller has of its store are those of the connection.
void Acquiring::tell_held_up(const AcquisitionPtr& acquisition) {
  const auto& why = acquisition->acquire->held_up();
  if (!why || std::exchange(acquisition->wait->told_held_up, true)) return;
  reports_.log(reports_.event(
      LogSeverity::kWarning, "store",
      lock_before(*acquisition, *why) + ": waiting for the store to be back: " + why->message(),
      *acquisition, why->code()));
}

void Acquiring::tell_waiter(Wait& wait, std::function<void()> callback) {
  if (!wait.queued_news) wait.queued_news = std::make_shared<QueuedNews>();
  notifier_.post(
      [news = wait.queued_news, callback = std::move(callback)] { news->tell(callback); });
}

// Nothing is under way any more. The reset of `on_stop` waits for a stop that is calling back now,
// which is short: it only posts.
void Acquiring::finish(const AcquisitionPtr& acquisition) {
  unschedule(*acquisition);
  waiting_.erase(acquisition->id);
  --calls_under_way_;
  acquisition->wait->on_stop.reset();
  acquisition->acquire.reset();
  if (acquisition->wait->done) {
    --asynchronous_waits_;
  } else {
    need_not_listen(*acquisition->wait);
    woken_.push_back(acquisition->wait);
  }
  if (closed_) drained_.notify_all();
}

// An asynchronous caller gets its answer at the end of this turn.
void Acquiring::conclude(const AcquisitionPtr& acquisition) {
  const Wait& wait = *acquisition->wait;
  if (!wait.done) return;
  auto answer_now = [this, acquisition] {
    const auto done = std::move(acquisition->wait->done);
    done(settle(acquisition, answer_of(acquisition)));
  };
  if (!wait.queued_news) {
    answers_.emplace_back(std::move(answer_now));
  } else {
    answers_.emplace_back(
        [news = wait.queued_news, answer = std::move(answer_now)] { news->end(answer); });
  }
}

}  // namespace holdfast::session
