#include "src/stores/failover/acquisitions.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "holdfast/detail/transient.h"
#include "src/port/outcome.h"

namespace holdfast::stores::failover {
namespace {

using base::BootClock;
using port::AcquisitionState;
using port::AcquisitionStatus;
using port::EndStatus;

constexpr std::string_view kMark = "/../e";  // No user's name has a '..' in it.

AcquisitionState state_of(AcquisitionStatus status) { return {.status = status}; }

port::AcquireRequest stored(port::AcquireRequest request, const Keeper::Use& use) {
  request.name = stored_name(request.name, use.epoch);
  request.ttl = std::max(request.ttl, use.least_ttl);
  return request;
}

}  // namespace

Error closed_error() { return {Errc::kClosed, "the client was closed"}; }

std::string stored_name(const std::string& name, std::uint32_t epoch) {
  return name + std::string(kMark) + std::to_string(epoch);
}

std::optional<std::string> shown_name(const std::string& stored, std::uint32_t epoch) {
  const std::string end = std::string(kMark) + std::to_string(epoch);
  if (!stored.ends_with(end) || stored.size() == end.size()) return std::nullopt;
  return stored.substr(0, stored.size() - end.size());
}

Acquisitions::Acquisitions(const port::StoreContext& context, Keeper& keeper,
                           port::Duration shortest)
    : loop_(context.loop), listener_(context.listener), keeper_(keeper), shortest_(shortest) {}

std::optional<Error> Acquisitions::refuse(const port::AcquireRequest& request) const {
  if (auto malformed = port::refuse_malformed(request)) return malformed;
  if (request.ttl < shortest_) {
    return Error(Errc::kInvalidArgument,
                 "a ttl of " + std::to_string(request.ttl.count() / 1000) +
                     " ms is shorter than the chain's authority lease of " +
                     std::to_string(shortest_.count() / 1000) +
                     " ms: ask for a longer one, or set authority= in the store's URL");
  }
  return std::nullopt;
}

Acquisitions::EntryPtr Acquisitions::find(const std::string& name, port::AcquisitionId id) const {
  const base::LocalLock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second->request.name != name) return nullptr;
  return found->second;
}

// Its store may still be used, in the epoch in which it was made.
bool Acquisitions::current(const Entry& entry) const {
  const auto use = keeper_.use();
  return use && entry.use.epoch == use->epoch;
}

// kEnded: the acquisition is over, or its id is another lock's.
Acquisitions::Added Acquisitions::add(const EntryPtr& entry) {
  const base::LocalLock lock(mutex_);
  if (ended_.contains(entry->request.id)) return Added::kEnded;
  const auto [found, fresh] = entries_.emplace(entry->request.id, entry);
  if (fresh) return Added::kNew;
  return found->second->request.name == entry->request.name ? Added::kKnown : Added::kEnded;
}

void Acquisitions::acquire(port::AcquireRequest request, port::Done<State> done) {
  if (auto error = refuse(request)) return done(*std::move(error));
  auto entry = std::make_shared<Entry>();
  entry->request = std::move(request);
  const auto use = keeper_.use();
  if (use) entry->use = *use;
  switch (add(entry)) {
    case Added::kEnded: return done(state_of(AcquisitionStatus::kGone));
    case Added::kNew:
      return use ? send(entry, std::move(done)) : done(parked(entry, keeper_.why_not()));
    case Added::kKnown: break;
  }
  // The session asks again about an acquisition that is known. It goes on only in the store and
  // epoch in which it began.
  entry = find(entry->request.name, entry->request.id);
  if (!entry) return done(state_of(AcquisitionStatus::kGone));
  if (entry->phase == Phase::kParked) return done(state_of(AcquisitionStatus::kWaiting));
  if (current(*entry)) return send(entry, std::move(done));
  drop(entry);
  done(state_of(AcquisitionStatus::kGone));
}

