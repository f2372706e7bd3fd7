// A meeting point that a fixed number of participants pass together, again and again.
//
//   State     arrive_and_wait()              a seat ends                     reset()
//   open      waits for the others; the      kBreak: broken                  open, the next
//             last one opens it for all      kLeave: not awaited any more    generation
//   broken    kBroken at once                stays                           open, the next
//                                                                            generation
//
// Example (examples/primitives.cc#barrier):
//   holdfast::Barrier step = client.barrier("import/may/step", 2);
//   auto loader = step.join({.ttl = 10s});  // as a rule each in a process of its own
//   auto indexer = step.join({.ttl = 10s});
//   if (!loader || !indexer) return (loader ? indexer : loader).error();
//   if (auto last = indexer->arrive_and_leave(); !last) return last.error();
//   auto passed = loader->arrive_and_wait({.wait = 60s});  // returns when all have arrived
//   if (!passed) return passed.error();  // kBroken: a participant is gone; kTimedOut: one is late
//   std::printf("all parts are ready, generation %d\n", static_cast<int>(*passed));
//   return loader->arrive_and_leave();
//
// Guarantee: nobody passes a generation before all awaited participants have arrived. A seat is a
// participant's lease. There are at most `parties` seats, and the seat of a dead process ends. The
// policy then says whether waiters are told kBroken or stop waiting for it. They learn this within
// a second after the lease's end, or two if the process died while it held the record (below).
// Not guaranteed: that a participant that was paused for longer than its lease has stopped. It
// learns kLost.
//
// Participants that have not joined yet are awaited, too. The barrier starts again when nobody has
// a seat and nobody has arrived and left in the current generation. The first to join then sets the
// number of parties (at most 100) and the policy. Generation numbers grow; they start again where a
// latch's count does (latch.h).
//
// Thread-safety: Barrier as Mutex; a BarrierSeat takes one call at a time. Ownership: shares the
// client's core. Time: a waiter learns of the opening as a latch's waiter does. Joining, arriving
// and leaving hold the record as a mutex for a moment, by a lease of a second (or the store's
// shortest lease, if that is longer). A call waits for the record until its own time is over, but
// at least half a second and at most 15 s (kUnavailable). Taking an arrival back may last half a
// second longer than the lease of a process that died holding the record (then kOutcomeUnknown).
// The seats are permits of the lock `name`: `holdfast inspect` shows them. A name has at most 245
// bytes: its record is kept beside a lock of the library's own, `name/../barrier`.
// Errors: kTimedOut, kCancelled (of arrive_and_wait(): the arrival was taken back; a call that
// comes too late for that succeeds); kBroken: reset() when all are ready for it; kLost: the seat
// ended: join() again; kInvalidArgument: in use with other parties or another policy, or for
// something else; kUnsupported (Guarantees::values); otherwise as Mutex's.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "holdfast/export.h"
#include "holdfast/lease.h"
#include "holdfast/options.h"
#include "holdfast/result.h"
#include "holdfast/token.h"

namespace holdfast {

namespace detail {
struct Async;
struct BarrierMaker;
}  // namespace detail
namespace primitives {
struct BarrierState;
}

// The effect on the others when a seat ends other than by arrive_and_leave(). All users of a name
// must agree on it.
enum class BarrierPolicy : std::uint8_t {
  kBreak,  // They are told kBroken, until somebody calls reset().
  kLeave,  // They go on without it. Whoever joins later takes its place, and is awaited again.
};

// A snapshot. Not guaranteed: that it still holds when you read it.
struct BarrierCount {
  std::uint32_t parties = 0;     // How many are awaited in this generation.
  std::uint32_t joined = 0;      // How many have a seat.
  std::uint32_t arrived = 0;     // Awaited participants that arrived, also if they left since.
  std::uint64_t generation = 0;  // How often it has opened or begun anew.
  bool broken = false;
};

// One participant's place in the barrier. Its destructor gives the seat back without waiting. For
// the other participants that is the same as a crash.
class HOLDFAST_EXPORT BarrierSeat {
 public:
  BarrierSeat(BarrierSeat&&) noexcept = default;
  BarrierSeat& operator=(BarrierSeat&&) noexcept = default;
  ~BarrierSeat() = default;

  Token token() const { return lease_.token(); }
  bool held() const { return lease_.held(); }
  std::stop_token lost() const { return lease_.lost(); }
  Lease& lease() { return lease_; }
  const Lease& lease() const { return lease_; }

  // Arrives, waits for all others and returns the generation's number. Only the options `wait` and
  // `cancel` count. Errors: kOutcomeUnknown: the arrival may or may not count. Calling again does
  // not count twice while count() reports the same generation.
  Result<std::uint64_t> arrive_and_wait(AcquireOptions options = {});

  // Arrives for the last time without waiting, and gives the seat back. Later generations do not
  // wait for it. Errors: the seat is kept when the call fails.
  Result<void> arrive_and_leave();

 private:
  friend struct detail::Async;
  friend struct detail::BarrierMaker;
  BarrierSeat(Lease lease, std::shared_ptr<const primitives::BarrierState> barrier)
      : lease_(std::move(lease)), barrier_(std::move(barrier)) {}

  Lease lease_;
  std::shared_ptr<const primitives::BarrierState> barrier_;
};

class HOLDFAST_EXPORT Barrier {
 public:
  Barrier(const Barrier&) = default;
  Barrier& operator=(const Barrier&) = default;
  ~Barrier() = default;

  const std::string& name() const;

  // Waits while all seats are taken. A broken barrier can be joined.
  Result<BarrierSeat> join(AcquireOptions options = {});

  // Opens a broken barrier for the next generation, for the participants that have seats. If the
  // barrier is not broken, its waiters are told kBroken.
  Result<void> reset();

  Result<BarrierCount> count();

 private:
  friend class Client;
  friend struct detail::Async;
  explicit Barrier(std::shared_ptr<const primitives::BarrierState> state);

  std::shared_ptr<const primitives::BarrierState> state_;
};

}  // namespace holdfast
