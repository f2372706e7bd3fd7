// Idempotence: of all callers with the same key the first one runs, the others get what came of it.
//
//   State              begin()
//   nobody has run     first: it runs, and calls complete()
//   the first runs     waits for the outcome
//   completed          the outcome, until the retention time is over; then anew
//   the first died,    the next caller is first
//   or gave up
//
// Example (examples/primitives.cc#once):
//   holdfast::Once payment = client.once("payment/" + request, 24h);
//   const auto pay = [&](Lease& lease) { return charge(request, lease.token()); };
//   auto receipt = payment.run(pay, {.wait = 10s});  // `pay` runs for the first caller only
//   if (!receipt) return receipt.error();
//   std::printf("%s\n", receipt->c_str());  // the same text for all callers
//
// Guarantee: at most one caller is first at a time (Lease), and none within the retention time of
// a stored outcome. Callers that come while the first one runs get its outcome. One step stores the
// outcome and its retention time: an outcome given to one caller is given to all for that time,
// even if the first caller dies. Until that step its turn ends with its lease. Not guaranteed: that
// the work is done only once. If a caller dies between its work and complete(), another one
// follows, which cannot know how far the work got. Where that matters do the work and mark it as
// done in one transaction, with the token as its fence. Also not guaranteed: that an outcome
// outlives the loss of the store's data.
//
// Thread-safety: as Mutex's; OnceTurn as Lease. Ownership: shares the client's core.
// Time: the retention is at most 24 h, the longest lease. It counts from complete(). A waiter
// learns of the outcome at once where the store reports it, and within a second at the latest.
// Fairness: none among those who wait for the first caller to give up.
// Errors: as Mutex's; kInvalidArgument: an outcome of more than 3072 bytes, a retention time that
// is no lease, or a name in use for something else; kUnsupported (Guarantees::values).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "holdfast/export.h"
#include "holdfast/lease.h"
#include "holdfast/options.h"
#include "holdfast/result.h"

namespace holdfast {

namespace detail {
struct Async;
struct OnceMaker;
}  // namespace detail

// The result of begin(): the outcome, or the turn to run. The destructor of a turn that was not
// completed gives it up without waiting; the next caller is first then. If complete() ended with
// kOutcomeUnknown, the destructor leaves the turn to the store, because others may have the outcome
// by then. The next caller is first after the lease, unless the outcome was stored.
class HOLDFAST_EXPORT OnceTurn {
 public:
  OnceTurn(OnceTurn&&) noexcept = default;
  OnceTurn& operator=(OnceTurn&&) noexcept = default;
  ~OnceTurn() = default;

  bool first() const { return lease_.has_value(); }
  // The first caller's outcome; only where this is not the first caller's turn.
  const std::string& outcome() const { return outcome_; }
  // The first caller's lease: its token fences the work, lost() tells when another one may run.
  Lease& lease() { return *lease_; }

  // Stores the outcome for all others. Errors: kLost: it was completed before, or another caller
  // may have run meanwhile; nothing was changed. kUnavailable: nothing was stored. kOutcomeUnknown:
  // it may or may not be stored. After the last two the turn continues: call complete() again with
  // the same outcome.
  Result<void> complete(std::string outcome);

 private:
  friend struct detail::Async;
  friend struct detail::OnceMaker;
  OnceTurn(Lease lease, std::chrono::milliseconds retention)
      : lease_(std::move(lease)), retention_(retention) {}
  explicit OnceTurn(std::string outcome) : outcome_(std::move(outcome)) {}

  std::optional<Lease> lease_;
  std::string outcome_;
  std::chrono::milliseconds retention_{};
};

class HOLDFAST_EXPORT Once {
 public:
  Once(const Once&) = default;
  Once& operator=(const Once&) = default;
  ~Once() = default;

  const std::string& key() const;

  // Waits while the first caller runs.
  Result<OnceTurn> begin(AcquireOptions options = {});

  // The outcome that the first caller stored. nullopt: none is stored within the retention time;
  // one may be running. Takes no turn and never waits for another caller. The answer may be
  // outdated when it is read. Errors: as Client::inspect(); kInvalidArgument: the name is in use
  // for something else.
  Result<std::optional<std::string>> outcome() const;

  // The first caller runs `work(lease)`, a Result<std::string>, and stores its outcome; all others
  // get that outcome. An error of `work` is stored for nobody: the next caller is first. An error
  // of complete() comes after `work` has run.
  template <typename Work>
  Result<std::string> run(Work&& work, AcquireOptions options = {}) {
    Result<OnceTurn> turn = begin(std::move(options));
    if (!turn) return std::move(turn).error();
    if (!turn->first()) return turn->outcome();
    Result<std::string> outcome = std::forward<Work>(work)(turn->lease());
    if (!outcome) return outcome;
    if (auto stored = turn->complete(*outcome); !stored) return std::move(stored).error();
    return outcome;
  }

 private:
  friend class Client;
  friend struct detail::Async;
  struct State;
  explicit Once(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace holdfast
