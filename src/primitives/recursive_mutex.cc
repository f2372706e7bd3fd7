#include "holdfast/recursive_mutex.h"

#include <map>
#include <utility>
#include <vector>

#include "holdfast/client.h"
#include "src/base/local_mutex.h"
#include "src/primitives/flow.h"

namespace holdfast {

// One owner's hold on the lock. It stays in the state's map until it is released or was not
// acquired.
struct RecursiveLease::Held {
  Held(std::shared_ptr<RecursiveMutex::State> of, std::string id)
      : state(std::move(of)), owner(std::move(id)) {}

  const std::shared_ptr<RecursiveMutex::State> state;
  const std::string owner;
  // Guarded by the state's mutex.
  std::optional<Lease> lease;  // Not set: it is asked for.
  std::uint32_t depth = 0;
  std::vector<session::Core::SleeperPtr> sleepers;  // Calls of this owner that wait for that.
};

struct RecursiveMutex::State {
  const std::shared_ptr<session::Core> core;
  const std::string name;
  const std::uint32_t max_depth;
  base::LocalMutex mutex{};
  std::map<std::string, std::shared_ptr<RecursiveLease::Held>> by_owner
      HOLDFAST_GUARDED_BY(mutex){};
};

using primitives::Flow;
using primitives::ScopePtr;
using session::Core;

namespace detail {

// The steps of an acquisition.
struct RecursiveMaker {
  using State = RecursiveMutex::State;
  using StatePtr = std::shared_ptr<State>;
  using Held = RecursiveLease::Held;
  using HeldPtr = std::shared_ptr<Held>;

  enum class Found { kMine, kPending, kNothing };

  static std::string said_of(const State& state) {
    return "lock '" + session::printable(state.name) + "': ";
  }

  // Re-enters, or marks that this call asks for the lock. `held`: the owner's hold, as it is.
  static Result<Found> look(const StatePtr& state, const Owner& owner, HeldPtr& held) {
    const base::LocalLock lock(state->mutex);
    auto& place = state->by_owner[owner.id()];
    if (!place) {
      place = held = std::make_shared<Held>(state, owner.id());
      return Found::kNothing;
    }
    held = place;
    if (!held->lease) return Found::kPending;
    if (!held->lease->held()) {
      return Error(Errc::kLost, said_of(*state) +
                                    "its owner has lost it: release all that it took before it "
                                    "acquires it again");
    }
    if (held->depth >= state->max_depth) {
      return Error(Errc::kQueueFull, said_of(*state) + "its owner holds it " +
                                         std::to_string(held->depth) + " times already");
    }
    ++held->depth;
    return Found::kMine;
  }

  // Callers that wait for it under the same owner look again.
  static void settle(const HeldPtr& held, std::optional<Lease> lease) {
    std::vector<Core::SleeperPtr> sleepers;
    {
      const base::LocalLock lock(held->state->mutex);
      if (lease) {
        held->lease = std::move(lease);
        held->depth = 1;
      } else {
        held->state->by_owner.erase(held->owner);
      }
      sleepers.swap(held->sleepers);
    }
    for (const auto& sleeper : sleepers) held->state->core->wake(sleeper);
  }

  static auto wait_for_other(const ScopePtr& scope, const HeldPtr& held) {
    return scope->sleep(session::BootInstant::max(), [held](const Core::SleeperPtr& sleeper) {
      {
        const base::LocalLock lock(held->state->mutex);
        const auto found = held->state->by_owner.find(held->owner);
        if (!held->lease && found != held->state->by_owner.end() && found->second == held) {
          held->sleepers.push_back(sleeper);
          return;
        }
      }
      // The other call has ended since the look, so nobody else would wake this one.
      held->state->core->wake(sleeper);
    });
  }

  static Flow<std::optional<RecursiveLease>> acquire(ScopePtr scope, StatePtr state, Owner owner,
                                                     AcquireOptions options, bool may_wait) {
    HeldPtr held;
    while (true) {
      const Result<Found> found = look(state, owner, held);
      if (!found) co_return found.error();
      if (*found == Found::kMine) co_return std::optional<RecursiveLease>(RecursiveLease(held));
      if (*found == Found::kNothing) break;
      if (!may_wait) co_return std::optional<RecursiveLease>();
      const Result<void> slept = co_await wait_for_other(scope, held);
      if (!slept) co_return slept.error();
    }
    options.owner = owner;
    Flow<std::optional<Lease>> taking =
        scope->take(state->name, Mode::exclusive(), options, may_wait);
    Result<std::optional<Lease>> lease = co_await std::move(taking);
    const bool held_now = lease && *lease;
    settle(held, held_now ? *std::move(lease) : std::nullopt);
    if (!lease) co_return lease.error();
    if (!held_now) co_return std::optional<RecursiveLease>();
    co_return std::optional<RecursiveLease>(RecursiveLease(held));
  }

