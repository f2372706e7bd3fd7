// A mutex whose holder may be any process that reaches the same store.
//
//   State     acquire                     release     lease ends
//   free      held                        -           -
//   held      waits; held or an error     free        free, lost() fires first
//
// Example (examples/primitives.cc#mutex):
//   holdfast::Mutex order = client.mutex("orders/42");
//   auto lease = order.acquire({.wait = 5s, .ttl = 30s, .reason = "charge"});
//   if (!lease) return lease.error();  // kTimedOut, kUnavailable ...: each names your next step
//   work_with(lease->token());         // let the resource refuse an older token
//   return lease->release();           // or let the destructor do it
//
// Guarantee: at most one unexpired exclusive lease per name, as far as the store keeps its
// guarantees (Client::guarantees()) and nobody breaks the lock; tokens grow with every grant.
// Not guaranteed: that a paused holder has stopped. Only the resource can refuse it: pass
// `lease.token()` along (docs/guide/fencing.md). Reentrancy: asking again for a mutex that the
// same thread has locked through lock() is refused; through acquire() it waits for itself.
//
// Thread-safety: a Mutex may be shared and copied; copies are the same mutex. A move copies, too:
// what was moved from can still be used.
// Ownership: shares the client's core; the client object may go first. No I/O in the constructor.
// Time: boot-time clock; durations are rounded up to milliseconds.
// Fairness: first come, first served.
// Errors: kTimedOut, kCancelled (nothing held, nothing queued); kUnavailable (surely not applied);
// kOutcomeUnknown (may be held for one ttl); kInvalidArgument (a bad name or option: told by the
// first operation); kPermissionDenied, kQueueFull, kCorruptState, kVersionMismatch, kClosed.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "holdfast/detail/wait.h"
#include "holdfast/export.h"
#include "holdfast/lease.h"
#include "holdfast/options.h"
#include "holdfast/result.h"

namespace holdfast {

namespace session {
class Core;
}
namespace detail {
struct Async;
}

class HOLDFAST_EXPORT Mutex {
 public:
  Mutex(const Mutex&) = default;
  Mutex& operator=(const Mutex&) = default;
  ~Mutex() = default;

  const std::string& name() const;

  // Waits for the lock as the options say.
  Result<Lease> acquire(AcquireOptions options = {});

  // Takes the lock if it is free; nullopt: held elsewhere. Never waits for other holders
  // (`options.wait` is ignored), only for the store.
  Result<std::optional<Lease>> try_acquire(AcquireOptions options = {});

  // --- The standard's vocabulary: Lockable and TimedLockable, for std::unique_lock and
  // std::scoped_lock. The options are those given to Client::mutex(). lock(), try_lock() and their
  // kin throw std::system_error with an Errc where they cannot answer; contention and running out
  // of time are `false`. unlock() must be called by the thread that locked (from others
  // it does nothing), never throws, and waits for the store; it does not tell a loss (use acquire()
  // where that matters, or look at lease()). A loss does not unlock: until it has called unlock(),
  // the thread that lost the lock is refused with kWouldDeadlock when it locks again.
  void lock();
  bool try_lock();
  template <typename Rep, typename Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& wait) {
    return try_lock_within(detail::bounded_wait(wait));
  }
  template <typename Clock, typename Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& until) {
    const auto now = Clock::now();
    if (until <= now) return try_lock();
    return try_lock_for(until - now);
  }
  void unlock() noexcept;

  // The lease that this thread holds through lock() and its kin; nullptr: none. Valid until
  // unlock().
  Lease* lease();

 private:
  friend class Client;
  friend struct detail::Async;
  struct State;
  explicit Mutex(std::shared_ptr<State> state);
  bool try_lock_within(std::chrono::milliseconds wait);

  std::shared_ptr<State> state_;
};

}  // namespace holdfast
