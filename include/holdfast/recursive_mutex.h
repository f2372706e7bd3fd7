// A mutex that its owner may acquire again while holding it.
//
//   State             acquire(owner)                     acquire(another owner)
//   free              held, depth 1                      held, depth 1
//   held by owner     held, one deeper, the same token   waits
//   lost by owner     kLost, until all that it took      -
//                     has been released
//
// Example (examples/primitives.cc#recursive_mutex):
//   holdfast::RecursiveMutex tree = client.recursive_mutex("tree");
//   const holdfast::Owner me("import of May");  // an object that is passed along, never a thread
//   auto outer = tree.acquire(me, {.wait = 5s});
//   if (!outer) return outer.error();
//   auto inner = tree.acquire(me);  // at once: the same owner, the same token
//   if (!inner) return inner.error();
//   work_with(inner->token());
//   if (auto left = inner->release(); !left) return left;  // still held, by `outer`
//   return outer->release();
//
// Reentrancy belongs to an Owner that is passed along, never to a thread: it works across threads,
// pools and coroutines, and two tasks on one thread stay apart.
// Guarantee: as Mutex's between owners. Re-entry costs no request, has the same token, and is
// refused from the deadline on. The lock is free after as many releases as acquisitions. Not
// guaranteed: that re-entry works over two handles. An owner re-enters by copies of one
// RecursiveMutex in one process; by another handle it waits for itself and is told
// kWouldDeadlock.
//
// Thread-safety: as Mutex's; two calls of one owner at the same time are one acquisition and one
// re-entry. Ownership: shares the client's core. Time, fairness: as Mutex's.
// Errors: as Mutex's. kLost: the lease under it has ended. kQueueFull: max_depth is reached;
// release one first.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/owner.h"
#include "holdfast/result.h"
#include "holdfast/token.h"

namespace holdfast {

namespace detail {
struct Async;
struct RecursiveMaker;
}  // namespace detail

class RecursiveMutex;

// One acquisition by an owner, of possibly several. The destructor releases without waiting.
class HOLDFAST_EXPORT RecursiveLease {
 public:
  RecursiveLease(RecursiveLease&&) noexcept = default;
  RecursiveLease& operator=(RecursiveLease&& other) noexcept;
  ~RecursiveLease();

  Token token() const;
  bool held() const;
  std::stop_token lost() const;
  std::uint32_t depth() const;  // How many times its owner holds the lock now.

  // The last release gives the lock back and answers as Lease::release(). Repeating does nothing.
  Result<void> release();

 private:
  friend class RecursiveMutex;
  friend struct detail::Async;
  friend struct detail::RecursiveMaker;
  struct Held;
  explicit RecursiveLease(std::shared_ptr<Held> held);
  std::shared_ptr<Held> held_;
};

class HOLDFAST_EXPORT RecursiveMutex {
 public:
  RecursiveMutex(const RecursiveMutex&) = default;
  RecursiveMutex& operator=(const RecursiveMutex&) = default;
  ~RecursiveMutex() = default;

  const std::string& name() const;

  // `owner` is also AcquireOptions::owner.
  Result<RecursiveLease> acquire(const Owner& owner, AcquireOptions options = {});
  // nullopt: another owner holds it, or another call of `owner` waits for it.
  Result<std::optional<RecursiveLease>> try_acquire(const Owner& owner,
                                                    AcquireOptions options = {});

 private:
  friend class Client;
  friend class RecursiveLease;
  friend struct detail::Async;
  friend struct detail::RecursiveMaker;
  struct State;
  explicit RecursiveMutex(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace holdfast
