// A count that goes down to zero once, and opens for all who wait.
//
//   State   count_down(n)              wait()        reset(count)
//   shut    the count goes down;       waits         the count is set
//           at zero: open
//   open    stays open                 returns       shut again
//
// Example (examples/primitives.cc#latch):
//   holdfast::Latch loaded = client.latch("import/may/loaded", 2);
//   for (const char* part : {"customers", "orders"}) {  // as a rule in two processes
//     std::printf("loaded: %s\n", part);
//     if (auto left = loaded.count_down(); !left) return left.error();
//   }
//   return loaded.wait({.wait = 60s});  // returns when all have counted; kTimedOut: one did not
//
// Guarantee: an open latch stays open, also for callers that come later, until somebody resets it.
// A count survives the death of the process that counted.
// Not guaranteed: that a participant that died before it counted is noticed (wait with a limit, or
// use a Barrier, whose participants have leases); whether a count_down() that ended with
// kOutcomeUnknown counted (look at count()); that the count outlives the loss of the store's data
// or a week without use on SQLite and Redis. It starts again then; the store's page says when data
// is lost.
//
// Thread-safety: as Mutex's. Ownership: shares the client's core.
// Time: a waiter learns of the opening at once where the store reports it (memory, SQLite, Redis),
// and within half a second at the latest.
// Blocking: count_down() holds the name as a mutex for a moment. If its process dies in that
// moment, the others wait for the end of that lease: 5 s, or the store's shortest lease if that is
// longer. A call waits for that for at most 30 s, then fails: kTimedOut, and nothing was changed.
// Errors: kTimedOut, kCancelled; kUnsupported (Guarantees::values); kInvalidArgument: count_down()
// with another count than the one in use, or a name in use for something else. The latter is told
// at once where it shows: another kind of record, a shared lease, a lease over twice as long as the
// counting one. A lease that looks like a counting one is waited for. Otherwise as Mutex's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/result.h"

namespace holdfast {

namespace detail {
struct Async;
}

class HOLDFAST_EXPORT Latch {
 public:
  Latch(const Latch&) = default;
  Latch& operator=(const Latch&) = default;
  ~Latch() = default;

  const std::string& name() const;

  // Takes `n` off the count and returns the rest; zero when `n` is larger than the count.
  Result<std::uint64_t> count_down(std::uint64_t n = 1);

  // Returns when the latch is open. Only the options `wait` and `cancel` count.
  Result<void> wait(AcquireOptions options = {});
  Result<bool> try_wait();  // Whether it is open.
  // Counts, then waits. kTimedOut, kCancelled: it may have counted.
  Result<std::uint64_t> arrive_and_wait(std::uint64_t n = 1, AcquireOptions options = {});

  Result<std::uint64_t> count();

  // Shuts it again with a new count, for everybody. Waiters keep waiting, now for that count.
  // This handle and its copies use the new count from then on. With a different count, other
  // handles must be made again: Client::latch(name, count).
  Result<void> reset(std::uint64_t count);

 private:
  friend class Client;
  friend struct detail::Async;
  struct State;
  explicit Latch(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace holdfast
