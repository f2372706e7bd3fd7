#include "holdfast/striped_mutex.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "holdfast/client.h"
#include "src/base/fnv.h"
#include "src/primitives/flow.h"
#include "src/primitives/multi_lock_start.h"

namespace holdfast {

struct StripedMutex::State {
  const std::shared_ptr<session::Core> core;
  const std::string name;
  const std::uint32_t stripes;

  std::string name_of(std::uint32_t stripe) const { return name + "/" + std::to_string(stripe); }
};

namespace primitives::striping {
namespace {

using primitives::Flow;
using primitives::ScopePtr;

constexpr std::uint32_t kMostStripes = 64;

Result<void> check_stripes(std::uint32_t stripes) {
  if (stripes > 0 && stripes <= kMostStripes) return {};
  return Error(Errc::kInvalidArgument, std::to_string(stripes) + " stripes: there must be 1 to 64");
}

template <typename State>
Flow<Lease> acquire_one(ScopePtr scope, std::shared_ptr<State> state, std::uint32_t stripe,
                        AcquireOptions options) {
  const Result<void> good = check_stripes(state->stripes);
  if (!good) co_return good.error();
  co_return co_await scope->acquire(state->name_of(stripe), Mode::exclusive(), options);
}

template <typename State>
Flow<std::optional<Lease>> try_one(ScopePtr scope, std::shared_ptr<State> state,
                                   std::uint32_t stripe, AcquireOptions options) {
  const Result<void> good = check_stripes(state->stripes);
  if (!good) co_return good.error();
  co_return co_await scope->try_acquire(state->name_of(stripe), Mode::exclusive(), options);
}

template <typename State>
Flow<Lease> acquire_any(ScopePtr scope, std::shared_ptr<State> state, std::uint32_t first,
                        AcquireOptions options) {
  const Result<void> good = check_stripes(state->stripes);
  if (!good) co_return good.error();
  // Each caller begins at its own stripe, so callers spread. With none free it queues at that one.
  for (std::uint32_t i = 0; i < state->stripes; ++i) {
    const std::string name = state->name_of((first + i) % state->stripes);
    Result<std::optional<Lease>> lease =
        co_await scope->try_acquire(name, Mode::exclusive(), options);
    if (!lease) co_return lease.error();
    if (*lease) co_return std::move(**lease);
    if (scope->cancelled()) co_return scope->cancelled_error();
  }
  co_return co_await scope->acquire(state->name_of(first), Mode::exclusive(), options);
}

}  // namespace
}  // namespace primitives::striping

StripedMutex Client::striped_mutex(std::string name, std::uint32_t stripes) const {
  return StripedMutex(primitives::make_state<StripedMutex::State>(core_, std::move(name), stripes));
}

StripedMutex::StripedMutex(std::shared_ptr<State> state) : state_(std::move(state)) {}

const std::string& StripedMutex::name() const { return state_->name; }

std::uint32_t StripedMutex::stripes() const { return state_->stripes; }

std::uint32_t StripedMutex::stripe_of(std::string_view key) const {
  // Every client, in every version, must map a key to the same stripe.
  const std::uint64_t hash = base::fnv1a(key);
  return state_->stripes == 0 ? 0 : static_cast<std::uint32_t>(hash % state_->stripes);
}

std::string StripedMutex::stripe_name(std::uint32_t stripe) const {
  return state_->name_of(stripe);
}

Result<Lease> StripedMutex::acquire(std::string_view key, AcquireOptions options) {
  return detail::wait_for(detail::Async::acquire(*this, key, std::move(options)));
}

Result<std::optional<Lease>> StripedMutex::try_acquire(std::string_view key,
                                                       AcquireOptions options) {
  return detail::wait_for(detail::Async::try_acquire(*this, key, std::move(options)));
}

Result<Lease> StripedMutex::acquire_any(std::string_view key, AcquireOptions options) {
  return detail::wait_for(detail::Async::acquire_any(*this, key, std::move(options)));
}

Result<LeaseSet> StripedMutex::acquire_all(AcquireOptions options) {
  return detail::wait_for(detail::Async::acquire_all(*this, std::move(options)));
}

namespace detail {

Start<LeaseSet> Async::acquire_all(const StripedMutex& mutex, AcquireOptions options) {
  std::vector<LockRequest> all;
  // Too many are refused there, too.
  for (std::uint32_t i = 0; i < std::min(mutex.stripes(), 100U); ++i) {
    all.push_back({mutex.stripe_name(i), Mode::exclusive()});
  }
  return primitives::start_acquire_all(mutex.state_->core, std::move(all), std::move(options));
}

Start<Lease> Async::acquire(const StripedMutex& mutex, std::string_view key,
                            AcquireOptions options) {
  return primitives::start_flow(mutex.state_->core, options,
                                primitives::striping::acquire_one<StripedMutex::State>,
                                mutex.state_, mutex.stripe_of(key), options);
}

Start<std::optional<Lease>> Async::try_acquire(const StripedMutex& mutex, std::string_view key,
                                               AcquireOptions options) {
  return primitives::start_flow(mutex.state_->core, options,
                                primitives::striping::try_one<StripedMutex::State>, mutex.state_,
                                mutex.stripe_of(key), options);
}

Start<Lease> Async::acquire_any(const StripedMutex& mutex, std::string_view key,
                                AcquireOptions options) {
  return primitives::start_flow(mutex.state_->core, options,
                                primitives::striping::acquire_any<StripedMutex::State>,
                                mutex.state_, mutex.stripe_of(key), options);
}

}  // namespace detail
}  // namespace holdfast
