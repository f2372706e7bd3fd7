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
// A missed wake-up costs at most this.
constexpr milliseconds kSlowestHeartbeat(1'000);
// Who waited for a lock often waits again: if nobody else does, no thread is woken to hear pushes
// in between. No longer than this: one may tell that what is held was broken.
constexpr milliseconds kEarStays(50);

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
  if (options.min_remaining < milliseconds::zero() || options.min_remaining > options.ttl / 2) {
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

Nanos heartbeat(Duration ttl) {
  return std::min<Nanos>(kSlowestHeartbeat, Nanos(waiter_lease(ttl)) / 3);
}

}  // namespace

milliseconds Core::ttl_of(const AcquireOptions& options) const {
  if (options.ttl > milliseconds::zero()) return options.ttl;
  const milliseconds ours = options_.client.default_ttl;
  // A session that is longer was asked for; less than that was not.
  if (options_.url_has_ttl || longest_lease_ == Duration::max()) return ours;
  return std::max(ours, std::chrono::ceil<milliseconds>(longest_lease_));
}

Result<Core::ContenderPtr> Core::make_contender(std::string name, const holdfast::Mode& mode,
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
  auto contender =
      std::make_shared<Contender>(std::move(name), std::move(stored_name), mode, generation_);
  // No lease lasts longer than the session that it is part of: it is renewed in good time for that.
  contender->ttl = std::min<Duration>(options.ttl, longest_lease_);
  contender->options = std::move(options);
  return contender;
}

// An id that no store has seen yet.
void Core::begin_anew(Contender& contender) {
  const base::Random128 random = base::random_128();
  contender.id = {random.high, random.low};
  contender.issue = ++last_issue_;
  contender.wall_minus_boot_at_send = base::wall_minus_boot().count();
  contender.pushes_missed_at_send = pushes_missed_;
}

port::AcquireRequest Core::request_for(const Contender& contender, bool may_wait) const {
  port::AcquireRequest request;
  request.name = contender.stored_name;
  request.id = contender.id;
  request.issue = contender.issue;
  request.mode = to_machine(contender.mode);
  request.may_wait = may_wait;
  request.ttl = contender.ttl;
  request.waiter_ttl = waiter_lease(contender.ttl);
  request.max_waiters = contender.options.max_waiters;
  if (contender.base) request.upgrade_of = contender.base->id;
  request.owner =
      owner_info(contender.options.reason, contender.options.trace_id, contender.options.owner);
  request.deadline = request_deadline();
  return request;
}

port::TicketRequest Core::end_of(const Contender& contender) const {
  return {contender.stored_name, contender.id, request_deadline(), contender.issue,
          contender.queued};
}

// Once the lease has ended by itself nothing is left to give back: then it waits for a moment only.
port::TicketRequest Core::release_of(const Contender& contender) const {
  constexpr Nanos kMoment = milliseconds(200);
  port::TicketRequest request = end_of(contender);
  const BootInstant lease_end{Nanos(contender.deadline_ns.load())};
  request.deadline =
      std::min(request.deadline, std::max(lease_end, base::BootClock::now() + kMoment));
  return request;
}

AcquireFsm::Terms Core::terms_for(const Contender& contender, bool may_wait) const {
  AcquireFsm::Terms terms;
  terms.ttl = contender.ttl;
  terms.waiter_ttl = waiter_lease(contender.ttl);
  terms.may_wait = may_wait;
  if (contender.options.wait) terms.wait = *contender.options.wait;
  terms.heartbeat = heartbeat(contender.ttl);
  terms.min_left = contender.options.min_remaining > milliseconds::zero()
                       ? Nanos(contender.options.min_remaining)
                       : heartbeat(contender.ttl);
  // Of a session never much more than half is sure.
  if (longest_lease_ != Duration::max()) {
    terms.min_left = std::min(terms.min_left, Nanos(longest_lease_) / 2);
  }
  terms.whole = !contender.options.auto_renew;
  terms.request = options_.client.request_timeout;
  terms.bound = bound_;
  return terms;
}

Result<Core::ContenderPtr> Core::prepare(std::string name, const holdfast::Mode& mode,
                                         AcquireOptions options) {
  if (auto good = check_name(name); !good) return good.error();
  return prepare_checked(std::move(name), mode, std::move(options));
}

Result<Core::ContenderPtr> Core::prepare_checked(std::string name, const holdfast::Mode& mode,
                                                 AcquireOptions options) {
  auto made = make_contender(std::move(name), mode, std::move(options));
  if (!made) return made;
  Contender& contender = **made;
  if (contender.options.cancel.stop_requested()) {
    return Error(Errc::kCancelled, "the wait for lock '" + contender.name + "' was cancelled");
  }
  // The core stays until the lease, or this call, is over.
  contender.core = shared_from_this();
  if (feed_) see_asked(contender);
  return made;
}

Result<Core::ContenderPtr> Core::acquire(std::string name, const holdfast::Mode& mode,
                                         AcquireOptions options, bool may_wait) {
  const Call call(*this);
  if (!call.alive()) return call.alive().error();
  return take(prepare(std::move(name), mode, std::move(options)), may_wait);
}

Core::ContenderPtr Core::acquire(std::string name, const holdfast::Mode& mode,
                                 AcquireOptions options, bool may_wait, Done<ContenderPtr> done) {
  const Call call(*this);
  if (!call.alive()) return done(call.alive().error()), nullptr;
  return take(prepare(std::move(name), mode, std::move(options)), may_wait, std::move(done));
}

Core::ContenderPtr Core::acquire(const InnerName& name, AcquireOptions options,
                                 Done<ContenderPtr> done) {
  const Call call(*this);
  if (!call.alive()) return done(call.alive().error()), nullptr;
  return take(prepare_checked(name.text(), holdfast::Mode::exclusive(), std::move(options)),
              /*may_wait=*/true, std::move(done));
}

Result<Core::ContenderPtr> Core::prepare_upgrade(const ContenderPtr& reader,
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

Result<Core::ContenderPtr> Core::upgrade(const ContenderPtr& reader, AcquireOptions options,
                                         bool may_wait) {
  const Call call(*this);
  if (!call.alive()) return call.alive().error();
  return take(prepare_upgrade(reader, std::move(options)), may_wait);
}

Core::ContenderPtr Core::upgrade(const ContenderPtr& reader, AcquireOptions options, bool may_wait,
                                 Done<ContenderPtr> done) {
  const Call call(*this);
  if (!call.alive()) return done(call.alive().error()), nullptr;
  return take(prepare_upgrade(reader, std::move(options)), may_wait, std::move(done));
}

Result<Core::ContenderPtr> Core::take(Result<ContenderPtr> made, bool may_wait) {
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

Core::ContenderPtr Core::take(Result<ContenderPtr> made, bool may_wait, Done<ContenderPtr> done) {
  if (!made) return done(std::move(made)), nullptr;
  ContenderPtr contender = *std::move(made);
  if (contender->options.wait == milliseconds::zero()) may_wait = false;
  if (store_->answers_at_once()) {
    if (auto answer = acquire_inline(contender, may_wait)) {
      return done(settle(contender, *std::move(answer))), nullptr;
    }
  }
  const Turn turn(*this);
  leave_ear();
  contender->done = std::move(done);
  start_waiting(contender, may_wait);
  return contender;
}

// What goes for every answer, given on whichever thread.
Result<Core::ContenderPtr> Core::settle(const ContenderPtr& contender,
                                        Result<ContenderPtr> answer) {
  if (feed_) see_answer(*contender, answer);
  // What they captured may hold this very client: nothing of it outlives the wait.
  contender->options.on_queued = nullptr;
  contender->queued_news = nullptr;
  contender->options.cancel = {};
  if (!answer) {
    answer = Error(answer.error().code(), "lock '" + printable(contender->name) + "'" + at_store() +
                                              ": " + answer.error().message());
  }
  // Last: it may be what keeps the core.
  if (!answer || *answer == nullptr) contender->core = nullptr;
  return answer;
}

// nullopt: it needs the loop. Nothing is left in the store then, or is being taken back.
std::optional<Result<Core::ContenderPtr>> Core::acquire_inline(const ContenderPtr& contender,
                                                               bool may_wait) {
  AcquireFsm fsm(terms_for(*contender, /*may_wait=*/false));
  begin_anew(*contender);
  fsm.start(base::BootClock::now());
  const auto reply = store_->acquire_inline(request_for(*contender, /*may_wait=*/false));
  if (!reply) return std::nullopt;
  const auto action = fsm.on_reply(base::BootClock::now(), *reply);
  switch (action.step) {
    case AcquireFsm::Step::kGranted: {
      const Turn turn(*this);
      start_lease(contender, fsm.held(), fsm.log());
      if (!closed_) return contender;
      // close() has passed over the leases already.
      lose(contender, closed_error());
      send_release(contender);
      return closed_error();
    }
    case AcquireFsm::Step::kBusy:
      if (may_wait) return std::nullopt;
      return ContenderPtr();
    case AcquireFsm::Step::kFailed: return *fsm.error();
    case AcquireFsm::Step::kWait:
    case AcquireFsm::Step::kSendAcquire:
    case AcquireFsm::Step::kSendHeartbeat:
    case AcquireFsm::Step::kSendCancel: break;
  }
  if (!*reply) {
    // Perhaps applied: the loop asks again with the same id, and takes it back if need be.
    contender->asked_at = fsm.log().sent_at(0);
    return std::nullopt;
  }
  // Granted with too little left, or known as too old: take it back, and ask anew by the loop,
  // behind that.
  store_->cancel(end_of(*contender), [](const Result<port::EndStatus>&) {});
  return std::nullopt;
}

Result<Core::ContenderPtr> Core::acquire_waiting(const ContenderPtr& contender, bool may_wait) {
  {
    const Turn turn(*this);
    start_waiting(contender, may_wait);
  }
  return await_answer(contender);
}

// A wait whose first request goes from this thread. That request queues where the lock is not free:
// for a remote store a try that answers "busy" would be a round trip for nothing.
void Core::start_here(const ContenderPtr& contender) {
  port::AcquireRequest request;
  {
    const Turn turn(*this);
    ++calls_under_way_;
    contender->acquire.emplace(terms_for(*contender, /*may_wait=*/true));
    if (fail_if_closed(contender)) return;
    contender->acquire->start(base::BootClock::now());
    begin_anew(*contender);
    waiting_[contender->id] = contender;  // The grant may be pushed before the request is answered.
    request = request_for(*contender, /*may_wait=*/true);
    heed_stop(contender);
  }
  const auto reply = store_->acquire_inline(request);
  const Turn turn(*this);
  // It may have been cancelled meanwhile, or closed.
  if (!contender->acquire || contender->id != request.id) return;
  if (reply) {
    execute(contender, contender->acquire->on_reply(base::BootClock::now(), *reply));
  } else {
    send_acquire(contender, /*fresh_id=*/false);
    schedule(contender, contender->acquire->wake_at());
  }
}

Result<Core::ContenderPtr> Core::await_answer(const ContenderPtr& contender) {
  Result<ContenderPtr> answer = contender;
  std::shared_ptr<QueuedNews> news;
  {
    const base::LocalLock lock(mutex_);
    if (store_->ear() != nullptr) await_at_ear(*contender);
    while (!contender->finished) contender->changed.wait(mutex_);
    news = contender->queued_news;
    if (contender->failure) {
      answer = *contender->failure;
    } else if (!contender->renewal) {
      answer = ContenderPtr();
    }
  }
  if (news) news->end();
  return answer;
}

// Of the threads that wait, the one that has waited longest hears the pushes for all: in a queue it
// is the next to get one.
void Core::await_at_ear(Contender& contender) {
  if (contender.finished) return;
  const auto place = at_ear_.insert(at_ear_.end(), &contender);
  ear_is_left_ = false;
  while (!contender.finished) {
    if (place != at_ear_.begin()) {
      contender.changed.wait(mutex_);
      continue;
    }
    contender.ear = std::this_thread::get_id();
    mutex_.unlock();
    store_->ear()->listen();
    mutex_.lock();
    contender.ear.reset();
  }
  const bool listened = place == at_ear_.begin();
  at_ear_.erase(place);
  if (!listened) return;
  if (!at_ear_.empty()) {
    at_ear_.front()->changed.notify_all();
  } else if (waiting_.empty()) {
    ear_is_left_ = true;
    arm(base::BootClock::now() + kEarStays);
  } else {
    store_->ear()->rest();
  }
}

// Who gave the ear up did not come back.
void Core::leave_ear() {
  if (std::exchange(ear_is_left_, false) && at_ear_.empty()) store_->ear()->rest();
}

void Core::start_waiting(const ContenderPtr& contender, bool may_wait) {
  ++calls_under_way_;
  contender->acquire.emplace(terms_for(*contender, may_wait));
  if (fail_if_closed(contender)) return;
  const BootInstant now = base::BootClock::now();
  execute(contender, contender->asked_at
                         ? contender->acquire->start_again(now, *contender->asked_at)
                         : contender->acquire->start(now));
  heed_stop(contender);
}

bool Core::fail_if_closed(const ContenderPtr& contender) {
  if (!closed_) return false;
  contender->failure = closed_error();
  finish(contender);
  conclude(contender);
  return true;
}

// Not before there is something to cancel: a stop that came earlier calls back at once.
void Core::heed_stop(const ContenderPtr& contender) {
  if (!contender->options.cancel.stop_possible()) return;
  contender->on_stop.emplace(contender->options.cancel, [this, contender] { cancel(contender); });
}

void Core::heed_deadlocks(const ContenderPtr& contender) {
  if (!contender->options.owner) return;
  if (!deadlocks_) {
    if (!store_->guarantees().list) return;
    deadlocks_ = std::make_shared<DeadlockWatch>(*this);
  }
  arm(deadlocks_->begin(contender, base::BootClock::now()));
}

void Core::cancel(const ContenderPtr& contender) {
  if (forked()) return;
  loop_.post([this, contender] {
    const Turn turn(*this);
    if (!contender->acquire) return;
    execute(contender, contender->acquire->on_cancel(base::BootClock::now(), Errc::kCancelled));
  });
}

void Core::execute(const ContenderPtr& contender, const AcquireFsm::Action& action) {
  switch (action.step) {
    case AcquireFsm::Step::kWait: break;
    case AcquireFsm::Step::kSendAcquire: send_acquire(contender, action.fresh_id); break;
    case AcquireFsm::Step::kSendHeartbeat: send_out(contender, action.seq, /*waiting=*/true); break;
    case AcquireFsm::Step::kSendCancel: send_cancel(contender); break;
    case AcquireFsm::Step::kGranted: {
      const AcquireFsm fsm = *contender->acquire;
      finish(contender);
      start_lease(contender, fsm.held(), fsm.log());
      conclude(contender);
      return;
    }
    case AcquireFsm::Step::kFailed:
      contender->failure = contender->acquire->error();
      finish(contender);
      if (contender->failure->code() == Errc::kOutcomeUnknown && !closed_) {
        // It may come to be held, for nobody: taken back as soon as the store can be reached.
        contender->deadline_ns =
            (base::BootClock::now() + contender->ttl).time_since_epoch().count();
        send_release(contender);
      }
      conclude(contender);
      return;
    case AcquireFsm::Step::kBusy:
      finish(contender);
      conclude(contender);
      return;
  }
  if (!contender->acquire) return;
  if (!contender->queued && contender->acquire->queued()) {
    contender->queued = true;
    heed_deadlocks(contender);
  }
  if (feed_) see_queue(*contender);
  tell_queued(contender);
  schedule(contender, contender->acquire->wake_at());
}

void Core::send_acquire(const ContenderPtr& contender, bool fresh) {
  if (fresh) {
    waiting_.erase(contender->id);
    begin_anew(*contender);
    waiting_[contender->id] = contender;
  }
  const port::AcquisitionId id = contender->id;
  store_->acquire(request_for(*contender, contender->acquire->may_wait()),
                  [this, contender, id](const Result<port::TicketState>& reply) {
                    const Turn turn(*this, /*on_loop=*/true);
                    if (!contender->acquire || contender->id != id) return;
                    execute(contender, contender->acquire->on_reply(base::BootClock::now(), reply));
                  });
}

void Core::send_cancel(const ContenderPtr& contender) {
  store_->cancel(end_of(*contender), [this, contender](const Result<port::EndStatus>& reply) {
    const Turn turn(*this);
    if (!contender->acquire) return;
    execute(contender, contender->acquire->on_cancel_reply(base::BootClock::now(), reply));
  });
}

void Core::tell_queued(const ContenderPtr& contender) {
  if (!contender->options.on_queued || contender->queued_news) return;
  if (!contender->acquire->queued()) return;
  contender->queued_news = std::make_shared<QueuedNews>(contender->options.on_queued);
  notifier_.post(
      [news = contender->queued_news, ahead = contender->acquire->ahead()] { news->tell(ahead); });
}

// Nothing is under way any more. (A stop that is calling back now is waited for: it only posts.)
void Core::finish(const ContenderPtr& contender) {
  unschedule(*contender);
  waiting_.erase(contender->id);
  --calls_under_way_;
  contender->on_stop.reset();
  contender->acquire.reset();
  contender->finished = true;
  if (!contender->done) woken_.push_back(contender);
  if (closed_) drained_.notify_all();
}

// To whom did not wait asleep, the answer goes when this turn is over.
void Core::conclude(const ContenderPtr& contender) {
  if (!contender->done) return;
  auto answer_now = [this, contender, held = contender->renewal.has_value()] {
    Result<ContenderPtr> answer = ContenderPtr();
    if (contender->failure) {
      answer = *contender->failure;
    } else if (held) {
      answer = contender;
    }
    const auto done = std::move(contender->done);
    done(settle(contender, std::move(answer)));
  };
  if (!contender->queued_news) {
    answers_.emplace_back(std::move(answer_now));
  } else {
    answers_.emplace_back(
        [news = contender->queued_news, answer = std::move(answer_now)] { news->end(answer); });
  }
}

void Core::start_lease(const ContenderPtr& contender, const port::TicketState& state,
                       const SendLog& log) {
  const BootInstant now = base::BootClock::now();
  RenewalFsm::Terms terms;
  terms.ttl = contender->ttl;
  terms.bound = bound_;
  terms.renew = contender->options.auto_renew;
  if (contender->options.max_hold > milliseconds::zero()) {
    terms.hold_until = now + contender->options.max_hold;
  }
  contender->token = state.token;
  contender->slack_ns = bound_.slack(contender->ttl).count();
  contender->renewal.emplace(now, terms, state, log);
  contender->wall_minus_boot_ns = contender->wall_minus_boot_at_send;
  contender->state = LeaseState::kHeld;
  if (feed_) see_granted(*contender, now);
  if (contender->base) contender->base->upgrade = contender;
  if (contender->base &&
      (contender->base->released || contender->base->state == LeaseState::kLost)) {
    return lose(contender, Error(Errc::kLost, "the shared lease under it has ended"));
  }
  apply(contender, contender->pushes_missed_at_send == pushes_missed_
                       ? contender->renewal->on_tick(now)
                       : contender->renewal->on_push_missed(now));
}

}  // namespace holdfast::session
