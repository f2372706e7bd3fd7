// The holders, the waiters and the events of a lock, for people and monitoring.
//
// Not guaranteed: that it still holds when you read it. Never use it to decide who holds a lock.
// Thread-safety: plain data. Texts come from other processes: escape them before a terminal.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/mode.h"
#include "holdfast/token.h"

namespace holdfast {

// An owner's description of itself, unchecked. A missing part is empty, 0, or the epoch of the
// clock.
struct OwnerInfo {
  std::string owner;
  std::string host;
  std::int64_t pid = 0;
  std::string program;
  std::string reason;
  std::chrono::system_clock::time_point since{};  // By the owner's wall clock; of its request.
  std::string trace_id;                           // AcquireOptions::trace_id; empty: none.
};

// A holder whose lease ran when the store looked. Not guaranteed: that the holder still counts on
// it; its own deadline is earlier.
struct HolderInfo {
  OwnerInfo who;
  Mode mode = Mode::exclusive();
  Token token;                             // Zero: its description cannot be read.
  std::chrono::milliseconds time_left{};   // The lease's rest by the store's clock; 0: not known.
  std::chrono::milliseconds lock_delay{};  // The end of time_left, on which it does not count.

  // Its own deadline has passed: only the lock-delay (AcquireOptions) keeps others out.
  bool only_delayed() const { return time_left.count() > 0 && time_left <= lock_delay; }
};

// A waiter in the queue. Not guaranteed: that it is alive; the queue entry of a dead waiter ends by
// itself.
struct WaiterInfo {
  OwnerInfo who;
  Mode mode = Mode::exclusive();
  std::chrono::milliseconds time_left{};  // Until the queue entry ends, if the waiter is dead.
};

// The trace of the last break by an operator.
struct BreakInfo {
  Token token;  // The broken holder's.
  OwnerInfo by;
};

// One lock. Guarantee: holders and waiters are of one instant of the store.
struct LockInfo {
  std::string name;
  // The largest token that the store knows to have been granted. A store that binds leases to their
  // client (Guarantees::bound_to_client) keeps none: then it is the largest one of the holders, and
  // zero (not known) for a free lock.
  Token last_token;
  std::uint32_t capacity = 1;  // Permits locks: N.
  bool permits = false;
  std::vector<HolderInfo> holders;
  std::vector<WaiterInfo> waiters;  // In queue order.
  std::optional<BreakInfo> last_break;

  // Nobody counts on the lock any more, and lock-delays keep it closed for so long at most; zero:
  // that is not so, or not known.
  std::chrono::milliseconds opens_in() const {
    std::chrono::milliseconds last{};
    for (const HolderInfo& holder : holders) {
      if (!holder.only_delayed()) return std::chrono::milliseconds::zero();
      last = std::max(last, holder.time_left);
    }
    return last;
  }
};

// kExpired: where a watch samples, also a lease that was released between two looks in which it
// would have run out. kForgotten: the store lost its record of the lock (a restart without
// persistence), and its holder may still count on it. kMissed: the connection to the store was
// lost, so changes before this moment may not have been told; `name` is the prefix of the watch.
// Client::list() shows what there is now.
enum class LockEventKind {
  kGranted,
  kQueued,
  kReleased,
  kExpired,
  kCancelled,
  kBroken,
  kForgotten,
  kMissed
};

// An event of a lock. Guarantee: it happened. Not guaranteed: that every event is reported, where
// Guarantees::watch_every_change is false.
struct LockEvent {
  LockEventKind kind{};
  std::string name;
  OwnerInfo who;
  Token token;                            // Zero for kQueued, kCancelled and kMissed.
  std::chrono::milliseconds time_left{};  // The lease's rest, for kGranted.
};

// Keeps a watch alive; its destructor ends it. After the destructor has returned the callback is
// not called any more (if called within the callback: not after that call).
class HOLDFAST_EXPORT Watch {
 public:
  Watch() = default;
  explicit Watch(std::shared_ptr<void> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<void> impl_;
};

}  // namespace holdfast
