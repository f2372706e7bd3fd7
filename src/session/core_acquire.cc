// How the core asks for locks: on the caller's thread where that needs no waiting, else by the
// loop, with the caller asleep.
#include <algorithm>
#include <optional>

#include "src/base/random.h"
#include "src/session/core.h"
#include "src/session/core_call.h"
#include "src/session/deadlock_watch.h"
#include "src/session/names.h"

namespace holdfast::session {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortestTtl(100);
constexpr milliseconds kLongestTtl = std::chrono::hours(24);
// A thread that waited for a lock often waits again. If nobody else waits, no thread is woken to
// read pushes in between. This ends after a short time, because a push may tell that a held lock
// was broken.
constexpr milliseconds kPushReaderStays(50);

machine::Mode to_machine(const holdfast::Mode& mode) {
  switch (mode.kind()) {
    case holdfast::Mode::Kind::kExclusive: return machine::Mode::exclusive();
    case holdfast::Mode::Kind::kShared: return machine::Mode::shared();
    case holdfast::Mode::Kind::kPermits:
      return machine::Mode::of_permits(mode.count(), mode.capacity());
  }
  return {};
}

Result<void> check_options(const holdfast::Mode& mode, const AcquireOptions& options) {
  const auto bad = [](std::string what) { return Error(Errc::kInvalidArgument, std::move(what)); };
  if (options.ttl < kShortestTtl || options.ttl > kLongestTtl) {
    return bad("a ttl of " + std::to_string(options.ttl.count()) +
               " ms: it is 100 ms at least and 24 h at most");
  }
  if (options.wait && *options.wait < milliseconds::zero()) {
    return bad("a wait cannot be negative");
  }
  if (options.max_hold < milliseconds::zero()) return bad("max_hold cannot be negative");
  if (options.min_remaining < milliseconds::zero() ||
      options.min_remaining > RenewalSchedule(options.ttl).safe_part()) {
    return bad("min_remaining is at most half of the ttl");
  }
  if (options.reason.size() > 1024) return bad("a reason has at most 1024 bytes");
  const std::string& trace = options.trace_id;
  if (trace.size() > 128 ||
      std::any_of(trace.begin(), trace.end(), [](char c) { return c <= ' ' || c > '~'; })) {
    return bad("a trace id has at most 128 characters, of printable ASCII without spaces");
  }
  if (options.owner && options.owner->label().size() > 128) {
    return bad("an owner's label has at most 128 bytes");
  }
  if (mode.kind() == holdfast::Mode::Kind::kPermits &&
      (mode.count() == 0 || mode.count() > mode.capacity())) {
    return bad(std::to_string(mode.count()) + " of " + std::to_string(mode.capacity()) +
               " permits: ask for at least one and at most all");
  }
  return {};
}

}  // namespace

milliseconds Core::ttl_of(const AcquireOptions& options) const {
  if (options.ttl > milliseconds::zero()) return options.ttl;
  const milliseconds ours = options_.client.default_ttl;
  // A session that is longer was asked for; less than that was not.
  if (options_.url_has_ttl || longest_lease_ == Duration::max()) return ours;
  return std::max(ours, std::chrono::ceil<milliseconds>(longest_lease_));
}

Result<Core::AcquisitionPtr> Core::make_contender(std::string name, const holdfast::Mode& mode,
                                                  AcquireOptions options) {
  if (options.ttl == milliseconds::zero()) options.ttl = ttl_of(options);
  if (options.wait && *options.wait >= kForever) options.wait.reset();
  if (options.max_hold >= kForever) options.max_hold = milliseconds::zero();
  if (auto good = check_options(mode, options); !good) return good.error();
  if (options.min_remaining + bound_.slack(options.ttl) >= options.ttl) {
    return Error(Errc::kInvalidArgument,
                 "min_remaining leaves nothing of the lease, by which "
                 "clocks may differ by clock_rate_error_ppm");
  }
  std::string stored_name = stored(name);
  auto acquisition =
      std::make_shared<Acquisition>(std::move(name), std::move(stored_name), mode, generation_);
  // No lease lasts longer than the session that it is part of: it is renewed in good time for that.
  acquisition->ttl = std::min<Duration>(options.ttl, longest_lease_);
  acquisition->options = std::move(options);
  return acquisition;
}

