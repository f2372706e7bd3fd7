#include "holdfast/mutex.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <system_error>
#include <utility>

#include "src/primitives/mutex_state.h"

namespace holdfast {
namespace {

[[noreturn]] void raise(const Error& error) {
  throw std::system_error(make_error_code(error.code()), error.message());
}

// Never used again for another thread, as std::thread::id is.
std::uint64_t this_thread() {
  static std::atomic<std::uint64_t> last{0};
  thread_local const std::uint64_t mine = ++last;
  return mine;
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
  const std::uint64_t me = this_thread();
  if (!state_->core->forked()) {
    const base::LocalLock lock(state_->mutex);
    const auto mine = state_->by_thread.find(me);
    if (mine != state_->by_thread.end()) {
      if (!mine->second.held()) {
        // Otherwise the unlock() that belongs to the old lock would free the new one.
        raise({Errc::kWouldDeadlock, "this thread has locked '" + state_->name +
                                         "' before and lost it: call unlock() first"});
      }
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
  state_->by_thread.emplace(me, *std::move(got));
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
    const auto found = state_->by_thread.find(this_thread());
    if (found == state_->by_thread.end()) return;
    mine = std::move(found->second);
    state_->by_thread.erase(found);
  }
  static_cast<void>(mine->release());
}

Lease* Mutex::lease() {
  if (state_->core->forked()) return nullptr;
  const base::LocalLock lock(state_->mutex);
  const auto found = state_->by_thread.find(this_thread());
  return found == state_->by_thread.end() ? nullptr : &found->second;
}

}  // namespace holdfast
