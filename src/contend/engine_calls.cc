// The calls of an acquisition by its owner.
#include <algorithm>

#include "src/contend/answers.h"
#include "src/contend/engine.h"
#include "src/contend/naming.h"
#include "src/port/outcome.h"

namespace holdfast::contend {
namespace {

using machine::Outcome;
using port::AcquisitionState;
using port::AcquisitionStatus;
using port::EndStatus;

constexpr std::size_t kMostValue = 4096;

bool well_formed(const port::AcquireRequest& request) {
  if (request.name.empty() || !request.id || request.ttl <= machine::Duration::zero()) return false;
  if (request.may_wait && request.waiter_ttl <= machine::Duration::zero()) return false;
  if (request.upgrade_of && request.mode.kind != machine::ModeKind::kExclusive) return false;
  return request.mode.kind != machine::ModeKind::kPermits ||
         (request.mode.permits > 0 && request.mode.capacity > 0);
}

bool counts_permits(const AcquisitionFsm& acquisition) {
  return mode_of(acquisition.key()).kind == machine::ModeKind::kPermits;
}

Error no_kept_permits() {
  return {Errc::kUnsupported, "permits of this store end with their client"};
}

Error invalid(const port::AcquireRequest& request) {
  return port::to_acquire_result({.outcome = Outcome::kInvalid}, request, nullptr, {}).error();
}

}  // namespace

Engine::Engine(Backend& backend, const port::StoreContext& context, machine::Duration min_ttl)
    : backend_(backend),
      listener_(context.listener),
      min_ttl_(min_ttl),
      traits_{backend.guarantees().store, backend.rewrites(), backend.gated(), backend.keeps()},
      availability_(backend, [this](const std::string& line) { on_alarm(line); }),
      administration_(std::make_shared<Administration>(
          backend, [this](const std::string& line) { on_alarm(line); },
          [this](const auto&... arguments) { queue_shrink(arguments...); })),
      timer_(*context.io, [this] { on_timer(); }) {}

Engine::RunningPtr Engine::find(const std::string& name, const machine::AcquisitionId& id) const {
  const auto found = running_.find(NameView(name, id));
  return found == running_.end() ? nullptr : *found;
}

Engine::RunningPtr Engine::upgrade_of(const AcquisitionFsm& base) const {
  if (counts_permits(base)) return nullptr;
  auto at = running_.lower_bound(NameView(base.lock(), {}));
  for (; at != running_.end() && (*at)->lock() == base.lock(); ++at) {
    if ((*at)->acquisition.key().upgrade_of == base.key().id) return *at;
  }
  return nullptr;
}

// --- Acquire.

std::optional<Error> Engine::refuse(const port::AcquireRequest& request) const {
  if (!well_formed(request)) return invalid(request);
  const bool permits = request.mode.kind == machine::ModeKind::kPermits;
  if (request.outlives_client && traits_.keeps && permits && !backend_.keeps_permits()) {
    return no_kept_permits();
  }
  return refuse_ttl(request.ttl);
}

std::optional<Error> Engine::refuse_ttl(machine::Duration ttl) const {
  if (ttl >= min_ttl_) return std::nullopt;
  return Error(Errc::kInvalidArgument,
               "a ttl of " + std::to_string(ttl.count() / 1000) +
                   " ms is shorter than the session's " + std::to_string(min_ttl_.count() / 1000) +
                   " ms: ask for a longer one, or set a shorter session in the store's URL");
}

// Only a shared lease of which its owner knows can be upgraded.
std::optional<Error> Engine::refuse_upgrade(const port::AcquireRequest& request,
                                            const RunningPtr& base) const {
  if (!request.upgrade_of) return std::nullopt;
  if (base == nullptr || (!base->acquisition.held() && !counts_permits(base->acquisition))) {
    return invalid(request);
  }
  const AcquisitionFsm& held = base->acquisition;
  if (held.key().shape == Shape::kShared || held.weakened()) return std::nullopt;
  return port::to_ticket_state({.outcome = Outcome::kInvalid}, request.name, {}).error();
}

void Engine::acquire(port::AcquireRequest request, BootInstant now, Done<AcquisitionState> done) {
  if (const RunningPtr known = find(request.name, request.id)) {
    if (known->acquisition.held() || known->acquisition.waits()) {
      return done(known->acquisition.status(context()));
    }
    if (known->acquisition.ended()) return done(gone());  // It is removed soon.
    known->callers().asks.push_back(std::move(done));
    return step(known, Asked{request.deadline});
  }
  if (auto error = refuse(request)) return done(*std::move(error));
  // An ended acquisition is not started again.
  if (request.issue != 0 && request.issue <= last_issue_) return done(gone());
  last_issue_ = std::max(last_issue_, request.issue);
  const RunningPtr base = request.upgrade_of ? find(request.name, request.upgrade_of) : nullptr;
  if (auto error = refuse_upgrade(request, base)) return done(*std::move(error));
  begin(AcquisitionFsm(traits_, std::move(request), base ? &base->acquisition : nullptr, now),
        std::move(done));
}

Engine::RunningPtr Engine::add(AcquisitionFsm acquisition) {
  auto running = std::make_shared<Running>(std::move(acquisition));
  if (const auto earlier = running_.find(running->name()); earlier != running_.end()) {
    running_.erase(earlier);
  }
  running_.insert(running);
  return running;
}

void Engine::begin(AcquisitionFsm acquisition, Done<AcquisitionState> done) {
  acquisition.share_owner(last_owner_);
  const RunningPtr running = add(std::move(acquisition));
  running->callers().asks.push_back(std::move(done));
  step(running, Begin{});
}

// --- Renew.

void Engine::renew(const std::vector<port::RenewItem>& items, BootInstant now, BootInstant deadline,
                   const Done<std::vector<Result<AcquisitionState>>>& done) {
  struct Gathered {
    std::vector<Result<AcquisitionState>> results;
    std::size_t left = 1;
  };
  auto gathered = std::make_shared<Gathered>();
  gathered->results.assign(items.size(), gone());
  const auto arrived = [gathered, done] {
    if (--gathered->left == 0) done(std::move(gathered->results));
  };
  const Context context = this->context();
  availability_.note_session(context.session);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const port::RenewItem& item = items[i];
    const auto broken = broken_.find({item.name, item.id});
    if (broken != broken_.end() && item.token != machine::Token{}) {
      gathered->results[i] = broken->second;
      continue;
    }
    // A handle or process that adopts a lease begins an acquisition that only holds.
    RunningPtr running = find(item.name, item.id);
    if (!running && item.adopts && traits_.keeps) {
      if (auto error = refuse_ttl(item.ttl)) {
        gathered->results[i] = *std::move(error);
        continue;
      }
      running = adopt(item, now, deadline);
      ++gathered->left;
      running->callers().asks.emplace_back(
          [gathered, arrived, i](const Result<AcquisitionState>& state) {
            gathered->results[i] = state;
            arrived();
          });
      step(running, Begin{});
      continue;
    }
    if (!running) continue;
    Actions actions;
    const bool held = running->acquisition.held();
    // Most renewals send nothing: the session keeps all locks of this client.
    if (auto state = running->acquisition.renew(item, now, deadline, context, actions)) {
      gathered->results[i] = *std::move(state);
      continue;
    }
    ++gathered->left;
    running->callers().asks.emplace_back(
        [gathered, arrived, i](const Result<AcquisitionState>& state) {
          gathered->results[i] = state;
          arrived();
        });
    follow_up(running, held, actions);
  }
  arrived();
}