// An id that no store has seen yet.
void Core::begin_anew(Acquisition& acquisition) {
  const base::Random128 random = base::random_128();
  acquisition.id = {random.high, random.low};
  acquisition.issue = ++last_issue_;
  acquisition.wall_minus_boot_at_send = base::wall_minus_boot().count();
  acquisition.pushes_missed_at_send = pushes_missed_;
}

port::AcquireRequest Core::request_for(const Acquisition& acquisition, bool may_wait) const {
  port::AcquireRequest request;
  request.name = acquisition.stored_name;
  request.id = acquisition.id;
  request.issue = acquisition.issue;
  request.mode = to_machine(acquisition.mode);
  request.may_wait = may_wait;
  request.ttl = acquisition.ttl;
  request.waiter_ttl = RenewalSchedule::waiter_lease(acquisition.ttl);
  request.max_waiters = acquisition.options.max_waiters;
  if (acquisition.base) request.upgrade_of = acquisition.base->id;
  request.owner = owner_info(acquisition.options.reason, acquisition.options.trace_id,
                             acquisition.options.owner);
  request.deadline = request_deadline();
  return request;
}

port::AcquisitionRequest Core::end_of(const Acquisition& acquisition) const {
  return {acquisition.stored_name, acquisition.id, request_deadline(), acquisition.issue,
          acquisition.queued};
}

// Once the lease has ended by itself nothing is left to give back: then it waits for a moment only.
port::AcquisitionRequest Core::release_of(const Acquisition& acquisition) const {
  constexpr Nanos kMoment = milliseconds(200);
  port::AcquisitionRequest request = end_of(acquisition);
  const BootInstant lease_end{Nanos(acquisition.deadline_ns.load())};
  request.deadline =
      std::min(request.deadline, std::max(lease_end, base::BootClock::now() + kMoment));
  return request;
}

AcquireFsm::Terms Core::terms_for(const Acquisition& acquisition, bool may_wait) const {
  AcquireFsm::Terms terms;
  terms.ttl = acquisition.ttl;
  terms.waiter_ttl = RenewalSchedule::waiter_lease(acquisition.ttl);
  terms.may_wait = may_wait;
  if (acquisition.options.wait) terms.wait = *acquisition.options.wait;
  terms.heartbeat = RenewalSchedule(terms.waiter_ttl).heartbeat();
  terms.min_left = acquisition.options.min_remaining > milliseconds::zero()
                       ? Nanos(acquisition.options.min_remaining)
                       : terms.heartbeat;
  // At most half of a session is guaranteed to be left.
  if (longest_lease_ != Duration::max()) {
    terms.min_left = std::min(terms.min_left, RenewalSchedule(longest_lease_).safe_part());
  }
  terms.whole = !acquisition.options.auto_renew;
  terms.request = options_.client.request_timeout;
  terms.bound = bound_;
  return terms;
}

Result<Core::AcquisitionPtr> Core::prepare(std::string name, const holdfast::Mode& mode,
                                           AcquireOptions options) {
  if (auto good = check_name(name); !good) return good.error();
  return prepare_checked(std::move(name), mode, std::move(options));
}

Result<Core::AcquisitionPtr> Core::prepare_checked(std::string name, const holdfast::Mode& mode,
                                                   AcquireOptions options) {
  auto made = make_contender(std::move(name), mode, std::move(options));
  if (!made) return made;
  Acquisition& acquisition = **made;
  if (acquisition.options.cancel.stop_requested()) {
    return Error(Errc::kCancelled, "the wait for lock '" + acquisition.name + "' was cancelled");
  }
  // The core stays until the lease, or this call, is over.
  acquisition.core = shared_from_this();
  if (feed_) see_asked(acquisition);
  return made;
}

