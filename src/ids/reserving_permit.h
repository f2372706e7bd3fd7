// A worker's time, reserved ahead: what the permits of a host's file and of a store share.
//
// Guarantee: the bound is raised only after write() has succeeded, and never beyond the wall clock
// plus twice the step, or the last id plus the small step, whichever is later: a crash loop does
// not run away from the clock. A wall clock that has jumped forward counts only as far as the
// generator believes it. Only close() lowers the bound.
//
// Not guaranteed: that the bound is where write() left it; the derived permit sees to that.
//
// Thread-safety: as WorkerPermit. The virtual calls come one at a time, with the mutex held.
// Ownership: a derived permit calls stop() in its destructor. Blocking: as write().
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>

#include "holdfast/ids/layout.h"
#include "holdfast/ids/snowflake.h"
#include "holdfast/result.h"
#include "src/base/local_mutex.h"

namespace holdfast::ids {

struct ReservePlan {
  std::chrono::milliseconds step{};   // Between one and two of them are reserved ahead.
  std::chrono::milliseconds small{};  // Above the last id, where that is ahead of the clock.
  std::chrono::milliseconds forward_at_most{};
  IdClock* clock = nullptr;  // nullptr: the machine's.
};

class ReservingPermit : public WorkerPermit {
 public:
  // All that is kept of a worker. `rounds`: only with a policy of rounds.
  struct Bounds {
    std::int64_t reserved_until = 0;
    std::optional<Rounds> rounds{};
  };

  ReservingPermit(Layout layout, const ReservePlan& plan, Bounds bounds);
  ReservingPermit(const ReservingPermit&) = delete;
  ReservingPermit& operator=(const ReservingPermit&) = delete;

  // A thread reserves ahead while ids are taken, so that next() rarely waits.
  void start();
  // The thread does this each time.
  void look_ahead() HOLDFAST_EXCLUDES(mutex_);

  // The bound that a new holder writes at this unit.
  static std::int64_t bound_at(const Layout& layout, const ReservePlan& plan, std::int64_t unit);

  Result<void> ended(std::int64_t unit) override HOLDFAST_EXCLUDES(mutex_);
  Result<void> keep_rounds(const Rounds& rounds) override HOLDFAST_EXCLUDES(mutex_);
  void close(std::int64_t last_unit) override HOLDFAST_EXCLUDES(mutex_);

 protected:
  virtual Result<void> write(const Bounds& next) HOLDFAST_REQUIRES(mutex_) = 0;
  // Whether the worker is still this permit's; it may move deadline_ns.
  virtual Result<void> look_at_lease() HOLDFAST_REQUIRES(mutex_) { return {}; }
  // The last call.
  virtual void let_go() HOLDFAST_REQUIRES(mutex_) {}

  void stop() HOLDFAST_EXCLUDES(mutex_);

  base::LocalMutex mutex_;

 private:
  Result<void> raise(std::int64_t unit) HOLDFAST_REQUIRES(mutex_);
  Result<void> keep(Bounds next) HOLDFAST_REQUIRES(mutex_);
  void work() HOLDFAST_EXCLUDES(mutex_);

  const Layout layout_;
  const ReservePlan plan_;
  base::LocalCondition changed_;
  Bounds bounds_ HOLDFAST_GUARDED_BY(mutex_);
  std::int64_t seen_ HOLDFAST_GUARDED_BY(mutex_) = -1;
  bool stopping_ HOLDFAST_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace holdfast::ids
