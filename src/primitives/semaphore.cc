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
  if (done) state->capacity = capacity;
  co_return done;
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
  return detail::as_lease(state_->core->acquire(state_->name, state_->mode(permits),
                                                std::move(options), /*may_wait=*/true),
                          state_->name);
}

Result<std::optional<Lease>> Semaphore::try_acquire(std::uint32_t permits, AcquireOptions options) {
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
  return start_acquire(semaphore.state_->core, semaphore.state_->name,
                       semaphore.state_->mode(permits), std::move(options));
}

Start<std::optional<Lease>> Async::try_acquire(const Semaphore& semaphore, std::uint32_t permits,
                                               AcquireOptions options) {
  return start_try_acquire(semaphore.state_->core, semaphore.state_->name,
                           semaphore.state_->mode(permits), std::move(options));
}

Start<bool> Async::resize(const Semaphore& semaphore, std::uint32_t capacity) {
  return primitives::start_flow<bool>(
      semaphore.state_->core, {}, [state = semaphore.state_, capacity](primitives::ScopePtr scope) {
        return primitives::counting::resize(std::move(scope), state, capacity);
      });
}

Start<SemaphoreCount> Async::count(const Semaphore& semaphore) {
  return primitives::start_flow<SemaphoreCount>(
      semaphore.state_->core, {}, [state = semaphore.state_](primitives::ScopePtr scope) {
        return primitives::counting::look(std::move(scope), state);
      });
}

}  // namespace detail
}  // namespace holdfast