Result<Core::AcquisitionPtr> Core::acquire(std::string name, const holdfast::Mode& mode,
                                           AcquireOptions options, bool may_wait) {
  const Call call(*this);
  if (!call.alive()) return call.alive().error();
  return take(prepare(std::move(name), mode, std::move(options)), may_wait);
}

Core::AcquisitionPtr Core::acquire(std::string name, const holdfast::Mode& mode,
                                   AcquireOptions options, bool may_wait,
                                   Done<AcquisitionPtr> done) {
  const Call call(*this);
  if (!call.alive()) return done(call.alive().error()), nullptr;
  return take(prepare(std::move(name), mode, std::move(options)), may_wait, std::move(done));
}

Core::AcquisitionPtr Core::acquire(const InnerName& name, AcquireOptions options,
                                   Done<AcquisitionPtr> done) {
  const Call call(*this);
  if (!call.alive()) return done(call.alive().error()), nullptr;
  return take(prepare_checked(name.text(), holdfast::Mode::exclusive(), std::move(options)),
              /*may_wait=*/true, std::move(done));
}

Result<Core::AcquisitionPtr> Core::prepare_upgrade(const AcquisitionPtr& reader,
                                                   AcquireOptions options) {
  if (reader->mode_now() != holdfast::Mode::shared()) {
    return Error(Errc::kInvalidArgument,
                 "lock '" + printable(reader->name) + "': only a shared lease can be upgraded");
  }
  if (options.ttl == milliseconds::zero()) {
    options.ttl = std::chrono::ceil<milliseconds>(reader->ttl);
  }
  auto made = prepare(reader->name, holdfast::Mode::exclusive(), std::move(options));
  if (made) (*made)->base = reader;
  return made;
}

Result<Core::AcquisitionPtr> Core::upgrade(const AcquisitionPtr& reader, AcquireOptions options,
                                           bool may_wait) {
  const Call call(*this);
  if (!call.alive()) return call.alive().error();
  return take(prepare_upgrade(reader, std::move(options)), may_wait);
}

Core::AcquisitionPtr Core::upgrade(const AcquisitionPtr& reader, AcquireOptions options,
                                   bool may_wait, Done<AcquisitionPtr> done) {
  const Call call(*this);
  if (!call.alive()) return done(call.alive().error()), nullptr;
  return take(prepare_upgrade(reader, std::move(options)), may_wait, std::move(done));
}

Result<Core::AcquisitionPtr> Core::take(Result<AcquisitionPtr> made, bool may_wait) {
  if (!made) return made;
  if ((*made)->options.wait == milliseconds::zero()) may_wait = false;
  if (may_wait && !store_->answers_at_once()) {
    start_here(*made);
    return settle(*made, await_answer(*made));
  }
  auto answer = acquire_inline(*made, may_wait);
  if (!answer) answer = acquire_waiting(*made, may_wait);
  return settle(*made, *std::move(answer));
}

Core::AcquisitionPtr Core::take(Result<AcquisitionPtr> made, bool may_wait,
                                Done<AcquisitionPtr> done) {
  if (!made) return done(std::move(made)), nullptr;
  AcquisitionPtr acquisition = *std::move(made);
  if (acquisition->options.wait == milliseconds::zero()) may_wait = false;
  if (store_->answers_at_once()) {
    if (auto answer = acquire_inline(acquisition, may_wait)) {
      return done(settle(acquisition, *std::move(answer))), nullptr;
    }
  }
  const Turn turn(*this);
  leave_push_reader();
  acquisition->done = std::move(done);
  start_waiting(acquisition, may_wait);
  return acquisition;
}

