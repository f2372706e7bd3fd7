// Several locks as one: all of them are held, or none.
//
//   State          acquire_all                                  release, destructor
//   all free       all held: in one step where the store can    all free
//   one held       sorted by name, one after the other; all
//                  given back when one cannot be had in time
//
// Example (examples/primitives.cc#multi_lock):
//   auto both = client.acquire_all({{"account/3"}, {"account/7"}}, {.wait = 5s});
//   if (!both) return both.error();              // none of them is held
//   work_with(both->token("account/3"));         // each has a token of its own
//   if (auto loss = both->loss()) return *loss;  // one of them was lost: stop
//   return both->release();                      // in one request where the store can
//
// Guarantee: a LeaseSet holds every lock in it, each in its own mode; after an error none of them
// is held or waited for. Locks are requested in the order of their names, whatever order they were
// given in, so two callers of acquire_all() never wait for each other. One deadline
// (AcquireOptions::wait) covers all. While it waits for a later lock, it renews the earlier ones.
// In one step: where Guarantees::multi says so (memory, SQLite, one Redis server), one request
// looks at all of them and takes them only if all are free. That costs one round trip for any
// number. Not guaranteed: that the things which the locks protect change at once; each lock is a
// lease of its own and can be lost alone. That no deadlock arises with a caller that takes the
// locks one by one in another order: name an Owner, which
// ends such a deadlock (owner.h).
//
// Thread-safety: a LeaseSet like a Lease: const calls from any thread.
// Ownership: shares the client's core. The destructor queues the releases and does not wait.
// Time: as Lease's. Fairness: the one step passes no waiter; otherwise it queues like any waiter.
// Errors: as Mutex's, of the first lock that cannot be had. kInvalidArgument: no lock, more than
// 64, one name in two modes, or permits of one name twice (a name twice in the same mode is asked
// for once). kLost, as soon as it is known: a lock was lost while the call waited for the others;
// the message names it, and all are given back.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/lease.h"
#include "holdfast/mode.h"
#include "holdfast/result.h"
#include "holdfast/token.h"

namespace holdfast {

namespace detail {
struct LeaseSetAccess;
}

struct LockRequest {
  std::string name;
  Mode mode = Mode::exclusive();
};

// The leases of several locks. A moved-from set is empty: not held, without names.
class HOLDFAST_EXPORT LeaseSet {
 public:
  LeaseSet(LeaseSet&& other) noexcept;
  LeaseSet& operator=(LeaseSet&& other) noexcept;  // Releases what it held, without waiting.
  LeaseSet(const LeaseSet&) = delete;
  LeaseSet& operator=(const LeaseSet&) = delete;
  ~LeaseSet();

  std::size_t size() const;
  std::vector<std::string> names() const;  // Sorted.

  // nullptr: the set has no lock of that name. Valid as long as the set.
  const Lease* lease(std::string_view name) const;
  // The token of that lock's grant; zero: the set has no lock of that name.
  Token token(std::string_view name) const;

  // Reads the clock: true while every one of them is held.
  bool held() const;
  // The time for which all are certain without another renewal; zero when one is not held.
  std::chrono::milliseconds remaining() const;
  // Fires (from the client's notifier thread) when the first of them is lost.
  std::stop_token lost() const;
  // The cause of the first loss; nullopt while none is lost.
  std::optional<Error> loss() const;

  // Gives all of them back, in one request where the store can, and waits for the answer.
  // Errors: of the first lock whose release failed (Lease::release()); the message names every lock
  // that was still held and could not be given back. In every case the set holds nothing any more.
  // Repeating gives the same answer.
  Result<void> release();

 private:
  friend struct detail::LeaseSetAccess;
  struct State;
  explicit LeaseSet(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace holdfast