std::optional<Result<Acquisitions::State>> Acquisitions::acquire_here(
    const port::AcquireRequest& request) {
  if (closed_) return std::nullopt;
  if (auto error = refuse(request)) return Result<State>(*std::move(error));
  const auto use = keeper_.use();
  if (!use) return std::nullopt;
  const auto entry = std::make_shared<Entry>();
  entry->request = request;
  entry->use = *use;
  if (add(entry) != Added::kNew) return std::nullopt;
  const port::AcquireRequest asked = stored(request, *use);
  std::optional<Result<State>> answer;
  Result<std::string> stamp = use->stamp;
  // The stamp is read with the grant: a store that forgot its locks has forgotten the stamp, too.
  if (use->forgetful) {
    const auto both = use->store->acquire_and_read_inline(asked, keeper_.stamp_name());
    if (both && *both) stamp = (*both)->value;
    if (both) answer = *both ? Result<State>((*both)->state) : both->error();
  } else {
    answer = use->store->acquire_inline(asked);
  }
  if (!answer) {
    const base::LocalLock lock(mutex_);
    entries_.erase(request.id);
    return std::nullopt;
  }
  // Another thread may have ended it during the request.
  if (find(request.name, request.id) != entry) return state_of(AcquisitionStatus::kGone);
  if (settled(entry, *answer)) return answer;
  return compared(entry, **answer, stamp);
}

// Whoever may wait waits for a usable store as it would for the lock.
Result<Acquisitions::State> Acquisitions::parked(const EntryPtr& entry, const Error& why) {
  if (!entry->request.may_wait) {
    drop(entry);
    return why;
  }
  entry->phase = Phase::kParked;
  return state_of(AcquisitionStatus::kWaiting);
}

// One that is alone has the stamp read in the same request; in a rush all share a read.
void Acquisitions::send(const EntryPtr& entry, port::Done<State> done) {
  const bool alone = asking_++ == 0 && entry->use.forgetful && !entry->checked;
  auto on_told = [weak = weak_from_this(), entry, done = std::move(done)](
                     const Result<State>& answer, const std::string* stamp) {
    const auto self = weak.lock();
    if (!self || self->closed_) return done(closed_error());
    --self->asking_;
    self->on_answer(entry, answer, stamp, done);
  };
  port::AcquireRequest asked = stored(entry->request, entry->use);
  if (!alone) {
    return entry->use.store->acquire(
        std::move(asked),
        [told = std::move(on_told)](const Result<State>& answer) { told(answer, nullptr); });
  }
  entry->use.store->acquire_and_read(
      std::move(asked), keeper_.stamp_name(),
      [told = std::move(on_told)](const Result<port::Store::StateAndValue>& both) {
        both ? told(both->state, &both->value) : told(both.error(), nullptr);
      });
}

// The answer needs no look at the stamp: it granted nothing, and left nothing.
bool Acquisitions::settled(const EntryPtr& entry, const Result<State>& answer) {
  if (!answer) {
    const Errc code = answer.error().code();
    if (code != Errc::kOutcomeUnknown && entry->phase == Phase::kAsking) drop(entry);
    return true;
  }
  switch (answer->status) {
    case AcquisitionStatus::kHeld:
    case AcquisitionStatus::kWaiting: return false;
    case AcquisitionStatus::kBusy:
    case AcquisitionStatus::kGone: break;
  }
  drop(entry);
  return true;
}

void Acquisitions::on_answer(const EntryPtr& entry, const Result<State>& answer,
                             const std::string* stamp, const port::Done<State>& done) {
  if (find(entry->request.name, entry->request.id) != entry) {
    return done(state_of(AcquisitionStatus::kGone));
  }
  if (settled(entry, answer)) return done(answer);
  if (entry->checked || !entry->use.forgetful) return done(delivered(entry, *answer));
  if (stamp != nullptr) return done(compared(entry, *answer, *stamp));
  unchecked_.push_back({entry, *answer, done});
  if (!reading_) read_stamp();
}

// One read for all that were answered before it is sent: those of a rush share it.
void Acquisitions::read_stamp() {
  if (unchecked_.empty()) return;
  reading_ = true;
  port::Store* const store = unchecked_.front().entry->use.store;
  const auto others = std::stable_partition(
      unchecked_.begin(), unchecked_.end(),
      [store](const Check& each) { return each.entry->use.store == store; });
  std::vector<Check> asked(std::make_move_iterator(unchecked_.begin()),
                           std::make_move_iterator(others));
  unchecked_.erase(unchecked_.begin(), others);
  base::BootInstant deadline{};
  for (const Check& each : asked) deadline = std::max(deadline, each.entry->request.deadline);
  store->get_value(keeper_.stamp_name(), deadline,
                   [weak = weak_from_this(), asked](const Result<std::string>& stamp) {
                     const auto self = weak.lock();
                     if (!self || self->closed_) {
                       for (const Check& each : asked) each.done(closed_error());
                       return;
                     }
                     self->reading_ = false;
                     self->read_stamp();
                     for (const Check& each : asked) self->on_stamp(each, stamp);
                   });
}

