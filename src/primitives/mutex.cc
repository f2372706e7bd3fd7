#include "holdfast/mutex.h"

#include <utility>

#include "holdfast/client.h"
#include "src/primitives/lock_state.h"
#include "src/primitives/start.h"

namespace holdfast {

Mutex Client::mutex(std::string name, AcquireOptions defaults) const {
  return Mutex(std::make_shared<Mutex::State>(core_, std::move(name), std::move(defaults)));
}

Mutex::Mutex(std::shared_ptr<State> state) : state_(std::move(state)) {}

const std::string& Mutex::name() const { return state_->name; }

Result<Lease> Mutex::acquire(AcquireOptions options) {
  return detail::as_lease(state_->core->acquire(state_->name, Mode::exclusive(), std::move(options),
                                                /*may_wait=*/true),
                          state_->name);
}

Result<std::optional<Lease>> Mutex::try_acquire(AcquireOptions options) {
  return detail::as_tried(state_->core->acquire(state_->name, Mode::exclusive(), std::move(options),
                                                /*may_wait=*/false));
}

bool Mutex::try_lock_within(std::chrono::milliseconds wait) {
  return state_->threads.lock(
      state_->name, state_->defaults, wait, state_->core->forked(),
      [this](AcquireOptions options) { return acquire(std::move(options)); });
}

void Mutex::lock() {
  // Waits without limit; only a cancel in the defaults ends it.
  while (!try_lock_within(std::chrono::hours(24 * 365))) {
  }
}

bool Mutex::try_lock() { return try_lock_within(std::chrono::milliseconds::zero()); }

void Mutex::unlock() noexcept {
  if (state_->core->forked()) return;
  if (auto mine = state_->threads.unlock()) static_cast<void>(mine->release());
}

Lease* Mutex::lease() { return state_->core->forked() ? nullptr : state_->threads.find(); }

}  // namespace holdfast
