// Reports the cost and the end of a client's locks as they happen, for metrics and tracing.
//
//   struct Slow final : holdfast::Observer {
//     void acquire_ended(const holdfast::AcquireSeen& seen) override {
//       if (seen.wait > 1s) std::fprintf(stderr, "%s: waited\n", seen.lock.name.c_str());
//     }
//   };
//   holdfast::ClientOptions options;
//   options.observer = std::make_shared<Slow>();
//   auto client = holdfast::Client::connect("sqlite:///var/lib/app/locks.db", options);
//
// holdfast/prometheus.h has one that feeds a Prometheus registry (docs/guide/observability.md).
//
// Guarantee: each event below is reported once, in the order in which it happened to a lock, by
// one thread at a time (the client's notifier thread, on which no deadline and no renewal runs).
// Destroying the last handle of the client waits until earlier events have been reported.
// Not guaranteed: that an event is reported at once. Events wait behind a slow callback; beyond
// kMostKept of them further ones are dropped, and missed() reports how many. Never use an observer
// to decide whether a lock is held: ask Lease::held().
//
// Cardinality: names of locks may be many and never come back (`orders/42`). An exporter should
// label by the mode and the store, and by a name only after it was mapped to one of few labels.
//
// Thread-safety: a client makes one call at a time; several clients that share an observer call it
// on several threads.
// Ownership: the client keeps the observer. An observer that keeps the client keeps it for ever.
// Time: lengths on boot time, which counts suspend.
// Errors: a call must not throw (std::terminate).
// Cost: without an observer one branch per event; with one, an allocation for the name.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "holdfast/errc.h"
#include "holdfast/mode.h"
#include "holdfast/token.h"

namespace holdfast {

// Which lock it is about. `store` is the scheme of the client's URL ("redis"); the name is the
// user's, without the client's namespace.
struct SeenLock {
  std::string name;
  Mode mode = Mode::exclusive();
  std::string store;
};

// kBusy: the call was not to wait, and another owner held the lock. kFailed: see `error`.
enum class AcquireOutcome { kGranted, kBusy, kTimedOut, kCancelled, kFailed };

// A request for a lock has its answer. Not reported: adoptions, and requests that are refused
// before the store is asked (kInvalidArgument, kClosed).
struct AcquireSeen {
  SeenLock lock;
  AcquireOutcome outcome{};
  std::optional<Errc> error;        // Not set for kGranted and kBusy.
  std::chrono::nanoseconds wait{};  // From the call to the answer.
  // It stood in the queue. With kGranted: the lock was handed to it.
  bool queued = false;
  std::uint32_t ahead = 0;  // The number of queue entries before it when it came; else 0.
  Token token;              // The grant's.
};

// How a hold ended. All but the first two are losses: lost() of the lease has fired, except for a
// kGone that is the answer to release().
enum class HoldEnd {
  kReleased,
  kDetached,   // Lease::detach(): somebody else renews or releases it. Or it is kept on purpose
               // (job lock, once-guard): the store ends it.
  kExpired,    // Its deadline passed without a renewal.
  kMaxHold,    // AcquireOptions::max_hold was over.
  kGone,       // The store does not know the lease any more.
  kBroken,     // An operator freed it.
  kTakenOver,  // Another process adopted it.
  kClosed      // The client was closed while it was held.
};

// A lease of this client ended.
struct HoldSeen {
  SeenLock lock;
  HoldEnd how{};
  std::chrono::nanoseconds held{};  // From the grant to the loss, or to the answer of release().
  Token token;
};

// A renewal was answered.
struct RenewalSeen {
  SeenLock lock;
  // The delay of its send after the planned instant. A third of the lease lies between two
  // renewals; long delays show that this process or machine is overloaded.
  std::chrono::nanoseconds lateness{};
  std::chrono::nanoseconds round_trip{};
  std::optional<Errc> error;  // Not set: the lease was extended.
};

// A waiter of this client learned its place in the queue, or that it changed, or that nobody counts
// on the lock any more.
struct QueueSeen {
  SeenLock lock;
  std::uint32_t ahead = 0;
  // Its last holder did not release it, and the lock-delay keeps it closed for at most so much
  // longer (AcquireOptions::on_lock_delay). Zero: somebody holds it, or the store does not tell.
  std::chrono::milliseconds opens_in{};
};

// Whether the lease ended against its owner's will.
constexpr bool is_loss(HoldEnd how) {
  return how != HoldEnd::kReleased && how != HoldEnd::kDetached;
}

class Observer {
 public:
  static constexpr std::size_t kMostKept = 16'384;

  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  virtual void acquire_ended(const AcquireSeen&) {}
  virtual void hold_ended(const HoldSeen&) {}
  virtual void renewal_done(const RenewalSeen&) {}
  virtual void queue_seen(const QueueSeen&) {}
  // This many of the calls above were dropped because earlier ones took too long.
  virtual void missed(std::size_t) {}
};

}  // namespace holdfast
