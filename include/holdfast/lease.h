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
// keeps its guarantees (Client::guarantees()). From the local deadline on every call says lost,
// whatever arrives later. The deadline lies before the instant at which the store gives the lock
// to somebody else. It is counted on a clock that includes suspend and ignores wall-clock changes.
// Not guaranteed: that a process paused just after held() answered has stopped. Only the resource
// can refuse it: send token() along (docs/guide/fencing.md). Nor that lost() has fired already: it
// is a notification from another thread, and held() is exact.
//
// An upgraded lease (SharedMutex::upgrade()) is held only while the shared lease under it is held.
// Its deadline is the earlier one of the two.
//
// Thread-safety: const calls from any thread; release(), renew() and detach() one at a time.
// Ownership: shares the client's core; Client and Mutex objects may be destroyed first. The
// destructor queues the release and does not wait for it. Client::close() waits for queued
// releases; destroying the last object of a client does, too, for at most a second.
// Time: CLOCK_BOOTTIME; milliseconds; the time that is left is rounded down.
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

  // The token of this grant; never a newer holder's, also after the loss.
  Token token() const;

  // A text by which another process can renew or release this very lease (Client::adopt()).
  // Anybody who knows it can release the lock: keep it secret, like a key.
  std::string id() const;

  // Reads the clock: true before the deadline, unless released, lost, or the clocks disagree.
  bool held() const;
  LeaseState state() const;

  // The time for which the lease is certain without another renewal; zero when not held.
  std::chrono::milliseconds remaining() const;

  // The same as an instant of CLOCK_BOOTTIME.
  std::chrono::nanoseconds deadline_boottime() const;

  // Fires on the client's notifier thread when the lease is lost; never for a release. It fires at
  // the deadline, before anyone else can hold the lock, or earlier if the store reports the loss.
  // Not guaranteed: that the callback has run by then. A starved or paused machine runs it late,
  // and a callback that blocks delays those of other leases. held() is exact.
  std::stop_token lost() const;

  // Why it was lost (kLost, kBroken; kClosed after a fork); nullopt while it is not lost.
  std::optional<Error> loss() const;

  // Gives the lock back and waits for the store's answer: for request_timeout at most, and never
  // much longer than the lease lasts. Repeating gives the same answer.
  // Errors: kLost, kBroken: it had ended before, and somebody else may have held the lock since.
  // kUnavailable, kOutcomeUnknown: the store may not know of the release; it frees the lock at the
  // end of the lease. In every case this object holds nothing any more.
  Result<void> release();

  // Asks for a full lease now, besides the renewals in the background, and waits for the answer.
  // Errors: kLost, kBroken; kUnavailable, kOutcomeUnknown (still held, until the same deadline).
  Result<void> renew();

  // Stops the renewals and gives up the lease without releasing it. The store keeps the lock until
  // the lease ends or somebody releases it by id(). From then on release() is kInvalidArgument.
  void detach();

 private:
  friend struct detail::LeaseAccess;
  explicit Lease(std::shared_ptr<session::Acquisition> acquisition);

  std::shared_ptr<session::Acquisition> acquisition_;
};

}  // namespace holdfast
