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
// Guarantee: once open it stays open, for callers that come later, too, until somebody resets it.
// Counting survives the death of whoever counted.
// Not guaranteed: that a participant which died before it counted is missed: wait with a limit, or
// use a Barrier, whose participants have leases. That a count_down() which ended with
// kOutcomeUnknown counted, or did not: look at count(). That the count outlives the loss of the
// store's data (the store's page says when; it begins anew then), or a week without use on SQLite
// and Redis.
//
// Thread-safety: as Mutex's. Ownership: shares the client's core.
// Time: a caller that waits learns of the opening at once, where the store tells (memory, SQLite,
// Redis do), and within half a second at the latest.
// Blocking: who counts holds the name as a mutex for that moment. Should it die in it, the others
// wait for the end of that lease, 5 s (longer where the store's shortest lease is longer).
// Each call waits 30 s at most for the others to count: kTimedOut, and nothing was changed.
// Errors: kTimedOut, kCancelled; kInvalidArgument: count_down() with another count than the one in
// use, or a name in use for something else (at once where that can be seen: another kind of record,
// a shared lease, one longer than twice that of who counts; what looks the same is waited for);
// kUnsupported (Guarantees::values); otherwise as Mutex's.
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

  // Takes `n` off the count and gives what is left. More than is left: zero.
  Result<std::uint64_t> count_down(std::uint64_t n = 1);

  // Returns when it is open; options: `wait` and `cancel` mean something here.
  Result<void> wait(AcquireOptions options = {});
  Result<bool> try_wait();  // Whether it is open.
  // kTimedOut, kCancelled: it may have counted.
  Result<std::uint64_t> arrive_and_wait(std::uint64_t n = 1, AcquireOptions options = {});

  Result<std::uint64_t> count();

  // Shuts it again, with a new count, for everybody. Who waits goes on waiting, for that count.
  // Another count than that of a handle: who counts takes a new one, Client::latch(name, count).
  // This handle and its copies go by the new count then; other handles are made anew.
  Result<void> reset(std::uint64_t count);

 private:
  friend class Client;
  friend struct detail::Async;
  struct State;
  explicit Latch(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace holdfast
