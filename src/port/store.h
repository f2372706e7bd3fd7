// The store port: all that the layers above ask of a store.
//
// Every operation takes a request with its deadline and completes exactly once with a Result. It
// completes by a task posted to the loop that the store was made with, never inline and never after
// close(). (The kUnsupported of keep(), watch() and try_acquire_all() is answered inline.)
// Guarantee a store must give: kUnavailable only when the request was surely not applied and cannot
// be any more; otherwise kOutcomeUnknown. Requests of one client about one acquisition take effect
// in the order in which they were made, or a late one is refused.
//
// Thread-safety: operations may be called from any thread, renew() from the renewal thread only.
// Blocking: no operation blocks its caller, but renew() and the *_inline() calls, which end by
// their deadline.
// Ownership: the loop and the listener outlive the store.
// Errors: as holdfast/errc.h says; the message names store, lock and advice, never credentials.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/guarantees.h"
#include "holdfast/lock_info.h"
#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/machine/types.h"

namespace holdfast::port {

using machine::AcquisitionId;
using machine::Duration;
using machine::Mode;
using machine::OwnerPtr;
using machine::Token;

using Task = std::function<void()>;

// Where completions and pushes are delivered: one thread at a time.
class Loop {
 public:
  virtual ~Loop() = default;
  virtual void post(Task task) = 0;
  // From now on it is always the loop's own thread.
  virtual void keep() {}
};

template <typename T>
using Done = std::function<void(Result<T>)>;

enum class AcquisitionStatus : std::uint8_t {
  kHeld,
  kWaiting,
  kBusy,  // Held elsewhere; the request would not wait, and left nothing behind.
  kGone,  // No such ticket: it ended, or never was.
};

// Where an acquisition stands. The holder's deadline is counted from the client's send of the
// request numbered `seq`, over `lease`.
struct AcquisitionState {
  AcquisitionStatus status{};
  Token token{};
  std::uint64_t seq = 0;
  Duration lease{};
  std::uint32_t ahead = 0;                // kWaiting: waiters ahead (a hint).
  std::optional<Duration> next_expiry{};  // kWaiting, kBusy: until a holder's lease ends.
  // kWaiting: nobody counts on the lock any more, and lock-delays keep it closed for so long. A
  // store that does not know it leaves it out.
  std::optional<Duration> opens_in{};
  // kHeld: from then on, after the request, a renewal can grant more. Not set: at any time.
  std::optional<Duration> more_in{};
};

struct AcquireRequest {
  std::string name;
  AcquisitionId id;
  // Grows with every fresh acquisition id of a client, in the order in which the store gets the
  // requests. So a store knows a late duplicate without a tombstone for each id. It may refuse
  // (kGone) an acquire whose number is not above the client's highest for the lock, unless the
  // ticket is there. 0: unknown (an adopted lease).
  std::uint64_t issue = 0;
  Mode mode;
  bool may_wait = true;
  Duration ttl{};
  Duration waiter_ttl{};
  std::uint32_t max_waiters = 0;
  AcquisitionId upgrade_of{};
  OwnerPtr owner;
  base::BootInstant deadline{};  // The caller waits for the reply until then.
  // From the grant on the lease needs no client, and others can take it over. A choice only where
  // guarantees().bound_to_client is set.
  bool outlives_client = false;
};

// A waiter's heartbeat or a holder's renewal.
struct RenewItem {
  std::string name;
  AcquisitionId id;
  std::uint64_t seq = 0;
  Duration ttl{};
  Duration waiter_ttl{};
  Token token{};        // The grant's; zero while waiting.
  bool adopts = false;  // Another client may have acquired it: the store has to look for it.
};

struct AcquisitionRequest {  // release, cancel, downgrade
  std::string name;
  AcquisitionId id;
  base::BootInstant deadline{};
  std::uint64_t issue = 0;  // As in AcquireRequest: of the acquisition.
  // A performance hint: others wait, and should be woken before this answer.
  bool others_wait = false;
};

enum class EndStatus : std::uint8_t {
  kReleased,   // It held until now.
  kCancelled,  // It waited until now.
  kGone,       // It had ended before (or never was, and never will be granted).
};

// So many locks are asked for or given back in one step at most: each step runs while all other
// clients wait.
inline constexpr std::size_t kMostAtOnce = 64;

// The last request of a holder that lets go without a release: see machine::Keep.
struct KeepRequest {
  std::string name;
  AcquisitionId id;
  std::uint64_t seq = 0;  // Above those of all requests for the ticket before.
  Duration ttl{};
  std::optional<std::string> value;
  base::BootInstant deadline{};
};

struct BreakRequest {
  std::string name;
  Token token;
  OwnerPtr by;
  base::BootInstant deadline{};
};

// Notifications that a store sends without being asked.
struct Push {
  enum class Kind : std::uint8_t {
    kGranted,  // `state` is the grant, as of a committed write.
    kHint,     // Something may have changed for this ticket: a heartbeat tells what.
    kDelayed,  // A waiter: `state.opens_in` is set.
  };
  Kind kind{};
  AcquisitionId id;
  AcquisitionState state{};
};

// Called on the loop; on_push() also where a thread listens at the store's push reader.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void on_push(const Push& push) = 0;
  // Pushes may have been lost: whoever waits or holds should ask.
  virtual void on_pushes_missed() {}
  // Pushes arrive from now on: whoever holds by a request from before should ask. (A store lets
  // nobody wait before.)
  virtual void on_pushes_begin() {}
  // A line for the operator's log, with the store's name.
  virtual void on_alarm(const std::string& line) { static_cast<void>(line); }
  // The watches tell nothing any more, and waiting does not mend that.
  virtual void on_watches_blind(const Error& why) { static_cast<void>(why); }
};

