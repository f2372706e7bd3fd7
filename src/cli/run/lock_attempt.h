// Asks for a lock on a thread of its own, so that signals are handled during the wait.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "holdfast/client.h"
#include "src/cli/exit_codes.h"
#include "src/cli/options/config.h"
#include "src/cli/options/options.h"
#include "src/cli/process/boottime.h"
#include "src/cli/process/fd.h"
#include "src/cli/process/signals.h"
#include "src/cli/run/narrator.h"

namespace holdfast::cli {

// An eventfd that other threads raise.
class Bell {
 public:
  Bell();
  int fd() const { return fd_.get(); }
  void ring() const;
  void quiet() const;

 private:
  Fd fd_;
};

struct LockRequest {
  LockOptions lock;  // The holder enforces `max_hold`.
  StoreChoice store;
  // Called once the store is known. It refuses, or sets what depends on the store's leases. May be
  // empty.
  std::function<Result<void>(const Guarantees& promised, AcquireOptions& how)> fit{};
  bool auto_renew = true;
  bool reenter = false;      // The lease of an outer run that holds the lock is enough.
  bool outlives_us = false;  // The lock must stay even if this program is killed.
  std::string program;
  std::optional<std::string> proclaim;  // To lead in an election, with this value.
  int exit_error = kExitError;
};

// Exactly one of the first four is set.
struct AttemptOutcome {
  std::optional<Lease> lease;
  std::optional<HolderInfo> around;  // LockRequest::reenter: it holds the lock.
  std::optional<Error> error;
  int signal = 0;
  // In words, that the wait was over first, and the lock-delay that keeps the lock closed.
  std::string in_vain;
  Json closed = Json::object();  // For an event: the lock-delay, and who held the lock last.
};

class LockAttempt {
 public:
  LockAttempt(const Signals& signals, const Narrator& narrator, LockRequest request);

  // Connects, looks for a run around this one that holds the lock, and waits for the lock as the
  // request says. It also waits for a store that is unavailable, unless that is on this host, and
  // tells people why, once. A signal leaves the queue first. `guard_fd`, if given, ends the wait
  // when it becomes readable (kClosed; kUnavailable: the guard could not be started).
  AttemptOutcome take(int guard_fd = -1);

  // After take(): not empty unless connecting failed.
  std::optional<Client>& client() { return shared_->client; }

  // Flushes what is queued; short, and silent: the lease frees the lock anyway.
  static constexpr Duration kFlush = std::chrono::seconds(2);
  void close(Duration limit = kFlush);
  // After a release without an answer the library goes on trying, which serves a store that comes
  // back before the lease ends.
  static Duration flush_time(Nanos deadline);

 private:
  struct Shared {
    std::optional<Client> client;
    std::optional<Result<Lease>> result;
    std::optional<HolderInfo> around;  // Then the result is an error of no account.
    std::atomic<bool> queued{false};
    std::atomic<std::uint32_t> ahead{0};
    std::atomic<std::int64_t> opens_at_ms{0};  // The end of a lock-delay, on the steady clock.
    std::optional<LockInfo> closed;            // By a lock-delay alone, after a try without a wait.
    std::mutex mutex;
    std::optional<std::string> held_up;  // Why the store could not be asked at first.
    bool asked = false;                  // For the lock: that has to be taken back.
    Bell bell;
    std::atomic<bool> done{false};
  };

  // Opens the store and asks for the lock, and does both again while the store is unavailable and
  // the wait lasts.
  Result<Lease> ask(const std::shared_ptr<Shared>& shared, std::stop_token cancel) const;
  Result<void> open(const std::shared_ptr<Shared>& shared) const;
  Result<Lease> ask_once(const std::shared_ptr<Shared>& shared, std::stop_token cancel) const;
  AcquireOptions options_of(const std::shared_ptr<Shared>& shared, std::stop_token cancel) const;
  bool waits_for_store() const;
  Duration passed() const {
    return std::chrono::floor<Duration>(std::chrono::steady_clock::now() - begun_);
  }
  static void hold_up(Shared& shared, std::string why);
  // False: cancelled, and nothing was asked for.
  static bool begin_to_ask(Shared& shared, const std::stop_token& cancel);
  // ask(), in a thread of its own: nothing gets out of it but the result.
  void ask_aside(const std::shared_ptr<Shared>& shared, std::stop_token cancel) const;
  // The outcome if something ends the wait from outside; nullopt: nothing yet.
  std::optional<AttemptOutcome> look_around(int guard_fd);
  bool has_asked() const;
  void tell_waiting();
  void tell_held_up();
  Duration opens_in() const;
  std::string still_closed() const;
  std::string in_vain() const;
  // False: the asking thread has not ended in time.
  bool leave();
  // The store did not confirm that the request was taken back.
  void warn_unconfirmed(const Error& why) const;
  AttemptOutcome outcome(std::optional<AttemptOutcome> stopped);

  const Signals& signals_;
  const Narrator& narrator_;
  LockRequest request_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::shared_ptr<Shared> shared_;
  bool unanswered_ = false;  // The store had its time, and did not use it.
  bool told_waiting_ = false;
  bool told_held_up_ = false;
  std::int64_t told_opens_at_ms_ = 0;
};

// Releases the lease. kLost and kBroken: it was no longer ours. A lease that ends while the store
// does not answer was ours until then, and gives kUnavailable. Not guaranteed: that the store had
// not ended it before, if it reports this only after the lease's end.
Result<void> release_lease(Lease& lease);

// "alice@web1 (pid 12, since 10:02:11, nightly)", of the first holders; empty: none.
std::string describe_holders(const LockInfo& info);

// A lease in doubt counts, too: the wall clock may have been set. The question has the store asked,
// and meanwhile the deadline on the boot clock holds.
inline bool may_be_held(const Lease& lease) {
  const LeaseState state = lease.state();
  return state == LeaseState::kHeld || state == LeaseState::kInDoubt;
}

}  // namespace holdfast::cli
