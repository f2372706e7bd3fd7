// Carries out the actions of the acquisitions. (What callers ask of the engine: engine_calls.cc.)
#include "src/contend/engine.h"

#include <algorithm>
#include <type_traits>

#include "src/base/random.h"
#include "src/contend/answers.h"

namespace holdfast::contend {
namespace {

using port::AcquisitionState;
using port::EndStatus;

// The number of locks whose records are remembered as readable.
constexpr std::size_t kMostReadable = 4096;
// Up to this many hints are sent one by one; beyond, every waiter is told to ask.
constexpr std::size_t kMostHints = 32;

template <typename T>
void tell_all(std::vector<port::Done<T>>& callers, const Result<T>& result) {
  for (const auto& done : std::exchange(callers, {})) done(result);
}

}  // namespace

// --- Steps.

Context Engine::context() const { return {base::BootClock::now(), backend_.session()}; }

void Engine::step(const RunningPtr& running, Event&& event, const Context& context) {
  const bool held = running->acquisition.held();
  Actions actions;
  running->acquisition.step(std::move(event), context, actions);
  follow_up(running, held, actions);
}

void Engine::follow_up(const RunningPtr& running, bool held_before, Actions& actions) {
  const AcquisitionFsm& acquisition = running->acquisition;
  // An upgrade is released before its base: both requests are applied in their order.
  if (held_before && !acquisition.held()) {
    if (const RunningPtr upgrade = upgrade_of(acquisition)) step(upgrade, Leave{});
  }
  // Before its own actions, because the next holder waits for them.
  if (running->waiting && !acquisition.can_be_followed()) wake_followers(*running);
  for (Action& action : actions) pending_.push_back({running, std::move(action)});
  if (!acquisition.may_be_watching()) end_watch(*running);
  if (acquisition.state() != State::kAwaitingSession) std::erase(awaiting_session_, running);
  perform_all();
  schedule(running);  // Last, so that a time which only an intermediate step wanted is not armed.
}

void Engine::perform_all() {
  if (performing_) return;
  const auto self = shared_from_this();
  performing_ = true;
  while (next_ < pending_.size()) {
    Pending next = std::move(pending_[next_++]);
    std::visit([&](auto& action) { perform(next.running, action); }, next.action);
  }
  pending_.clear();
  next_ = 0;
  performing_ = false;
}

void Engine::perform(const RunningPtr& running, Answer& action) {
  // A caller may ask again from inside its answer.
  auto& asks = running->callers().asks;
  const auto end = asks.begin() + static_cast<std::ptrdiff_t>(std::min(action.count, asks.size()));
  std::vector<Done<AcquisitionState>> told(std::make_move_iterator(asks.begin()),
                                           std::make_move_iterator(end));
  asks.erase(asks.begin(), end);
  tell_all(told, action.result);
  running->forget_callers();
}

void Engine::perform(const RunningPtr& running, AnswerEnds& action) {
  tell_all(running->callers().ends, action.result);
  running->forget_callers();
}

void Engine::perform(const RunningPtr& running, AnswerDowngrades& action) {
  tell_all(running->callers().downgrades, action.result);
  running->forget_callers();
}

void Engine::perform(const RunningPtr& running, AnswerKeeps& action) {
  tell_all(running->callers().keeps, action.result);
  running->forget_callers();
}

void Engine::perform(const RunningPtr&, Tell& action) { listener_->on_push(action.push); }

void Engine::perform(const RunningPtr& running, NoteBroken& action) {
  broken_.insert_or_assign(Name(running->name()), action.why);
}

void Engine::perform(const RunningPtr&, NoteUnheard& action) {
  availability_.note_failure(action.why);
}

void Engine::perform(const RunningPtr& running, NoteKeptOut& action) {
  administration_->tell_of_trouble(running->lock(), *action.listing);
}

void Engine::perform(const RunningPtr&, NotifySessions& action) {
  for (std::string& tag : action.tags) backend_.notify(std::move(tag), [] {});
}

void Engine::perform(const RunningPtr& running, Forget&) {
  const auto found = running_.find(running->name());
  if (found != running_.end() && *found == running) running_.erase(found);
}

void Engine::perform(const RunningPtr& running, Ask& ask) {
  if (!running->acquisition.wants(ask.slot, ask.number)) return;
  std::visit([&](auto& request) { send(running, ask, request); }, ask.request);
}

// --- Requests.

template <typename T>
class Engine::ReplyTo {
 public:
  ReplyTo(Engine& engine, RunningPtr running, const Ask& ask)
      : engine_(engine.shared_from_this()),
        running_(std::move(running)),
        slot_(ask.slot),
        number_(ask.number) {}