Engine::RunningPtr Engine::adopt(const port::RenewItem& item, BootInstant now,
                                 BootInstant deadline) {
  return add(AcquisitionFsm::adopt(traits_, item, now, deadline));
}

// --- End and downgrade.

void Engine::end(const port::AcquisitionRequest& request, Done<EndStatus> done) {
  const RunningPtr running = find(request.name, request.id);
  broken_.erase({request.name, request.id});
  if (!running) {
    last_issue_ = std::max(last_issue_, request.issue);  // This request has overtaken its acquire.
    return done(EndStatus::kGone);
  }
  running->callers().ends.push_back(std::move(done));
  step(running, End{request.deadline});
}

void Engine::downgrade(const port::AcquisitionRequest& request, Done<AcquisitionState> done) {
  const RunningPtr running = find(request.name, request.id);
  if (!running || !running->acquisition.held()) return done(gone());
  switch (running->acquisition.key().shape) {
    case Shape::kPermits:
    case Shape::kShrink:
      return done(port::to_ticket_state({.outcome = Outcome::kMismatch}, request.name, {}));
    case Shape::kShared: return done(running->acquisition.status(context()));
    case Shape::kUpgrade:
      return end(request, [done = std::move(done)](const Result<EndStatus>& ended) {
        if (!ended) return done(ended.error());
        done(gone());
      });
    case Shape::kExclusive: break;
  }
  if (running->acquisition.weakened()) {
    return done(running->acquisition.status(context()));
  }
  running->callers().downgrades.push_back(std::move(done));
  step(running, Weaken{request.deadline});
}