void Acquisitions::on_stamp(const Check& check, const Result<std::string>& stamp) {
  const EntryPtr& entry = check.entry;
  if (find(entry->request.name, entry->request.id) != entry) {
    return check.done(state_of(AcquisitionStatus::kGone));
  }
  check.done(compared(entry, check.state, stamp));
}

// The queue entry counts only in a store that still had its stamp afterwards.
Result<Acquisitions::State> Acquisitions::compared(const EntryPtr& entry, const State& state,
                                                   const Result<std::string>& stamp) {
  if (stamp && *stamp == entry->use.stamp) return delivered(entry, state);
  // The queue entry is there: the session asks again, or withdraws it.
  if (!stamp) return Error(Errc::kOutcomeUnknown, stamp.error().message());
  give_back(entry);
  keeper_.wake();
  return parked(entry, Error(Errc::kUnavailable, "the active store has lost its memory"));
}

Result<Acquisitions::State> Acquisitions::delivered(const EntryPtr& entry, const State& state) {
  entry->checked = true;
  entry->phase = Phase::kThere;
  if (state.status == AcquisitionStatus::kWaiting) return state;
  auto told = limited(*entry, state);
  if (!told) {
    give_back(entry);
    drop(entry);
  }
  return told;
}

// Held, but no longer than the authority lasts.
Result<Acquisitions::State> Acquisitions::limited(const Entry& entry, State state) const {
  if (state.status != AcquisitionStatus::kHeld) return state;
  const auto use = keeper_.use();
  if (!use || use->epoch != entry.use.epoch) return keeper_.why_not();
  if (state.token.epoch != 0) {
    return Error(Errc::kCorruptState, "a store of the chain uses the token's epoch itself");
  }
  state.token.epoch = entry.use.epoch;
  // Every request was sent before now, so no deadline is beyond the authority's.
  const auto left =
      std::chrono::floor<port::Duration>(use->sure_until - BootClock::now());
  state.lease = std::min(state.lease, std::min(left, port::Duration(entry.request.ttl)));
  if (left <= port::Duration::zero()) return keeper_.why_not();
  return state;
}

void Acquisitions::give_back(const EntryPtr& entry) {
  entry->use.store->cancel({stored_name(entry->request.name, entry->use.epoch), entry->request.id,
                            entry->request.deadline, entry->request.issue, false},
                           [](const Result<EndStatus>&) {});
}

void Acquisitions::end(const port::AcquisitionRequest& request, bool release,
                       port::Done<EndStatus> done) {
  const EntryPtr entry = find(request.name, request.id);
  if (!entry) {
    const base::LocalLock lock(mutex_);
    ended_.add(request.id);
  }
  if (!entry) return done(EndStatus::kGone);
  const bool parked = entry->phase == Phase::kParked;
  if (parked || !current(*entry)) {
    drop(entry);
    return done(parked ? EndStatus::kCancelled : EndStatus::kGone);
  }
  port::AcquisitionRequest asked = request;
  asked.name = stored_name(request.name, entry->use.epoch);
  auto on_told = [weak = weak_from_this(), entry,
                  done = std::move(done)](const Result<EndStatus>& ended) {
    const auto self = weak.lock();
    if (self && !self->closed_ && ended) self->drop(entry);
    done(ended);
  };
  if (release) {
    entry->use.store->release(asked, std::move(on_told));
  } else {
    entry->use.store->cancel(asked, std::move(on_told));
  }
}

std::optional<Result<EndStatus>> Acquisitions::release_here(
    const port::AcquisitionRequest& request) {
  if (closed_) return std::nullopt;
  const EntryPtr entry = find(request.name, request.id);
  if (!entry || entry->phase != Phase::kThere || !current(*entry)) return std::nullopt;
  port::AcquisitionRequest asked = request;
  asked.name = stored_name(request.name, entry->use.epoch);
  auto ended = entry->use.store->release_inline(asked);
  if (ended && *ended) drop(entry);
  return ended;
}

void Acquisitions::downgrade(const port::AcquisitionRequest& request, port::Done<State> done) {
  const EntryPtr entry = find(request.name, request.id);
  if (!entry || entry->phase != Phase::kThere || !current(*entry)) {
    return done(state_of(AcquisitionStatus::kGone));
  }
  port::AcquisitionRequest asked = request;
  asked.name = stored_name(request.name, entry->use.epoch);
  entry->use.store->downgrade(asked, [weak = weak_from_this(), entry,
                                      done = std::move(done)](const Result<State>& answer) {
    const auto self = weak.lock();
    done(self && answer ? self->limited(*entry, *answer) : answer);
  });
}

