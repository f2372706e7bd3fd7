// The driver of one client: executes what the step functions decide, on one store. This is its
// top, which its handles call; core_base.h names the layers below.
//
// There are three threads, each started when first needed. The loop has completions, pushes and
// deadlines, and never blocks; a caller that waits may run it (loop/lending.h). The renewal thread
// calls Store::renew(), which may block. The notifier runs callbacks of the user. A request that
// needs no waiting runs on the caller's own thread where the store can.
//
// Guarantee: a lease's deadline fires on the loop whatever the store and the user's callbacks do.
// In a forked child every call answers kClosed, and sends nothing.
// Thread-safety: all calls from any thread.
// Ownership: handles share the core. The last one closes it, waiting at most a second for queued
// releases (on a thread of its own when that happens inside a callback).
#pragma once

#include <map>

#include "src/port/registry.h"
#include "src/session/acquiring.h"
#include "src/session/administration.h"

namespace holdfast::session {

class WatchSampler;

class Core final : public Acquiring,
                   public port::Listener,
                   public std::enable_shared_from_this<Core> {
 public:
  static Result<std::shared_ptr<Core>> make(port::StoreFactory factory, port::StoreUrl url,
                                            CoreOptions options);
  ~Core() override;

  // Several locks in one step, at most port::kMostAtOnce; nullopt: not all were free. Never waits
  // for a holder. kUnsupported: the store cannot, nothing was done: ask for one after the other.
  struct Wanted {
    std::string name;
    holdfast::Mode mode;
  };
  using Multi = std::optional<std::vector<AcquisitionPtr>>;
  Result<Multi> try_acquire_all(const std::vector<Wanted>& locks, const AcquireOptions& options);
  void try_acquire_all(const std::vector<Wanted>& locks, const AcquireOptions& options,
                       Done<Multi> done);
  Result<AcquisitionPtr> adopt(std::string name, const holdfast::Mode& mode, port::AcquisitionId id,
                               AcquireOptions options);
  void adopt(std::string name, const holdfast::Mode& mode, port::AcquisitionId id,
             AcquireOptions options, Done<AcquisitionPtr> done);

  // Exclusive becomes shared; an upgrade is given back.
  Result<void> downgrade(const AcquisitionPtr& acquisition);
  void downgrade(const AcquisitionPtr& acquisition, Done<void> done);
  // Lets go of a lease without releasing it. The store keeps the lock for so long from now on, and
  // sets the value in the same step. If that fails, the lease is held and renewed as before, as
  // long as its time is not over. After kOutcomeUnknown release_later() leaves it to the store.
  // kLost, kBroken as set_value().
  void leave_to_store(const AcquisitionPtr& acquisition, std::chrono::milliseconds time,
                      std::optional<std::string> value, Done<void> done);
  // Waits for the store where the lease would end with this client (not on the library's own
  // threads). If that fails, it does.
  void detach(const AcquisitionPtr& acquisition);
  // The value beside a lock: at most 4 KiB, written by a holder. kLost, kBroken: nothing was sent
  // when this side knew.
  void set_value(const AcquisitionPtr& holder, std::string value, Done<void> done);

  // Something to be done later: `done` is called at `at`, or when it is woken; with kClosed when
  // the client is closed.
  struct Sleeper;
  using SleeperPtr = std::shared_ptr<Sleeper>;
  SleeperPtr sleep(BootInstant at, Done<void> done);
  void wake(const SleeperPtr& sleeper);

  // Looking at locks, breaking them, values: see there.
  Administration& administration() { return administration_; }

  // A second one waits for the first and answers the same.
  Result<void> close(std::chrono::nanoseconds limit);
  // On a thread of its own: close() waits.
  void close(std::chrono::nanoseconds limit, const Done<void>& done);

  void on_push(const port::Push& push) override;
  void on_pushes_missed() override;
  void on_pushes_begin() override;
  void on_alarm(const std::string& line) override;
  void on_watches_blind(const Error& why) override;

 private:
  friend class Administration;
  friend class WatchSampler;

  using Acquiring::Acquiring;
  static void dispose(Core* core);
  static void end(Core* core);
  std::shared_ptr<Core> self() override { return shared_from_this(); }
  void on_timer() override HOLDFAST_REQUIRES(mutex_);
  void on_due(const AcquisitionPtr& acquisition, BootInstant now) HOLDFAST_REQUIRES(mutex_);
  void take_along(BootInstant now) HOLDFAST_REQUIRES(mutex_);

  // core_multi.cc
  struct Taking;
  std::string names_of(const std::vector<AcquisitionPtr>& acquisitions) const;
  Result<void> prepare_all(const std::vector<Wanted>& locks, const AcquireOptions& options,
                           Taking& taking);
  void begin_all(Taking& taking);
  std::vector<port::AcquireRequest> requests_of(Taking& taking) const;
  void give_back_all(Taking& taking) HOLDFAST_EXCLUDES(mutex_);
  std::optional<Result<Multi>> on_no_answer(Taking& taking, const Error& error);
  std::optional<Result<Multi>> on_taken(Taking& taking, const Result<port::Store::Grants>& reply);
  Result<Multi> conclude(Taking& taking, Result<Multi> answer);
  void send_all(const std::shared_ptr<Taking>& taking);
  std::optional<Result<Multi>> take_all_here(Taking& taking);

  // core_adopt.cc
  struct Adoption;
  void try_to_adopt(const std::shared_ptr<Adoption>& adoption);
  void on_adopted(const std::shared_ptr<Adoption>& adoption, std::uint64_t seq,
                  const Result<AdoptReply>& reply);

  // core_lease.cc
  Result<void> check_held(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  Result<std::uint64_t> begin_to_leave(const AcquisitionPtr& acquisition, Duration time)
      HOLDFAST_EXCLUDES(mutex_);
  void end_leaving(const AcquisitionPtr& acquisition, const Result<bool>& kept)
      HOLDFAST_EXCLUDES(mutex_);
  Result<void> on_downgraded(const AcquisitionPtr& acquisition,
                             const Result<port::AcquisitionState>& reply);

  // core_sleep.cc
  void wake_sleepers(BootInstant now) HOLDFAST_REQUIRES(mutex_);
  void rouse(const SleeperPtr& sleeper, const Result<void>& why) HOLDFAST_REQUIRES(mutex_);

  // core_close.cc
  Result<void> close_now(BootInstant until);
  Result<void> await_close(BootInstant until);
  void end_all() HOLDFAST_EXCLUDES(mutex_);

  Administration administration_{*this};
  std::multimap<BootInstant, SleeperPtr> sleepers_ HOLDFAST_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<WatchSampler>> samplers_ HOLDFAST_GUARDED_BY(mutex_);
  std::optional<Result<void>> close_outcome_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::session
