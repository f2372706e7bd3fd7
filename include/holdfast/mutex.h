// A mutex whose holder may be any process that reaches the same store.
//
//   State     acquire                     release     lease ends
//   free      held                        -           -
//   held      waits; held or an error     free        free; held() is false before that
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
// `lease.token()` along (docs/guide/fencing.md). Reentrancy: a thread that holds it through lock()
// is refused when it locks again; through acquire() it waits for itself.
//
// Thread-safety: a Mutex may be shared and copied; copies are the same mutex. A move copies, too:
// the moved-from object can still be used.
// Ownership: shares the client's core; the client object may be destroyed first. The constructor
// does no I/O. Time: boot-time clock; durations are rounded up to milliseconds.
// Fairness: first come, first served.
// Errors: kTimedOut, kCancelled (nothing held, nothing queued); kUnavailable (surely not applied);
// kOutcomeUnknown (may be held for one ttl); kInvalidArgument (a bad name or option; the first call
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
  // std::scoped_lock. The options are those given to Client::mutex(). `false` means contention or
  // that the time is over; otherwise a failure throws std::system_error with an Errc. unlock() must
  // be called by the thread that locked (another thread's call does nothing). It waits for the
  // store, never throws, and reports no loss: use acquire() or look at lease() where that matters.
  // A loss does not unlock: until it has called unlock(), the thread that lost the lock is refused
  // with kWouldDeadlock when it locks again.
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