void Acquisitions::resize(const port::AcquisitionRequest& request, std::uint32_t capacity,
                          port::Done<bool> done) {
  const auto use = keeper_.use();
  if (!use) return done(keeper_.why_not());
  port::AcquisitionRequest asked = request;
  asked.name = stored_name(request.name, use->epoch);
  use->store->resize(asked, capacity, std::move(done));
}

// --- Renewals.

void Acquisitions::renew(std::vector<port::RenewItem> items, base::BootInstant deadline,
                         port::Done<States> done) {
  const auto states = std::make_shared<States>(items.size(), state_of(AcquisitionStatus::kGone));
  std::vector<port::RenewItem> there;
  std::vector<std::size_t> places;
  std::vector<EntryPtr> entries;
  const auto use = keeper_.use();
  for (std::size_t at = 0; at < items.size(); ++at) {
    const EntryPtr entry = find(items[at].name, items[at].id);
    if (!entry) continue;
    if (entry->phase == Phase::kParked) {
      // Gone, once a store can be used: the session asks anew.
      if (!use) (*states)[at] = state_of(AcquisitionStatus::kWaiting);
      continue;
    }
    if (!use) (*states)[at] = keeper_.why_not();
    if (!use || entry->use.epoch != use->epoch) continue;
    port::RenewItem item = items[at];
    item.name = stored_name(item.name, use->epoch);
    item.ttl = std::max(item.ttl, use->least_ttl);
    item.token.epoch = 0;
    there.push_back(std::move(item));
    places.push_back(at);
    entries.push_back(entry);
  }
  if (there.empty()) {
    return loop_->post([states, done = std::move(done)] { done(std::move(*states)); });
  }
  use->store->renew(there, deadline,
                    [self = shared_from_this(), items = std::move(items), places, entries, states,
                     done = std::move(done)](const Result<States>& told) {
                      for (std::size_t i = 0; i < places.size(); ++i) {
                        const Result<State> one = told ? (*told)[i] : told.error();
                        (*states)[places[i]] = self->renewed(items[places[i]], entries[i], one);
                      }
                      done(std::move(*states));
                    });
}

Result<Acquisitions::State> Acquisitions::renewed(const port::RenewItem& item,
                                                  const EntryPtr& entry,
                                                  const Result<State>& answer) {
  if (closed_) return closed_error();
  if (!answer) {
    if (!detail::is_transient(answer.error().code())) drop(entry);
    return answer;
  }
  if (answer->status == AcquisitionStatus::kGone) drop(entry);
  if (answer->status == AcquisitionStatus::kHeld && !entry->checked) {
    return Error(Errc::kUnavailable, "lock '" + item.name + "' is still being checked");
  }
  return limited(*entry, *answer);
}

// --- News.

void Acquisitions::on_push(std::uint32_t place, const port::Push& push) {
  EntryPtr entry;
  {
    const base::LocalLock lock(mutex_);
    const auto found = entries_.find(push.id);
    if (closed_ || found == entries_.end()) return;
    entry = found->second;
  }
  if (entry->use.place != place || entry->phase == Phase::kParked) return;
  port::Push told{port::Push::Kind::kHint, push.id, {}};
  if (push.kind == port::Push::Kind::kGranted && entry->checked) {
    const auto state = limited(*entry, push.state);
    if (state) told = {push.kind, push.id, *state};
  }
  // A hint would have the waiter ask again, and be told again.
  listener_->on_push(push.kind == port::Push::Kind::kDelayed ? push : told);
}

void Acquisitions::on_changed() {
  std::vector<port::AcquisitionId> ids;
  {
    const base::LocalLock lock(mutex_);
    if (closed_) return;
    for (const auto& [id, entry] : entries_) ids.push_back(id);
  }
  for (const auto& id : ids) listener_->on_push({port::Push::Kind::kHint, id, {}});
}

void Acquisitions::drop(const EntryPtr& entry) {
  const base::LocalLock lock(mutex_);
  ended_.add(entry->request.id);
  entries_.erase(entry->request.id);
}

void Acquisitions::close() {
  {
    const base::LocalLock lock(mutex_);
    closed_ = true;
    entries_.clear();
  }
  // No further stamp is read for them.
  for (const Check& each : std::exchange(unchecked_, {})) each.done(closed_error());
}

}  // namespace holdfast::stores::failover
