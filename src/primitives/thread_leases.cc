#include "src/primitives/thread_leases.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <utility>

namespace holdfast::primitives {
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

bool ThreadLeases::lock(const std::string& name, AcquireOptions defaults,
                        std::chrono::milliseconds wait, bool forked, const Take& take) {
  defaults.wait = std::max(wait, std::chrono::milliseconds::zero());
  const std::uint64_t me = this_thread();
  if (!forked) {
    const base::LocalLock lock(mutex_);
    const auto mine = by_thread_.find(me);
    if (mine != by_thread_.end()) {
      if (!mine->second.held()) {
        // Otherwise the unlock() that belongs to the old lock would free the new one.
        raise({Errc::kWouldDeadlock,
               "this thread has locked '" + name + "' before and lost it: call unlock() first"});
      }
      if (defaults.wait == std::chrono::milliseconds::zero()) return false;
      raise({Errc::kWouldDeadlock, "this thread has locked '" + name + "' already"});
    }
  }
  auto got = take(std::move(defaults));
  if (!got) {
    if (got.error().code() == Errc::kTimedOut) return false;
    raise(got.error());
  }
  const base::LocalLock lock(mutex_);
  by_thread_.emplace(me, *std::move(got));
  return true;
}

std::optional<Lease> ThreadLeases::unlock() {
  const base::LocalLock lock(mutex_);
  const auto found = by_thread_.find(this_thread());
  if (found == by_thread_.end()) return std::nullopt;
  std::optional<Lease> mine(std::move(found->second));
  by_thread_.erase(found);
  return mine;
}

Lease* ThreadLeases::find() {
  const base::LocalLock lock(mutex_);
  const auto found = by_thread_.find(this_thread());
  return found == by_thread_.end() ? nullptr : &found->second;
}

}  // namespace holdfast::primitives