// Lets a thread that waits for a push read the pushes of a store itself, so that no other thread
// has to wake it. This affects speed only. A thread that listens and does not run delays the pushes
// of this client and nothing else; its heartbeats make up for that.
//
// Thread-safety: one thread listens at a time, and until rest() is called there should be one.
class PushReader {
 public:
  virtual ~PushReader() = default;
  // Waits, tells the listener what has come, and returns; also soon after a nudge(), and at times
  // without a reason.
  virtual void listen() = 0;
  // Nobody listens for now: pushes go by the loop again.
  virtual void rest() = 0;
  // Ends the listen() that runs, or else the next one. From any thread.
  virtual void nudge() noexcept = 0;
};

struct WatchHandle {  // Ends the watch when it goes.
  std::shared_ptr<void> impl;
};
using EventSink = std::function<void(const LockEvent&)>;  // Called on the loop.

class Store {
 public:
  virtual ~Store() = default;

  virtual Guarantees guarantees() const = 0;

  virtual void acquire(AcquireRequest request, Done<AcquisitionState> done) = 0;
  // One result per item, in their order; the failure of one does not stop the others. A holder
  // that an operator ended is told kBroken where the store has kept the trace, kGone otherwise.
  virtual void renew(std::vector<RenewItem> items, base::BootInstant deadline,
                     Done<std::vector<Result<AcquisitionState>>> done) = 0;
  // The renew() that blocks, if any, ends at once, as at its deadline: what is due behind it cannot
  // wait. From any thread; does not block. For stores that could answer the next one nevertheless.
  virtual void give_up_renewal() noexcept {}
  // A call of renew() has names of one group only. So where a store is made of parts that fail one
  // by one, no renewal waits for another part's answer. Such a store does not block in renew(), and
  // ends by itself what hangs. Pure, from any thread.
  virtual std::uint32_t renewal_group(std::string_view /*name*/) const { return 0; }
  virtual void release(AcquisitionRequest request, Done<EndStatus> done) = 0;
  virtual void cancel(AcquisitionRequest request, Done<EndStatus> done) = 0;
  virtual void downgrade(AcquisitionRequest request, Done<AcquisitionState> done) = 0;
  virtual void inspect(std::string name, base::BootInstant deadline,
                       Done<std::optional<LockInfo>> done) = 0;
  // Locks that cannot be read are missing, and so are those of a part of the store that does not
  // answer while others do: on_alarm() names them.
  virtual void list(std::string prefix, std::size_t limit, base::BootInstant deadline,
                    Done<std::vector<LockInfo>> done) = 0;
  // kLost: no holder has that token.
  virtual void break_lock(BreakRequest request, Done<bool> done) = 0;
  // Tells `sink` every change of the locks whose names begin with `prefix`, in order, from a moment
  // before `done` on, until the handle goes. Where some could not be told, because the connection
  // was lost, it tells kMissed. A part of the store that does not answer while others do is an
  // alarm; when it answers, kMissed comes first. A store without
  // guarantees().watch_every_change answers kUnsupported at once, on the caller's thread: then
  // list() is sampled.
  virtual void watch(std::string prefix, EventSink sink, base::BootInstant deadline,
                     Done<WatchHandle> done);
  virtual void probe(base::BootInstant deadline, Done<std::vector<Finding>> done) = 0;
  // A value beside the lock, set by a holder only. Errors: kLost (not the holder).
  virtual void set_value(AcquisitionRequest holder, std::string value, Done<bool> done) = 0;
  // The holder's lease ends `ttl` from now, sooner or later than it would, and in the same step the
  // value is set. Errors: kLost (not the holder, or a late request). kUnsupported where
  // guarantees().ends_with_client is set: nothing was sent; answered at once, on the caller's
  // thread.
  virtual void keep(KeepRequest request, Done<bool> done);
  virtual void get_value(std::string name, base::BootInstant deadline, Done<std::string> done) = 0;
  // Calls `changed` on the loop when that value may have been set. Where the store can tell, it
  // also does so when a holder has gone. The calls end with the handle, perhaps after one more. A
  // hint: some are missed, and some tell of nothing, so whoever wants to know reads again after a
  // while all the same. An empty handle: this store tells nothing.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): stores that can tell keep both.
  virtual WatchHandle watch_value(std::string /*name*/, Task /*changed*/) { return {}; }
  // Changes N of a permits lock. true: done, as always when N grows. false: the smaller N waits for
  // its turn in the queue under `id`; cancel() withdraws it. kLost: the lock is not in use.
  virtual void resize(AcquisitionRequest request, std::uint32_t capacity, Done<bool> done) = 0;