void Engine::keep(port::KeepRequest request, Done<bool> done) {
  const std::string& name = request.name;
  if (request.value && request.value->size() > kMostValue) {
    return done(port::to_done({.outcome = Outcome::kTooLarge}, name));
  }
  const RunningPtr running = find(name, request.id);
  if (!running || !running->acquisition.held()) {
    return done(port::to_done({.outcome = Outcome::kNotHeld}, name));
  }
  if (counts_permits(running->acquisition) && !backend_.keeps_permits()) {
    return done(of_lock(name, no_kept_permits()));
  }
  running->callers().keeps.push_back([name, done = std::move(done)](const Result<bool>& kept) {
    done(kept ? kept : of_lock(name, kept.error()));
  });
  step(running, LetGo{request.seq, request.ttl, std::move(request.value), request.deadline});
}

// --- Values.

void Engine::set_value(const port::AcquisitionRequest& request, std::string value,
                       Done<bool> done) {
  const std::string& name = request.name;
  if (value.size() > kMostValue) return done(port::to_done({.outcome = Outcome::kTooLarge}, name));
  const RunningPtr running = find(name, request.id);
  if (!running || !running->acquisition.held()) {
    return done(port::to_done({.outcome = Outcome::kNotHeld}, name));
  }
  Change change;
  change.lock = name;
  change.present = running->acquisition.entry();
  change.value = std::move(value);
  auto told = [name, done = std::move(done)](const Result<std::optional<std::uint64_t>>& applied) {
    if (!applied) return done(of_lock(name, applied.error()));
    const Outcome outcome = *applied ? Outcome::kDone : Outcome::kNotHeld;
    done(port::to_done({.outcome = outcome}, name));
  };
  in_session(running->acquisition.kept(), running->acquisition, request.deadline,
             [this, change = std::move(change), deadline = request.deadline,
              told = std::move(told)](std::uint64_t epoch) mutable {
               change.epoch = epoch;
               backend_.apply(std::move(change), deadline, std::move(told));
             });
}

void Engine::resize(const port::AcquisitionRequest& request, std::uint32_t capacity,
                    const Done<bool>& done) {
  last_issue_ = std::max(last_issue_, request.issue);
  administration_->resize(request, capacity, done);
}

void Engine::queue_shrink(const port::AcquisitionRequest& request, std::uint32_t by,
                          std::uint32_t from, const Done<bool>& done) {
  begin(AcquisitionFsm::shrink(traits_, request, by, from, base::BootClock::now()),
        [done, name = request.name](const Result<AcquisitionState>& state) {
          if (!state) return done(of_lock(name, state.error()));
          done(state->status == AcquisitionStatus::kHeld);
        });
}

}  // namespace holdfast::contend
