// N permits that processes share; a request takes some of them, as one lease.
//
//   State             acquire(n)                       release of a lease of n
//   n or more free    held; waits behind waiters       n more are free; waiters are admitted in
//                                                      order, as far as the permits last
//   fewer free        waits                            the same
//
// Example (examples/primitives.cc#semaphore):
//   holdfast::Semaphore slots = client.semaphore("render", 8);  // for all processes together
//   auto lease = slots.acquire(2, {.wait = 5s});                // two of the eight, as one lease
//   if (!lease) return lease.error();
//   auto count = slots.count();
//   if (!count) return count.error();
//   std::printf("%u of %u are free\n", count->available(), count->capacity);
//   return lease->release();  // both; a crash gives them back at the end of the lease
//
// Guarantee: at most N permits are held in unexpired leases. A lease is renewed like a mutex's and
// belongs to its owner: nobody else can give its permits back, and those of a crashed holder come
// back at the end of its lease. Small requests do not overtake a large one, so it does not starve.
// Not guaranteed: fencing. Tokens grow, but one token does not tell a resource which other holders
// may still write. Where two writers would do harm use a mutex.
//
// N: all users of a name must name the same N. While the name is in use another N is refused with
// kInvalidArgument. resize() changes it: a larger N at once, a smaller N in queue order, after
// enough permits have come back. From then on requests must name the new N. When nobody holds or
// waits, the next request sets N.
//
// Thread-safety: as Mutex's; copies share N. Ownership, time: as Mutex's. Fairness: first come,
// first served. Errors: as Mutex's; kUnsupported (Guarantees::permits); kInvalidArgument: a request
// for no permits or for more than N, or another N is in use.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "holdfast/export.h"
#include "holdfast/lease.h"
#include "holdfast/options.h"
#include "holdfast/result.h"

namespace holdfast {

namespace detail {
struct Async;
}

// The counts at one instant of the store; they may have changed since.
struct SemaphoreCount {
  std::uint32_t capacity = 0;  // N.
  std::uint32_t taken = 0;
  std::uint32_t waiting = 0;  // Requests, not permits.
  std::uint32_t available() const { return capacity > taken ? capacity - taken : 0; }
};

class HOLDFAST_EXPORT Semaphore {
 public:
  Semaphore(const Semaphore&) = default;
  Semaphore& operator=(const Semaphore&) = default;
  ~Semaphore() = default;

  const std::string& name() const;
  std::uint32_t capacity() const;  // The N of this handle.

  // Waits for `permits` at once; the lease is for all of them.
  Result<Lease> acquire(std::uint32_t permits = 1, AcquireOptions options = {});
  // nullopt: fewer permits are free, or others wait.
  Result<std::optional<Lease>> try_acquire(std::uint32_t permits = 1, AcquireOptions options = {});

  // Changes N for everybody, and for this handle and its copies. True: the new N is in force.
  // False: it will be as soon as enough permits have come back. Until then the old N counts, but
  // this handle refuses requests for more than the new N. Errors: kLost: nobody uses the semaphore,
  // so there is nothing to change: make a handle with the new N.
  Result<bool> resize(std::uint32_t capacity);

  Result<SemaphoreCount> count() const;

 private:
  friend class Client;
  friend struct detail::Async;
  struct State;
  explicit Semaphore(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace holdfast
