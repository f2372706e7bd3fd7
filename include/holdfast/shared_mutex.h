// A mutex that many readers or one writer hold, whichever processes they are in.
//
//   State     acquire            acquire_shared      upgrade                    downgrade
//   free      held by a writer   held by a reader    -                          -
//   readers   waits              held by one more;   the only reader becomes    -
//                                waits if a writer   a writer; otherwise it
//                                waits already       waits until it is alone
//   a writer  waits              waits               -                          held by a reader
//
// Example (examples/primitives.cc#shared_mutex):
//   holdfast::SharedMutex prices = client.shared_mutex("prices");
//   auto reader = prices.acquire_shared({.wait = 5s});
//   if (!reader) return reader.error();
//   if (!is_stale(*reader)) return reader->release();
//   auto writer = prices.upgrade(*reader, {.wait = 5s});  // nobody has written since we read
//   if (!writer) return writer.error();  // kWouldDeadlock: somebody else upgrades; start again
//   rewrite(*writer);
//   return prices.downgrade(*writer);  // from here on `reader` reads together with others
//
// Guarantee: as Mutex's for writers; a reader's lease excludes writers while it is held. Every
// reader has a lease of its own: one that crashes frees its share at the end of its own lease.
// First come, first served, in one queue, so that neither readers nor writers starve. Not
// guaranteed: that a resource can tell two readers apart. It records the tokens of writers only; a
// reader's token must be above the last one that it has recorded (docs/guide/fencing.md).
//
// Upgrade: a second, exclusive lease with a token of its own, linked to the reader's. It waits
// until all other readers have left. It passes waiting writers, because they wait for this reader,
// too, so nobody else writes between the reading and the writing. It is held while both leases are.
// Releasing it, or downgrade(), goes back to reading; releasing the reader's lease ends both. When
// two readers upgrade, the second is told kWouldDeadlock at once: each would wait for the other's
// shared lease. It should release() its own and start again.
//
// Downgrade: a writer becomes a reader in place and keeps its token. No other writer can come
// between. Readers that wait at the front of the queue are admitted in the same step.
//
// Thread-safety, ownership, time: as Mutex's. Fairness: first come, first served.
// Errors: as Mutex's, and kWouldDeadlock (above), kUnsupported (Guarantees::shared, ::upgrade).
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

class HOLDFAST_EXPORT SharedMutex {
 public:
  SharedMutex(const SharedMutex&) = default;
  SharedMutex& operator=(const SharedMutex&) = default;
  ~SharedMutex() = default;

  const std::string& name() const;

  // For writing.
  Result<Lease> acquire(AcquireOptions options = {});
  // Takes it if it is free; nullopt: it is not. Never waits for other holders.
  Result<std::optional<Lease>> try_acquire(AcquireOptions options = {});

  // For reading.
  Result<Lease> acquire_shared(AcquireOptions options = {});
  // nullopt: a writer holds the lock or waits for it.
  Result<std::optional<Lease>> try_acquire_shared(AcquireOptions options = {});

  // Returns a writer's lease beside `reader`, a shared lease of this lock. Without a ttl in the
  // options it has the reader's. Errors besides those of acquire(): kWouldDeadlock (an upgrade of
  // this or another reader is in progress), kLost (the reader's lease has ended),
  // kInvalidArgument (`reader` is not a shared lease of this lock).
  Result<Lease> upgrade(const Lease& reader, AcquireOptions options = {});
  // nullopt: there are other readers; `reader` is held as before.
  Result<std::optional<Lease>> try_upgrade(const Lease& reader, AcquireOptions options = {});

  // `writer` becomes a shared lease; an upgraded lease is released. Calling it again does nothing.
  // Errors: kLost; kUnavailable (still exclusive); kOutcomeUnknown (one or the other: call again).
  Result<void> downgrade(Lease& writer);

  // --- The standard's vocabulary: SharedLockable and SharedTimedLockable, for std::unique_lock and
  // std::shared_lock. The rules of Mutex::lock() and its kin apply. One thread holds the lock once,
  // for reading or for writing.
  void lock();
  bool try_lock();
  template <typename Rep, typename Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& wait) {
    return lock_within(Access::kWrite, detail::bounded_wait(wait));
  }
  template <typename Clock, typename Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& until) {
    const auto now = Clock::now();
    if (until <= now) return try_lock();
    return try_lock_for(until - now);
  }
  void unlock() noexcept;

  void lock_shared();
  bool try_lock_shared();
  template <typename Rep, typename Period>
  bool try_lock_shared_for(const std::chrono::duration<Rep, Period>& wait) {
    return lock_within(Access::kRead, detail::bounded_wait(wait));
  }
  template <typename Clock, typename Duration>
  bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration>& until) {
    const auto now = Clock::now();
    if (until <= now) return try_lock_shared();
    return try_lock_shared_for(until - now);
  }
  void unlock_shared() noexcept;

  // The lease that this thread holds through these; nullptr: none. Valid until it unlocks.
  Lease* lease();

 private:
  friend class Client;
  friend struct detail::Async;
  struct State;
  enum class Access { kRead, kWrite };
  explicit SharedMutex(std::shared_ptr<State> state);
  bool lock_within(Access access, std::chrono::milliseconds wait);

  std::shared_ptr<State> state_;
};

}  // namespace holdfast