// The common end of every answer, on whichever thread it is given.
Result<Core::AcquisitionPtr> Core::settle(const AcquisitionPtr& acquisition,
                                          Result<AcquisitionPtr> answer) {
  if (feed_) see_answer(*acquisition, answer);
  // Their captures may hold this very client, so they must not outlive the wait.
  acquisition->options.on_queued = nullptr;
  acquisition->queued_news = nullptr;
  acquisition->options.cancel = {};
  if (!answer) {
    answer = Error(answer.error().code(), "lock '" + printable(acquisition->name) + "'" +
                                              at_store() + ": " + answer.error().message());
  }
  // Last: it may be what keeps the core.
  if (!answer || *answer == nullptr) acquisition->core = nullptr;
  return answer;
}

// nullopt: it needs the loop. Nothing is left in the store then, or is being taken back.
std::optional<Result<Core::AcquisitionPtr>> Core::acquire_inline(const AcquisitionPtr& acquisition,
                                                                 bool may_wait) {
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
      if (!closed_) return acquisition;
      // close() has passed over the leases already.
      lose(acquisition, closed_error());
      send_release(acquisition);
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
    // Perhaps applied: the loop asks again with the same id, and takes it back if need be.
    acquisition->asked_at = fsm.log().sent_at(0);
    return std::nullopt;
  }
  // Granted with too little left, or known as too old: take it back, and ask anew by the loop,
  // behind that.
  store_->cancel(end_of(*acquisition), [](const Result<port::EndStatus>&) {});
  return std::nullopt;
}

Result<Core::AcquisitionPtr> Core::acquire_waiting(const AcquisitionPtr& acquisition,
                                                   bool may_wait) {
  {
    const Turn turn(*this);
    start_waiting(acquisition, may_wait);
  }
  return await_answer(acquisition);
}

// A wait whose first request goes from this thread. That request queues where the lock is not free:
// for a remote store a try that answers "busy" would be a round trip for nothing.
void Core::start_here(const AcquisitionPtr& acquisition) {
  port::AcquireRequest request;
  {
    const Turn turn(*this);
    ++calls_under_way_;
    acquisition->acquire.emplace(terms_for(*acquisition, /*may_wait=*/true));
    if (fail_if_closed(acquisition)) return;
    acquisition->acquire->start(base::BootClock::now());
    begin_anew(*acquisition);
    waiting_[acquisition->id] =
        acquisition;  // The grant may be pushed before the request is answered.
    request = request_for(*acquisition, /*may_wait=*/true);
    heed_stop(acquisition);
  }
  const auto reply = store_->acquire_inline(request);
  const Turn turn(*this);
  // It may have been cancelled meanwhile, or closed.
  if (!acquisition->acquire || acquisition->id != request.id) return;
  if (reply) {
    execute(acquisition, acquisition->acquire->on_reply(base::BootClock::now(), *reply));
  } else {
    send_acquire(acquisition, /*fresh_id=*/false);
    schedule(acquisition, acquisition->acquire->wake_at());
  }
}

Result<Core::AcquisitionPtr> Core::await_answer(const AcquisitionPtr& acquisition) {
  Result<AcquisitionPtr> answer = acquisition;
  std::shared_ptr<QueuedNews> news;
  {
    const base::LocalLock lock(mutex_);
    if (store_->push_reader() != nullptr) await_at_push_reader(*acquisition);
    while (!acquisition->finished) acquisition->changed.wait(mutex_);
    news = acquisition->queued_news;
    if (acquisition->failure) {
      answer = *acquisition->failure;
    } else if (!acquisition->renewal) {
      answer = AcquisitionPtr();
    }
  }
  if (news) news->end();
  return answer;
}

// The thread that has waited longest reads the pushes for all: in a queue it is the next to get
// one.
void Core::await_at_push_reader(Acquisition& acquisition) {
  if (acquisition.finished) return;
  const auto place = at_push_reader_.insert(at_push_reader_.end(), &acquisition);
  push_reader_is_left_ = false;
  while (!acquisition.finished) {
    if (place != at_push_reader_.begin()) {
      acquisition.changed.wait(mutex_);
      continue;
    }
    acquisition.push_reader = std::this_thread::get_id();
    mutex_.unlock();
    store_->push_reader()->listen();
    mutex_.lock();
    acquisition.push_reader.reset();
  }
  const bool listened = place == at_push_reader_.begin();
  at_push_reader_.erase(place);
  if (!listened) return;
  if (!at_push_reader_.empty()) {
    at_push_reader_.front()->changed.notify_all();
  } else if (waiting_.empty()) {
    push_reader_is_left_ = true;
    arm(base::BootClock::now() + kPushReaderStays);
  } else {
    store_->push_reader()->rest();
  }
}