  // Acquires all of these locks or none, in one step. Never waits for a holder, and leaves no
  // ticket unless all of them hold. Idempotent by the ids, like acquire(). nullopt: one lock was
  // not free, or its acquisition has ended; nothing was acquired. Ignores `may_wait`, and uses the
  // first request's deadline for all.
  // Errors: kInvalidArgument (none, more than kMostAtOnce, a name twice, an upgrade), otherwise
  // acquire()'s error for the first lock that cannot be had. Nothing was acquired then.
  // kUnsupported: nothing was sent. A store without guarantees().multi answers so at once, on the
  // caller's thread.
  using Grants = std::optional<std::vector<AcquisitionState>>;
  virtual void try_acquire_all(std::vector<AcquireRequest> requests, Done<Grants> done);
  // As release(), one result each, in their order; in one step where the store can. A failure of
  // all is told as the result; at most kMostAtOnce.
  virtual void release_all(std::vector<AcquisitionRequest> requests,
                           Done<std::vector<Result<EndStatus>>> done);

  // acquire(), and after it a read of the value beside another lock. The value is of a moment when
  // the server had made the acquisition, so it shows whether the server still has what it had
  // before. Read only if the state is kHeld or kWaiting. kOutcomeUnknown: perhaps acquired, and the
  // read failed.
  struct StateAndValue {
    AcquisitionState state;
    std::string value;
  };
  virtual void acquire_and_read(AcquireRequest request, std::string beside,
                                Done<StateAndValue> done);

  // The same on the calling thread, if the store need not wait for another thread. nullopt: it
  // cannot now, and nothing was done; use the operation above.
  virtual std::optional<Result<AcquisitionState>> acquire_inline(const AcquireRequest&) {
    return std::nullopt;
  }
  virtual std::optional<Result<EndStatus>> release_inline(const AcquisitionRequest&) {
    return std::nullopt;
  }
  virtual std::optional<Result<StateAndValue>> acquire_and_read_inline(
      const AcquireRequest&, const std::string& /*beside*/) {
    return std::nullopt;
  }

  virtual std::optional<Result<Grants>> try_acquire_all_inline(const std::vector<AcquireRequest>&) {
    return std::nullopt;
  }
  virtual std::optional<Result<std::vector<Result<EndStatus>>>> release_all_inline(
      const std::vector<AcquisitionRequest>&) {
    return std::nullopt;
  }

  // Whether the *_inline() calls never wait for a disk, a process or a network. Then a thread that
  // must not block can use them, so asynchronous calls do.
  virtual bool answers_at_once() const { return false; }

  // nullptr: pushes are told on the loop only. Lives as long as the store.
  virtual PushReader* push_reader() { return nullptr; }

  // Ends every operation under way (kClosed) and stops the store's threads. The deadline bounds the
  // flush of releases that were queued before. Called once, from a thread that is not the loop.
  virtual void close(base::BootInstant deadline) = 0;

  // After fork() in the child: let go of everything without touching the parent's resources.
  virtual void abandon_after_fork() noexcept = 0;
};

}  // namespace holdfast::port
