#include "holdfast/mutex.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "src/primitives/mutex_state.h"

namespace holdfast {
namespace {

[[noreturn]] void raise(const Error& error) {
  throw std::system_error(make_error_code(error.code()), error.message());
}

}  // namespace

Mutex::Mutex(std::shared_ptr<State> state) : state_(std::move(state)) {}

const std::string& Mutex::name() const { return state_->name; }

Result<Lease> Mutex::acquire(AcquireOptions options) {
  auto got = state_->core->acquire(state_->name, Mode::exclusive(), std::move(options),
                                   /*may_wait=*/true);
  if (!got) return got.error();
  if (*got == nullptr)
    return Error(Errc::kTimedOut, "lock '" + state_->name + "' is held elsewhere");
  return Lease(*std::move(got));
}

Result<std::optional<Lease>> Mutex::try_acquire(AcquireOptions options) {
  auto got = state_->core->acquire(state_->name, Mode::exclusive(), std::move(options),
                                   /*may_wait=*/false);
  if (!got) return got.error();
  if (*got == nullptr) return std::optional<Lease>();
  return std::optional<Lease>(Lease(*std::move(got)));
}

bool Mutex::try_lock_within(std::chrono::milliseconds wait) {
  AcquireOptions options = state_->defaults;
  options.wait = std::max(wait, std::chrono::milliseconds::zero());
  const auto me = std::this_thread::get_id();
  if (!state_->core->forked()) {
    const base::LocalLock lock(state_->mutex);
    const auto mine = state_->by_thread.find(me);
    if (mine != state_->by_thread.end() && mine->second.held()) {
      if (options.wait == std::chrono::milliseconds::zero()) return false;
      raise({Errc::kWouldDeadlock, "this thread has locked '" + state_->name + "' already"});
    }
  }
  auto got = acquire(std::move(options));
  if (!got) {
    if (got.error().code() == Errc::kTimedOut) return false;
    raise(got.error());
  }
  const base::LocalLock lock(state_->mutex);
  state_->by_thread.insert_or_assign(me, *std::move(got));
  return true;
}

void Mutex::lock() {
  // Without limit but for a cancel in the defaults.
  while (!try_lock_within(std::chrono::hours(24 * 365))) {
  }
}

bool Mutex::try_lock() { return try_lock_within(std::chrono::milliseconds::zero()); }

void Mutex::unlock() noexcept {
  if (state_->core->forked()) return;
  std::optional<Lease> mine;
  {
    const base::LocalLock lock(state_->mutex);
    const auto found = state_->by_thread.find(std::this_thread::get_id());
    if (found == state_->by_thread.end()) return;
    mine = std::move(found->second);
    state_->by_thread.erase(found);
  }
  static_cast<void>(mine->release());
}

Lease* Mutex::lease() {
  if (state_->core->forked()) return nullptr;
  const base::LocalLock lock(state_->mutex);
  const auto found = state_->by_thread.find(std::this_thread::get_id());
  return found == state_->by_thread.end() ? nullptr : &found->second;
}

}  // namespace holdfast