// The thread that gave the reader up did not come back.
void Core::leave_push_reader() {
  if (std::exchange(push_reader_is_left_, false) && at_push_reader_.empty())
    store_->push_reader()->rest();
}

void Core::start_waiting(const AcquisitionPtr& acquisition, bool may_wait) {
  ++calls_under_way_;
  acquisition->acquire.emplace(terms_for(*acquisition, may_wait));
  if (fail_if_closed(acquisition)) return;
  const BootInstant now = base::BootClock::now();
  execute(acquisition, acquisition->asked_at
                           ? acquisition->acquire->start_again(now, *acquisition->asked_at)
                           : acquisition->acquire->start(now));
  heed_stop(acquisition);
}

bool Core::fail_if_closed(const AcquisitionPtr& acquisition) {
  if (!closed_) return false;
  acquisition->failure = closed_error();
  finish(acquisition);
  conclude(acquisition);
  return true;
}

// Not before there is something to cancel: a stop that came earlier calls back at once.
void Core::heed_stop(const AcquisitionPtr& acquisition) {
  if (!acquisition->options.cancel.stop_possible()) return;
  acquisition->on_stop.emplace(acquisition->options.cancel,
                               [this, acquisition] { cancel(acquisition); });
}

void Core::heed_deadlocks(const AcquisitionPtr& acquisition) {
  if (!acquisition->options.owner) return;
  if (!deadlocks_) {
    if (!store_->guarantees().list) return;
    deadlocks_ = std::make_shared<DeadlockWatch>(*this);
  }
  arm(deadlocks_->begin(acquisition, base::BootClock::now()));
}

void Core::cancel(const AcquisitionPtr& acquisition) {
  if (forked()) return;
  loop_.post([this, acquisition] {
    const Turn turn(*this);
    if (!acquisition->acquire) return;
    execute(acquisition, acquisition->acquire->on_cancel(base::BootClock::now(), Errc::kCancelled));
  });
}