  static Flow<RecursiveLease> acquire_waiting(ScopePtr scope, StatePtr state, Owner owner,
                                              AcquireOptions options) {
    return primitives::whole(acquire(std::move(scope), std::move(state), std::move(owner),
                                     std::move(options), /*may_wait=*/true));
  }

  // The lease, when this was the last time.
  static std::optional<Lease> leave(const HeldPtr& held) {
    const base::LocalLock lock(held->state->mutex);
    if (--held->depth > 0) return std::nullopt;
    held->state->by_owner.erase(held->owner);
    return std::exchange(held->lease, std::nullopt);
  }
};

}  // namespace detail

using detail::RecursiveMaker;

// --- RecursiveLease.

RecursiveLease::RecursiveLease(std::shared_ptr<Held> held) : held_(std::move(held)) {}

RecursiveLease& RecursiveLease::operator=(RecursiveLease&& other) noexcept {
  if (this == &other) return *this;
  RecursiveLease old(std::move(*this));
  held_ = std::move(other.held_);
  return *this;
}

RecursiveLease::~RecursiveLease() {
  if (held_ && !held_->state->core->forked()) RecursiveMaker::leave(held_);
}

Token RecursiveLease::token() const { return held_ ? held_->lease->token() : Token{}; }

bool RecursiveLease::held() const {
  return held_ && !held_->state->core->forked() && held_->lease->held();
}

std::stop_token RecursiveLease::lost() const {
  return held_ ? held_->lease->lost() : std::stop_token();
}

std::uint32_t RecursiveLease::depth() const {
  if (!held_ || held_->state->core->forked()) return 0;
  const base::LocalLock lock(held_->state->mutex);
  return held_->depth;
}

Result<void> RecursiveLease::release() {
  const auto held = std::exchange(held_, nullptr);
  if (!held) return {};
  if (held->state->core->forked()) return held->state->core->forked_error();
  auto lease = RecursiveMaker::leave(held);
  return lease ? lease->release() : Result<void>();
}

// --- RecursiveMutex.

RecursiveMutex Client::recursive_mutex(std::string name, std::uint32_t max_depth) const {
  return RecursiveMutex(
      primitives::make_state<RecursiveMutex::State>(core_, std::move(name), max_depth));
}

RecursiveMutex::RecursiveMutex(std::shared_ptr<State> state) : state_(std::move(state)) {}

const std::string& RecursiveMutex::name() const { return state_->name; }

Result<RecursiveLease> RecursiveMutex::acquire(const Owner& owner, AcquireOptions options) {
  return detail::wait_for(detail::Async::acquire(*this, owner, std::move(options)));
}

Result<std::optional<RecursiveLease>> RecursiveMutex::try_acquire(const Owner& owner,
                                                                  AcquireOptions options) {
  return detail::wait_for(detail::Async::try_acquire(*this, owner, std::move(options)));
}

namespace detail {

Start<RecursiveLease> Async::acquire(const RecursiveMutex& mutex, const Owner& owner,
                                     AcquireOptions options) {
  return primitives::start_flow(mutex.state_->core, options, RecursiveMaker::acquire_waiting,
                                mutex.state_, owner, options);
}

Start<std::optional<RecursiveLease>> Async::try_acquire(const RecursiveMutex& mutex,
                                                        const Owner& owner,
                                                        AcquireOptions options) {
  return primitives::start_flow(mutex.state_->core, options, RecursiveMaker::acquire, mutex.state_,
                                owner, options, /*may_wait=*/false);
}

Start<void> Async::release(RecursiveLease& lease) {
  const auto held = std::exchange(lease.held_, nullptr);
  auto last = held ? std::make_shared<std::optional<Lease>>(RecursiveMaker::leave(held)) : nullptr;
  return start<void>([last](const Core::Done<void>& done) {
    if (!last || !*last) return done(Result<void>());
    const auto acquisition = ticket(**last);
    acquisition->core->release(acquisition,
                               [last, done](const Result<void>& released) { done(released); });
  });
}

}  // namespace detail
}  // namespace holdfast
