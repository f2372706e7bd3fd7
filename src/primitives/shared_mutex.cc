#include "holdfast/shared_mutex.h"

#include <utility>

#include "holdfast/client.h"
#include "src/primitives/lock_state.h"
#include "src/primitives/moved_lease.h"
#include "src/primitives/start.h"

namespace holdfast {
namespace {

using session::Core;

constexpr std::chrono::milliseconds kNoWait(0);
// Waits without limit; only a cancel in the defaults ends it.
constexpr std::chrono::milliseconds kForever = std::chrono::hours(24) * 365;

// Is this a lease by which the lock can be upgraded or downgraded?
Result<void> check_lease(const primitives::LockState& state, const Lease& lease) {
  const auto& acquisition = detail::LeaseAccess::of(lease);
  if (!acquisition) return primitives::moved_lease_error();
  if (acquisition->core == state.core && acquisition->name == state.name) return {};
  return Error(Errc::kInvalidArgument,
               "this is not a lease of lock '" + session::printable(state.name) +
                   "' by this client, but of '" + session::printable(acquisition->name) + "'");
}

}  // namespace

SharedMutex Client::shared_mutex(std::string name, AcquireOptions defaults) const {
  return SharedMutex(
      std::make_shared<SharedMutex::State>(core_, std::move(name), std::move(defaults)));
}

SharedMutex::SharedMutex(std::shared_ptr<State> state) : state_(std::move(state)) {}

const std::string& SharedMutex::name() const { return state_->name; }

Result<Lease> SharedMutex::acquire(AcquireOptions options) {
  return detail::as_lease(
      state_->core->acquire(state_->name, Mode::exclusive(), std::move(options), true),
      state_->name);
}

Result<std::optional<Lease>> SharedMutex::try_acquire(AcquireOptions options) {
  return detail::as_tried(
      state_->core->acquire(state_->name, Mode::exclusive(), std::move(options), false));
}

Result<Lease> SharedMutex::acquire_shared(AcquireOptions options) {
  return detail::as_lease(
      state_->core->acquire(state_->name, Mode::shared(), std::move(options), true), state_->name);
}

Result<std::optional<Lease>> SharedMutex::try_acquire_shared(AcquireOptions options) {
  return detail::as_tried(
      state_->core->acquire(state_->name, Mode::shared(), std::move(options), false));
}

Result<Lease> SharedMutex::upgrade(const Lease& reader, AcquireOptions options) {
  if (auto good = check_lease(*state_, reader); !good) return good.error();
  return detail::as_lease(
      state_->core->upgrade(detail::LeaseAccess::of(reader), std::move(options), true),
      state_->name);
}

Result<std::optional<Lease>> SharedMutex::try_upgrade(const Lease& reader, AcquireOptions options) {
  if (auto good = check_lease(*state_, reader); !good) return good.error();
  return detail::as_tried(
      state_->core->upgrade(detail::LeaseAccess::of(reader), std::move(options), false));
}

Result<void> SharedMutex::downgrade(Lease& writer) {
  if (auto good = check_lease(*state_, writer); !good) return good.error();
  return state_->core->downgrade(detail::LeaseAccess::of(writer));
}

bool SharedMutex::lock_within(Access access, std::chrono::milliseconds wait) {
  return state_->threads.lock(state_->name, state_->defaults, wait, state_->core->forked(),
                              [&](AcquireOptions options) {
                                return access == Access::kRead ? acquire_shared(std::move(options))
                                                               : acquire(std::move(options));
                              });
}

void SharedMutex::lock() {
  while (!lock_within(Access::kWrite, kForever)) {
  }
}

void SharedMutex::lock_shared() {
  while (!lock_within(Access::kRead, kForever)) {
  }
}

bool SharedMutex::try_lock() { return lock_within(Access::kWrite, kNoWait); }

bool SharedMutex::try_lock_shared() { return lock_within(Access::kRead, kNoWait); }

void SharedMutex::unlock() noexcept {
  if (state_->core->forked()) return;
  if (auto mine = state_->threads.unlock()) static_cast<void>(mine->release());
}

void SharedMutex::unlock_shared() noexcept { unlock(); }

Lease* SharedMutex::lease() { return state_->core->forked() ? nullptr : state_->threads.find(); }

namespace detail {

Start<Lease> Async::acquire(const SharedMutex& mutex, AcquireOptions options) {
  return start_acquire(mutex.state_->core, mutex.state_->name, Mode::exclusive(),
                       std::move(options));
}

Start<Lease> Async::acquire_shared(const SharedMutex& mutex, AcquireOptions options) {
  return start_acquire(mutex.state_->core, mutex.state_->name, Mode::shared(), std::move(options));
}

Start<std::optional<Lease>> Async::try_acquire(const SharedMutex& mutex, AcquireOptions options) {
  return start_try_acquire(mutex.state_->core, mutex.state_->name, Mode::exclusive(),
                           std::move(options));
}

Start<std::optional<Lease>> Async::try_acquire_shared(const SharedMutex& mutex,
                                                      AcquireOptions options) {
  return start_try_acquire(mutex.state_->core, mutex.state_->name, Mode::shared(),
                           std::move(options));
}

Start<Lease> Async::upgrade(const SharedMutex& mutex, const Lease& reader, AcquireOptions options) {
  return start_lease(
      mutex.state_->core, mutex.state_->name,
      [base = LeaseAccess::of(reader), good = check_lease(*mutex.state_, reader),
       options = std::move(options)](
          Core& core, Core::Done<Core::AcquisitionPtr> done) mutable -> Core::AcquisitionPtr {
        if (!good) return done(good.error()), nullptr;
        return core.upgrade(base, std::move(options), /*may_wait=*/true, std::move(done));
      });
}

Start<void> Async::downgrade(const SharedMutex& mutex, const Lease& writer) {
  return start<void>([core = mutex.state_->core, held = LeaseAccess::of(writer),
                      good = check_lease(*mutex.state_, writer)](const Core::Done<void>& done) {
    if (!good) return done(good);
    core->downgrade(held, done);
  });
}

}  // namespace detail
}  // namespace holdfast