void Core::execute(const AcquisitionPtr& acquisition, const AcquireFsm::Action& action) {
  switch (action.step) {
    case AcquireFsm::Step::kWait: break;
    case AcquireFsm::Step::kSendAcquire: send_acquire(acquisition, action.fresh_id); break;
    case AcquireFsm::Step::kSendHeartbeat:
      send_out(acquisition, action.seq, /*waiting=*/true);
      break;
    case AcquireFsm::Step::kSendCancel: send_cancel(acquisition); break;
    case AcquireFsm::Step::kGranted: {
      const AcquireFsm fsm = *acquisition->acquire;
      finish(acquisition);
      start_lease(acquisition, fsm.held(), fsm.log());
      conclude(acquisition);
      return;
    }
    case AcquireFsm::Step::kFailed:
      acquisition->failure = acquisition->acquire->error();
      finish(acquisition);
      if (acquisition->failure->code() == Errc::kOutcomeUnknown && !closed_) {
        // It may come to be held, for nobody: taken back as soon as the store can be reached.
        acquisition->deadline_ns =
            (base::BootClock::now() + acquisition->ttl).time_since_epoch().count();
        send_release(acquisition);
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
  }
  if (feed_) see_queue(*acquisition);
  tell_queued(acquisition);
  schedule(acquisition, acquisition->acquire->wake_at());
}

void Core::send_acquire(const AcquisitionPtr& acquisition, bool fresh) {
  if (fresh) {
    waiting_.erase(acquisition->id);
    begin_anew(*acquisition);
    waiting_[acquisition->id] = acquisition;
  }
  const port::AcquisitionId id = acquisition->id;
  store_->acquire(request_for(*acquisition, acquisition->acquire->may_wait()),
                  [this, acquisition, id](const Result<port::AcquisitionState>& reply) {
                    const Turn turn(*this, /*on_loop=*/true);
                    if (!acquisition->acquire || acquisition->id != id) return;
                    execute(acquisition,
                            acquisition->acquire->on_reply(base::BootClock::now(), reply));
                  });
}

void Core::send_cancel(const AcquisitionPtr& acquisition) {
  store_->cancel(end_of(*acquisition), [this, acquisition](const Result<port::EndStatus>& reply) {
    const Turn turn(*this);
    if (!acquisition->acquire) return;
    execute(acquisition, acquisition->acquire->on_cancel_reply(base::BootClock::now(), reply));
  });
}

void Core::tell_queued(const AcquisitionPtr& acquisition) {
  if (!acquisition->options.on_queued || acquisition->queued_news) return;
  if (!acquisition->acquire->queued()) return;
  acquisition->queued_news = std::make_shared<QueuedNews>(acquisition->options.on_queued);
  notifier_.post([news = acquisition->queued_news, ahead = acquisition->acquire->ahead()] {
    news->tell(ahead);
  });
}

// Nothing is under way any more. (A stop that is calling back now is waited for: it only posts.)
void Core::finish(const AcquisitionPtr& acquisition) {
  unschedule(*acquisition);
  waiting_.erase(acquisition->id);
  --calls_under_way_;
  acquisition->on_stop.reset();
  acquisition->acquire.reset();
  acquisition->finished = true;
  if (!acquisition->done) woken_.push_back(acquisition);
  if (closed_) drained_.notify_all();
}

// To whom did not wait asleep, the answer goes when this turn is over.
void Core::conclude(const AcquisitionPtr& acquisition) {
  if (!acquisition->done) return;
  auto answer_now = [this, acquisition, held = acquisition->renewal.has_value()] {
    Result<AcquisitionPtr> answer = AcquisitionPtr();
    if (acquisition->failure) {
      answer = *acquisition->failure;
    } else if (held) {
      answer = acquisition;
    }
    const auto done = std::move(acquisition->done);
    done(settle(acquisition, std::move(answer)));
  };
  if (!acquisition->queued_news) {
    answers_.emplace_back(std::move(answer_now));
  } else {
    answers_.emplace_back(
        [news = acquisition->queued_news, answer = std::move(answer_now)] { news->end(answer); });
  }
}

void Core::start_lease(const AcquisitionPtr& acquisition, const port::AcquisitionState& state,
                       const SendLog& log) {
  const BootInstant now = base::BootClock::now();
  RenewalFsm::Terms terms;
  terms.ttl = acquisition->ttl;
  terms.bound = bound_;
  terms.renew = acquisition->options.auto_renew;
  if (acquisition->options.max_hold > milliseconds::zero()) {
    terms.hold_until = now + acquisition->options.max_hold;
  }
  acquisition->token = state.token;
  acquisition->slack_ns = bound_.slack(acquisition->ttl).count();
  acquisition->renewal.emplace(now, terms, state, log);
  acquisition->wall_minus_boot_ns = acquisition->wall_minus_boot_at_send;
  acquisition->state = LeaseState::kHeld;
  if (feed_) see_granted(*acquisition, now);
  if (acquisition->base) acquisition->base->upgrade = acquisition;
  if (acquisition->base &&
      (acquisition->base->released || acquisition->base->state == LeaseState::kLost)) {
    return lose(acquisition, Error(Errc::kLost, "the shared lease under it has ended"));
  }
  apply(acquisition, acquisition->pushes_missed_at_send == pushes_missed_
                         ? acquisition->renewal->on_tick(now)
                         : acquisition->renewal->on_push_missed(now));
}

}  // namespace holdfast::session
