#include "holdfast/semaphore.h"

#include <atomic>
#include <utility>

#include "holdfast/client.h"
#include "src/primitives/flow.h"

namespace holdfast {

struct Semaphore::State {
  const std::shared_ptr<session::Core> core;
  const std::string name;
  std::atomic<std::uint32_t> capacity;
  // The capacity before a resize() that waits for its turn; zero: none does.
  std::atomic<std::uint32_t> before{0};

  Mode mode(std::uint32_t permits) const { return Mode::permits(permits, capacity); }
};

namespace primitives::counting {
namespace {

using primitives::Flow;
using primitives::ScopePtr;
using session::Core;

SemaphoreCount to_count(const std::optional<LockInfo>& info, std::uint32_t capacity) {
  SemaphoreCount count{.capacity = capacity};
  if (!info) return count;
  if (info->permits && !info->holders.empty()) count.capacity = info->capacity;
  for (const HolderInfo& holder : info->holders) count.taken += holder.mode.count();
  count.waiting = static_cast<std::uint32_t>(info->waiters.size());
  return count;
}

template <typename State>
Flow<bool> resize(ScopePtr scope, std::shared_ptr<State> state, std::uint32_t capacity) {
  const Result<bool> done = co_await scope->resize(state->name, capacity);
  if (!done) co_return done;
  const std::uint32_t in_force = state->before != 0 ? state->before.load() : state->capacity.load();
  state->capacity = capacity;
  state->before = *done ? 0 : in_force;
  co_return done;
}

// Tries both numbers, because only the store knows which of them is in force. nullopt: the call was
// not to wait.
template <typename State>
Flow<std::optional<Lease>> take(ScopePtr scope, std::shared_ptr<State> state, std::uint32_t permits,
                                AcquireOptions options, bool may_wait) {
  constexpr int kTries = 3;  // The second number may give way to the first meanwhile.
  for (int tries = 1;; ++tries) {
    const std::uint32_t before = state->before;
    const bool by_old = tries == 2;
    const Mode mode = by_old ? Mode::permits(permits, before) : state->mode(permits);
    Flow<std::optional<Lease>> taking = scope->take(state->name, mode, options, may_wait);
    Result<std::optional<Lease>> lease = co_await std::move(taking);
    if (lease && !by_old) state->before = 0;
    if (lease) co_return lease;
    const bool refused = lease.error().code() == Errc::kInvalidArgument;
    const bool again = before != 0 && permits <= state->capacity && tries < kTries;
    if (!refused || !again) co_return lease;
  }
}

template <typename State>
Flow<Lease> take_waiting(ScopePtr scope, std::shared_ptr<State> state, std::uint32_t permits,
                         AcquireOptions options) {
  return primitives::whole(
      take(std::move(scope), std::move(state), permits, std::move(options), /*may_wait=*/true));
}

template <typename State>
Flow<SemaphoreCount> look(ScopePtr scope, std::shared_ptr<State> state) {
  const Result<std::optional<LockInfo>> info = co_await scope->inspect(state->name);
  if (!info) co_return info.error();
  co_return to_count(*info, state->capacity);
}

}  // namespace
}  // namespace primitives::counting

Semaphore Client::semaphore(std::string name, std::uint32_t capacity) const {
  return Semaphore(primitives::make_state<Semaphore::State>(core_, std::move(name), capacity));
}

Semaphore::Semaphore(std::shared_ptr<State> state) : state_(std::move(state)) {}

const std::string& Semaphore::name() const { return state_->name; }

std::uint32_t Semaphore::capacity() const { return state_->capacity; }

Result<Lease> Semaphore::acquire(std::uint32_t permits, AcquireOptions options) {
  if (state_->before != 0) {
    return detail::wait_for(detail::Async::acquire(*this, permits, std::move(options)));
  }
  return detail::as_lease(state_->core->acquire(state_->name, state_->mode(permits),
                                                std::move(options), /*may_wait=*/true),
                          state_->name);
}

Result<std::optional<Lease>> Semaphore::try_acquire(std::uint32_t permits, AcquireOptions options) {
  if (state_->before != 0) {
    return detail::wait_for(detail::Async::try_acquire(*this, permits, std::move(options)));
  }
  return detail::as_tried(state_->core->acquire(state_->name, state_->mode(permits),
                                                std::move(options), /*may_wait=*/false));
}

Result<bool> Semaphore::resize(std::uint32_t capacity) {
  return detail::wait_for(detail::Async::resize(*this, capacity));
}

Result<SemaphoreCount> Semaphore::count() const {
  return detail::wait_for(detail::Async::count(*this));
}

namespace detail {

Start<Lease> Async::acquire(const Semaphore& semaphore, std::uint32_t permits,
                            AcquireOptions options) {
  if (semaphore.state_->before != 0) {
    return primitives::start_flow(semaphore.state_->core, options,
                                  primitives::counting::take_waiting<Semaphore::State>,
                                  semaphore.state_, permits, options);
  }
  return start_acquire(semaphore.state_->core, semaphore.state_->name,
                       semaphore.state_->mode(permits), std::move(options));
}

Start<std::optional<Lease>> Async::try_acquire(const Semaphore& semaphore, std::uint32_t permits,
                                               AcquireOptions options) {
  if (semaphore.state_->before != 0) {
    return primitives::start_flow(semaphore.state_->core, options,
                                  primitives::counting::take<Semaphore::State>, semaphore.state_,
                                  permits, options, /*may_wait=*/false);
  }
  return start_try_acquire(semaphore.state_->core, semaphore.state_->name,
                           semaphore.state_->mode(permits), std::move(options));
}

Start<bool> Async::resize(const Semaphore& semaphore, std::uint32_t capacity) {
  return primitives::start_flow(semaphore.state_->core, {},
                                primitives::counting::resize<Semaphore::State>, semaphore.state_,
                                capacity);
}

Start<SemaphoreCount> Async::count(const Semaphore& semaphore) {
  return primitives::start_flow(semaphore.state_->core, {},
                                primitives::counting::look<Semaphore::State>, semaphore.state_);
}

}  // namespace detail
}  // namespace holdfast
