// One acquisition on this side: from the request to the loss or release.
//
// Thread-safety: atomic members are read from anywhere. The news of a loss has a mutex of its own,
// so that a lease answers while the core is busy. The core's mutex guards the rest.
// Ownership: handles (leases, calls under way) hold the acquisition and, through `core`, the core;
// the core's tables hold acquisitions but never themselves.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/lease.h"
#include "holdfast/options.h"
#include "src/base/clock.h"
#include "src/base/due_heap.h"
#include "src/base/local_mutex.h"
#include "src/base/wait_word.h"
#include "src/port/store.h"
#include "src/session/fsm/acquire_fsm.h"
#include "src/session/fsm/renewal_fsm.h"
#include "src/session/queued_news.h"
#include "src/session/reports/observer_feed.h"

namespace holdfast::session {

class Core;
class Acquisition;
using Schedule = base::DueHeap<Acquisition>;

class Acquisition {
 public:
  Acquisition(std::string user_name, const holdfast::Mode& lock_mode, std::uint64_t process)
      : name(std::move(user_name)), mode(lock_mode), generation(process) {}

  const std::string name;                   // Without the namespace.
  const holdfast::Mode mode;                // As it was asked for.
  std::uint32_t due_place = base::kNotDue;  // In the schedule.
  const std::uint64_t generation;           // The creating process's: a forked child differs.

  // The shared lease that this one upgrades, which ends together with it: whoever asks about this
  // one asks about both. Set before the request.
  std::shared_ptr<Acquisition> base;
  std::shared_ptr<Core> core;  // While a handle needs it.

  // The answers of a lease, read without a lock.
  std::atomic<std::int64_t> deadline_ns{0};
  std::atomic<std::int64_t> wall_minus_boot_ns{0};  // At the send that was last confirmed.
  std::atomic<LeaseState> state{LeaseState::kReleased};
  std::atomic<bool> downgraded{false};  // Exclusive it was, shared it is.
  std::atomic<bool> has_loss{false};    // Set after `loss`, which never changes again.

  holdfast::Mode mode_now() const { return downgraded ? holdfast::Mode::shared() : mode; }

  // As it is asked for at the store.
  Duration lease_at_store() const { return ttl + lock_delay; }

  std::optional<Error> why_lost() const HOLDFAST_EXCLUDES(loss_mutex) {
    if (!has_loss) return std::nullopt;
    const base::LocalLock lock(loss_mutex);
    return *loss;
  }

  // The answer that release() repeats, from now on.
  void answer_release(const Result<void>& answer) {
    released = true;
    if (!answer) {
      rare_members().release_error = answer.error();
    } else if (rare) {
      rare->release_error.reset();
    }
  }
  Result<void> release_answer() const {
    return rare && rare->release_error ? Result<void>(*rare->release_error) : Result<void>();
  }

  // Guarded by the core's mutex.
  port::AcquisitionId id;
  std::uint64_t issue = 0;  // The id's; 0: another process made it.
  port::Token token;
  Duration ttl{};
  Duration lock_delay{};  // The store keeps the lease for so much longer than this side counts on.
  Duration asked_ttl{};   // Where a session is shorter, `ttl` is the session's.
  std::int64_t wall_minus_boot_at_send = 0;  // For the request that is under way.
  // People see these with its name; set where the caller said so.
  struct Labels {
    std::optional<Owner> owner;
    std::string trace_id;
  };
  std::unique_ptr<const Labels> labels;

  // Only the acquire needs this. It goes with the answer, because a program may hold 100,000 locks.
  struct Wait {
    std::optional<AcquireOptions> options;    // Until the answer.
    std::optional<BootInstant> asked_at;      // The uncontended try, which had no answer.
    std::uint64_t pushes_missed_at_send = 0;  // How often before the first request.
    std::shared_ptr<QueuedNews> queued_news;  // Once its caller was told something.
    bool told_queued = false;
    bool told_held_up = false;
    std::optional<BootInstant> told_opens_at;  // The end of the lock-delay that it was told of.
    bool granted = false;                      // The answer...
    std::unique_ptr<const Error> failure;      // ...may also be this.
    std::function<void(Result<std::shared_ptr<Acquisition>>)> done;      // Not set: a thread waits.
    std::unique_ptr<std::stop_callback<std::function<void()>>> on_stop;  // While it waits.
    // A waiting thread sleeps on this, without the core's mutex. Once it is finished, the rest
    // belongs to that thread.
    static constexpr std::uint32_t kFinished = 1;  // There is an answer.
    static constexpr std::uint32_t kReads = 2;     // The thread is to read the store's pushes.
    base::WaitWord word;
    std::thread::id thread;  // That asks for the lock.
  };
  std::shared_ptr<Wait> wait;           // Shared with the thread that wakes its waiter.
  std::unique_ptr<AcquireFsm> acquire;  // Until it has ended. Then `wait` is its caller's alone.

  std::optional<RenewalFsm> renewal;
  std::unique_ptr<ObservedSpan> span;  // Where there is an observer.
  struct RenewWait {
    std::uint64_t replies = 0;  // It is answered by then.
    std::function<void(Result<void>)> done;
  };
  // Few leases need these.
  struct RareMembers {
    std::weak_ptr<Acquisition> upgrade;  // The lease whose base this is.
    std::vector<RenewWait> renew_waits;
    BootInstant let_go_at = BootInstant::min();  // A release may not take effect before that.
    std::optional<Error> release_error;          // The answer of release(), if it failed.
  };
  std::unique_ptr<RareMembers> rare;
  RareMembers& rare_members() {
    if (!rare) rare = std::make_unique<RareMembers>();
    return *rare;
  }
  std::shared_ptr<Acquisition> upgrade() const { return rare ? rare->upgrade.lock() : nullptr; }

  bool released = false;         // release() has an answer.
  bool releasing = false;        // A release without a handle is under way.
  bool queued = false;           // It has waited for its turn: others may do so now.
  bool outlives_client = false;  // Its lease needs no client, once it is granted.
  bool being_left = false;       // To the store: close() passes over it.
  bool perhaps_left = false;     // It may have been: only its owner's release() ends it.

  // The news of the loss. One mutex guards those of all leases: it is needed seldom, and one in
  // each would be a tenth of a held lock's memory.
  static inline base::LocalMutex loss_mutex;
  std::unique_ptr<const Error> loss HOLDFAST_GUARDED_BY(loss_mutex);
  std::stop_source lost_source HOLDFAST_GUARDED_BY(loss_mutex){std::nostopstate};
};

}  // namespace holdfast::session
