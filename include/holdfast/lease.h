// A lock that is held, as a value.
//
//   State      before the deadline          after it, or told by the store   release()
//   kHeld      held() is true               kLost; lost() fires              kReleased
//   kInDoubt   renewals fail; held() true   kLost; lost() fires              kReleased
//   kLost      held() is false              stays                            error kLost
//   kReleased  held() is false              stays                            the same answer
//   moved from: kReleased, without name and token; release() and renew() answer kInvalidArgument
//
// Guarantee: held() answers true only while nobody else can hold the lock, as far as the store
// keeps its guarantees (Client::guarantees()); from the local deadline on every call says lost,
// whatever arrives later. The deadline lies before the instant at which the store gives the lock
// to somebody else, counted on a clock that includes suspend and ignores wall-clock changes.
// Not guaranteed: that a process paused just after held() answered has stopped. Only the resource
// can refuse it: send token() along (docs/guide/fencing.md). That lost() has fired already: it is
// a notification from another thread, held() is the measure.
//
// An upgraded lease (SharedMutex::upgrade()) is held while the shared one under it is, too, and its
// deadline is the earlier of both.
//
// Thread-safety: const calls from any thread; release(), renew() and detach() one at a time.
// Ownership: shares the client's core; Client and Mutex objects may go first. The destructor
// queues the release and does not wait for it; Client::close() waits, and so does, for a second at
// most, whoever is the last to let go of the client.
// Time: CLOCK_BOOTTIME; milliseconds, rounded down where time left is told.
// After fork(): the child holds nothing; held() is false there and nothing is sent.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "holdfast/errc.h"
#include "holdfast/export.h"
#include "holdfast/mode.h"
#include "holdfast/result.h"
#include "holdfast/token.h"

namespace holdfast {

namespace session {
class Acquisition;
}
namespace detail {
struct LeaseAccess;
}

enum class LeaseState { kHeld, kInDoubt, kLost, kReleased };

class HOLDFAST_EXPORT Lease {
 public:
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;  // Releases what it held before, without waiting.
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease();

  const std::string& name() const;
  // As it is now: a downgrade makes an exclusive lease a shared one.
  Mode mode() const;

  // The token of this grant: never a newer holder's, also after the loss.
  Token token() const;

  // A text from which another process can renew or release this very lease (Client::adopt()).
  // Whoever has it can release the lock: treat it like a key.
  std::string id() const;

  // Reads the clock: true before the deadline, unless released, lost, or the clocks disagree.
  bool held() const;
  LeaseState state() const;

  // How long the lease is sure without another renewal; zero when not held.
  std::chrono::milliseconds remaining() const;

  // The same as an instant of CLOCK_BOOTTIME.
  std::chrono::nanoseconds deadline_boottime() const;

  // Fires (from the client's notifier thread) when the lease is lost; never for a release. Unless
  // the store tells of the loss earlier, it is timed by the deadline, which lies before anyone else
  // can hold the lock. Not guaranteed: that the callback has run by then: a starved or paused
  // machine runs it late, and one that blocks delays those of other leases. held() is exact.
  std::stop_token lost() const;

  // Why it was lost (kLost, kBroken; kClosed after a fork); nullopt while it is not lost.
  std::optional<Error> loss() const;

  // Gives the lock back and waits for the store's answer: for request_timeout at most, and never
  // much longer than the lease lasts.
  // Errors: kLost, kBroken: it had ended before, somebody else may have held the lock meanwhile.
  // kUnavailable, kOutcomeUnknown: the store was not told for sure; it frees the lock at the end of
  // the lease. In every case this object holds nothing any more. Repeating gives the same answer.
  Result<void> release();

  // Asks for a full lease now, besides the renewals in the background, and waits for the answer.
  // Errors: kLost, kBroken; kUnavailable, kOutcomeUnknown (held until the deadline as before).
  Result<void> renew();

  // Stops the renewals and lets go without releasing: the store keeps the lock until the lease
  // ends or somebody releases it by id(). release() answers kInvalidArgument from then on.
  void detach();

 private:
  friend struct detail::LeaseAccess;
  explicit Lease(std::shared_ptr<session::Acquisition> acquisition);

  std::shared_ptr<session::Acquisition> acquisition_;
};

}  // namespace holdfast