  void operator()(Result<T> result) const {
    if (engine_->closed_) return;
    if (result) {
      engine_->availability_.note_answer();
    } else if (slot_ == Slot::kMain && running_->acquisition.state() != State::kRemoving) {
      engine_->availability_.note_failure(result.error());
    }
    if (!running_->acquisition.wants(slot_, number_)) return;
    const bool known = result && is_record_known(*result);
    engine_->step(running_, Replied{slot_, Reply(std::move(result)), known});
  }

 private:
  bool is_record_known(const T& answer) const {
    const std::string& lock = running_->lock();
    if constexpr (std::is_same_v<T, Entered>) return engine_->is_record_known(lock, answer.listing);
    if constexpr (std::is_same_v<T, Listing>) return engine_->is_record_known(lock, answer);
    if constexpr (std::is_same_v<T, std::pair<Record, std::uint64_t>>) {
      engine_->note_record(lock, answer.second);
    }
    return false;
  }

  std::shared_ptr<Engine> engine_;
  RunningPtr running_;
  Slot slot_;
  std::uint32_t number_;
};

bool Engine::is_record_known(const std::string& lock, const Listing& listing) const {
  const auto read = readable_.find(lock);
  return read != readable_.end() && read->second == listing.record_rev;
}

void Engine::note_record(const std::string& lock, std::uint64_t revision) {
  if (readable_.size() >= kMostReadable) readable_.clear();
  readable_[lock] = revision;
}

void Engine::send(const RunningPtr& running, const Ask& ask, AwaitSession&) {
  const SessionView session = backend_.session();
  // Does not overtake acquisitions that still wait for the news of this session.
  if (session.epoch != 0 && awaiting_session_.empty()) return open(running, session);
  awaiting_session_.push_back(running);
  backend_.ensure_session(ask.deadline,
                          [self = shared_from_this(), running](const Result<SessionView>& opened) {
                            if (!self->closed_) self->on_session_opened(running, opened);
                          });
}

void Engine::send(const RunningPtr& running, const Ask& ask, Create&) {
  const AcquisitionFsm& acquisition = running->acquisition;
  backend_.enter(acquisition.epoch(), running->lock(), acquisition.key(),
                 whole(acquisition.details()), ask.deadline, ReplyTo<Entered>(*this, running, ask));
}

void Engine::send(const RunningPtr& running, const Ask& ask, ListQueue& request) {
  const WakerPtr waker = watch(running, request.watch, nullptr);
  backend_.list(running->lock(), request.latest, waker, ask.deadline,
                ReplyTo<Listing>(*this, running, ask));
}

void Engine::send(const RunningPtr& running, const Ask& ask, ListInFull&) {
  backend_.list_in_full(running->lock(), ask.deadline, ReplyTo<Listing>(*this, running, ask));
}

void Engine::send(const RunningPtr& running, const Ask& ask, ReadRecord&) {
  backend_.read_record(running->lock(), ask.deadline,
                       ReplyTo<std::pair<Record, std::uint64_t>>(*this, running, ask));
}

void Engine::send(const RunningPtr& running, const Ask& ask, ReadEntry& request) {
  if (request.watch == Watch::kHandoff) {
    const RunningPtr before = followed(running->acquisition, *request.entry);
    if (before) return follow(running, ask, *request.entry, before);
  }
  WakerPtr waker;
  if (request.watch != Watch::kKeep) {
    waker = watch(running, request.watch, request.entry.get());
  }
  backend_.read(running->lock(), std::move(*request.entry), std::move(waker), ask.deadline,
                ReplyTo<std::optional<Read>>(*this, running, ask));
}

void Engine::send(const RunningPtr& running, const Ask& ask, WriteDetails& request) {
  const AcquisitionFsm& acquisition = running->acquisition;
  backend_.write(acquisition.epoch(), running->lock(), acquisition.entry(),
                 whole(std::move(*request.details)), ask.deadline,
                 ReplyTo<std::optional<Read>>(*this, running, ask));
}

void Engine::send(const RunningPtr& running, const Ask& ask, Apply& request) {
  backend_.apply(std::move(*request.change), ask.deadline,
                 ReplyTo<std::optional<std::uint64_t>>(*this, running, ask));
}

// A kept lease is nobody's session's. Its requests are made in the client's session of that time,
// and a client that holds nothing else has none after an outage: it opens one for them.
void Engine::in_session(bool kept, const AcquisitionFsm& acquisition, base::BootInstant deadline,
                        const std::function<void(std::uint64_t epoch)>& then) {
  const std::uint64_t epoch = kept ? backend_.session().epoch : acquisition.epoch();
  if (epoch != 0 || !kept) return then(epoch);
  backend_.ensure_session(deadline,
                          [self = shared_from_this(), then](const Result<SessionView>& opened) {
                            if (!self->closed_) then(opened ? opened->epoch : 0);
                          });
}

void Engine::send(const RunningPtr& running, const Ask& ask, KeepEntry& request) {
  const AcquisitionFsm& acquisition = running->acquisition;
  const std::string& lock = running->lock();
  const machine::AcquisitionId& id = acquisition.key().id;
  if (names_ != 0 && id.high == names_) reserved_.insert({lock, id});
  Keep keep{lock, acquisition.entry(), std::move(*request.details), std::nullopt};
  if (request.value) keep.value = std::move(*request.value);
  Done<std::optional<Read>> done = ReplyTo<std::optional<Read>>(*this, running, ask);
  in_session(acquisition.kept(), acquisition, ask.deadline,
             [this, keep = std::move(keep), deadline = ask.deadline,
              done = std::move(done)](std::uint64_t epoch) mutable {
               // A break notifies the client that keeps it now.
               keep.details = whole(std::move(keep.details));
               backend_.keep(epoch, std::move(keep), deadline, std::move(done));
             });
}

void Engine::send(const RunningPtr& running, const Ask& ask, DropEntry& request) {
  backend_.drop(running->lock(), std::move(*request.entry), ask.deadline,
                ReplyTo<bool>(*this, running, ask));
}

void Engine::send(const RunningPtr& running, const Ask& ask, PassGate& request) {
  const AcquisitionFsm& acquisition = running->acquisition;
  const WakerPtr waker = watch(running, Watch::kWake, nullptr);
  backend_.pass_gate(acquisition.epoch(), running->lock(), acquisition.entry(),
                     whole(std::move(*request.details)), waker, ask.deadline,
                     ReplyTo<Gate>(*this, running, ask));
}

void Engine::send(const RunningPtr& running, const Ask& ask, Remove& request) {
  const AcquisitionFsm& acquisition = running->acquisition;
  const std::string& lock = running->lock();
  Backend::Done<bool> done = ReplyTo<bool>(*this, running, ask);
  if (std::string lease = acquisition.kept_lease(); !lease.empty()) {
    done = [this, lease = std::move(lease), done = std::move(done)](Result<bool> removed) {
      if (removed && *removed) backend_.end_kept_lease(lease);
      done(std::move(removed));
    };
  }
  // The store need not tell a waiter of this client.
  if (!request.handoff || has_follower(*running)) {
    return in_session(acquisition.perhaps_kept(), acquisition, ask.deadline,
                      [this, lock, entry = acquisition.entry(), deadline = ask.deadline,
                       done = std::move(done)](std::uint64_t epoch) mutable {
                        backend_.remove(epoch, lock, entry, deadline, std::move(done));
                      });
  }
  backend_.handoff(acquisition.epoch(), lock, acquisition.entry(), acquisition.token(),
                   ask.deadline, std::move(done));
}

Details Engine::whole(Details details) const {
  details.lease = backend_.session().length;
  details.session = backend_.session_tag();
  return details;
}

void Engine::end_watch(Running& running) {
  if (!running.waiting) return;
  running.waiting->waker = nullptr;
  running.forget_callers();
}

// Replaces the watch that it has.
WakerPtr Engine::watch(const RunningPtr& running, Watch watch, const QueueEntry* entry) {
  if (watch == Watch::kNone) return end_watch(*running), nullptr;
  auto waker = std::make_shared<Waker>();
  const auto wake = [weak = weak_from_this(), waiting = std::weak_ptr(running)](Event event) {
    const auto self = weak.lock();
    const RunningPtr woken = waiting.lock();
    if (self && woken && !self->closed_) self->step(woken, std::move(event));
  };
  waker->wake = [wake] { wake(Woken{}); };
  if (watch == Watch::kHandoff) {
    waker->handed_off = [wake, by = *entry](const machine::Token& last) {
      wake(HandedOff{by, last});
    };
  }
  running->callers().waker = waker;
  return waker;
}

// --- Waiters behind an acquisition of their own client.
//
// The answer to its removal tells the same as an event of the store would, and earlier. Whatever
// else may end its contender ends it here, too: the session, or a break, of which its client is
// notified. If such a notification is lost, the waiter's next heartbeat reads the entry.

Engine::RunningPtr Engine::followed(const AcquisitionFsm& waiter, const QueueEntry& entry) const {
  if (waiter.key().shape != Shape::kExclusive || entry.key.shape != Shape::kExclusive) {
    return nullptr;
  }
  // By the name that it has at the store: that need not be its id (choose_id()).
  auto at = running_.lower_bound(NameView(waiter.lock(), {}));
  for (; at != running_.end() && (*at)->lock() == waiter.lock(); ++at) {
    const AcquisitionFsm& each = (*at)->acquisition;
    if (each.key() == entry.key && each.entry().order == entry.order) {
      return each.can_be_followed() && each.epoch() == waiter.epoch() ? *at : nullptr;
    }
  }
  return nullptr;
}

void Engine::follow(const RunningPtr& waiter, const Ask& ask, const QueueEntry& entry,
                    const RunningPtr& before) {
  auto& followers = before->callers().followers;
  std::erase_if(followers, [](const std::weak_ptr<Waker>& each) { return each.expired(); });
  followers.push_back(watch(waiter, Watch::kHandoff, &entry));
  const AcquisitionFsm& known = before->acquisition;
  Read read{known.details(), known.entry().created, known.entry().modified};
  step(waiter, Replied{ask.slot, Result<std::optional<Read>>(std::move(read))});
}

bool Engine::has_follower(const Running& running) {
  if (!running.waiting) return false;
  const auto& followers = running.waiting->followers;
  return std::any_of(followers.begin(), followers.end(),
                     [](const std::weak_ptr<Waker>& each) { return !each.expired(); });
}

void Engine::wake_followers(Running& running) {
  // In another library's folder, only a listing shows a contender that does not queue.
  const std::optional<machine::Token> last =
      backend_.keeps_record() ? running.acquisition.handed_off() : std::nullopt;
  for (const auto& each : std::exchange(running.waiting->followers, {})) {
    const WakerPtr waker = each.lock();
    if (!waker) continue;
    if (last) {
      waker->handed_off(*last);
    } else {
      waker->wake();
    }
  }
  running.forget_callers();
}

// --- Sessions.

// All enter in the order of their calls, whichever the backend answers first.
void Engine::on_session_opened(const RunningPtr& running, const Result<SessionView>& opened) {
  const auto found = std::find(awaiting_session_.begin(), awaiting_session_.end(), running);
  if (found == awaiting_session_.end()) return;
  if (!opened) {
    availability_.note_failure(opened.error());
    awaiting_session_.erase(found);
    return step(running, SessionOpened{opened.error(), {}});
  }
  for (const RunningPtr& each : std::exchange(awaiting_session_, {})) open(each, *opened);
}

void Engine::open(const RunningPtr& running, const SessionView& session) {
  SessionOpened event{{}, choose_id(running->acquisition, session.epoch)};
  step(running, std::move(event), {base::BootClock::now(), session});
}

// The first of this client's names in that lock that no acquisition uses, for stores that reuse
// names (Backend::remembers_names).
std::optional<machine::AcquisitionId> Engine::choose_id(const AcquisitionFsm& acquisition,
                                                        std::uint64_t epoch) {
  const Shape shape = acquisition.key().shape;
  // Other entries refer to these names even after their removal, so they are not reused.
  const bool fixed = shape == Shape::kUpgrade || shape == Shape::kShrink ||
                     (traits_.keeps && acquisition.outlives_client());
  if (!backend_.remembers_names() || fixed || acquisition.epoch() == epoch) return std::nullopt;
  if (names_epoch_ != epoch) {
    names_ = base::random_128().high;
    reserved_.clear();
  }
  names_epoch_ = epoch;
  std::vector<bool> used;
  const auto note = [&](const machine::AcquisitionId& id) {
    if (id.high != names_ || id.low == 0) return;
    used.resize(std::max<std::size_t>(used.size(), id.low));
    used[id.low - 1] = true;
  };
  const std::string& lock = acquisition.lock();
  auto at = running_.lower_bound(NameView(lock, {}));
  for (; at != running_.end() && (*at)->lock() == lock; ++at) {
    const Key& key = (*at)->acquisition.key();
    note(key.id);
    note(key.upgrade_of);
  }
  auto kept = reserved_.lower_bound({lock, {}});
  for (; kept != reserved_.end() && kept->first == lock; ++kept) note(kept->second);
  const auto free = std::find(used.begin(), used.end(), false) - used.begin();
  return machine::AcquisitionId{names_, static_cast<std::uint64_t>(free) + 1};
}

void Engine::on_session_ended(std::uint64_t epoch, const Error&) {
  if (closed_) return;
  std::vector<RunningPtr> mine;
  for (const RunningPtr& running : running_) {
    if (running->acquisition.epoch() == epoch) mine.push_back(running);
  }
  std::vector<RunningPtr> told;
  for (const RunningPtr& running : mine) {
    const AcquisitionFsm& acquisition = running->acquisition;
    if ((acquisition.held() && !acquisition.kept()) || acquisition.waits()) told.push_back(running);
  }
  for (const RunningPtr& running : mine) step(running, SessionEnded{});
  hint(told);
}

void Engine::on_notify() {
  if (closed_) return;
  const std::vector<RunningPtr> mine(running_.begin(), running_.end());
  for (const RunningPtr& running : mine) step(running, Notified{});
}

void Engine::hint(const std::vector<RunningPtr>& running) {
  if (running.size() > kMostHints) return listener_->on_pushes_missed();
  for (const RunningPtr& each : running) {
    listener_->on_push({port::Push::Kind::kHint, each->acquisition.id(), {}});
  }
}

void Engine::on_alarm(const std::string& line) {
  if (!closed_) listener_->on_alarm(line);
}

// --- Time.

void Engine::schedule(const RunningPtr& running) {
  if (closed_) return;
  const BootInstant next = running->acquisition.next_due();
  if (next == BootInstant::max()) {
    due_.remove(*running);
  } else {
    due_.put(running, next);
    timer_.arm(next);
  }
}

void Engine::on_timer() {
  if (closed_) return;
  const auto self = shared_from_this();
  const BootInstant now = base::BootClock::now();
  while (!due_.empty() && due_.first().at <= now && !closed_) {
    const RunningPtr running = due_.first().what;
    due_.remove(*running);
    step(running, TimeIsUp{});
  }
  if (!due_.empty()) timer_.arm(due_.first().at);
}

void Engine::close() {
  if (std::exchange(closed_, true)) return;
  administration_->close();
  timer_.stop();
  due_.clear();
  awaiting_session_.clear();
  // An answer that was decided is given, also of an acquisition that is not among those below.
  std::vector<Pending> pending = std::exchange(pending_, {});
  for (std::size_t i = next_; i < pending.size(); ++i) {
    auto& [running, action] = pending[i];
    if (auto* answer = std::get_if<Answer>(&action)) perform(running, *answer);
    if (auto* answer = std::get_if<AnswerEnds>(&action)) perform(running, *answer);
    if (auto* answer = std::get_if<AnswerDowngrades>(&action)) perform(running, *answer);
    if (auto* answer = std::get_if<AnswerKeeps>(&action)) perform(running, *answer);
  }
  const Error closed = closed_error();
  for (const RunningPtr& running : std::exchange(running_, {})) {
    if (!running->waiting) continue;
    Callers callers = std::move(*std::exchange(running->waiting, nullptr));
    callers.waker = nullptr;
    tell_all<EndStatus>(callers.ends, closed);
    tell_all<AcquisitionState>(callers.downgrades, closed);
    tell_all<bool>(callers.keeps, closed);
    tell_all<AcquisitionState>(callers.asks, closed);
  }
}

}  // namespace holdfast::contend
