// From a request to a lease: on the caller's thread where that needs no waiting, else by the loop.
//
// Guarantee: every call is answered once; with kClosed in a forked child and after close(). An
// acquisition that fails leaves nothing in the store, or is being taken back.
// Thread-safety: all public calls from any thread.
// Source of the decisions: AcquireFsm, which is pure; this layer executes them.
#pragma once

#include <list>
#include <unordered_map>

#include "holdfast/mode.h"
#include "src/session/names.h"
#include "src/session/releasing.h"

namespace holdfast::session {

class DeadlockWatch;

class Acquiring : public Releasing {
 public:
  // nullptr: busy, and it was not to wait. The acquisition is held otherwise.
  Result<AcquisitionPtr> acquire(std::string name, const holdfast::Mode& mode,
                                 AcquireOptions options, bool may_wait);
  // For cancel(); nullptr: it has its answer.
  AcquisitionPtr acquire(std::string name, const holdfast::Mode& mode, AcquireOptions options,
                         bool may_wait, Done<AcquisitionPtr> done);
  // Exclusively, waiting; of a primitive.
  AcquisitionPtr acquire(const InnerName& name, AcquireOptions options, Done<AcquisitionPtr> done);
  // An exclusive lease beside the shared one, for as long as both last. Without a ttl in the
  // options it has that of the shared one.
  Result<AcquisitionPtr> upgrade(const AcquisitionPtr& reader, AcquireOptions options,
                                 bool may_wait);
  AcquisitionPtr upgrade(const AcquisitionPtr& reader, AcquireOptions options, bool may_wait,
                         Done<AcquisitionPtr> done);
  // The wait ends with kCancelled, unless it has ended already.
  void cancel(const AcquisitionPtr& acquisition);
  // For a request with these options.
  std::chrono::milliseconds ttl_of(const std::string& name, const AcquireOptions& options) const;

 protected:
  using Releasing::Releasing;

  // --- A contender, before anything is sent.
  const NameDefaults* defaults_of(const std::string& name) const;
  Result<void> check_names() const;  // ClientOptions::names
  Result<AcquisitionPtr> make_acquisition(std::string name, const holdfast::Mode& mode,
                                          AcquireOptions options);
  Result<AcquisitionPtr> prepare(std::string name, const holdfast::Mode& mode,
                                 AcquireOptions options);
  void begin_anew(Acquisition& acquisition);
  port::AcquireRequest request_for(const Acquisition& acquisition, bool may_wait) const;
  AcquireFsm::Terms terms_for(const Acquisition& acquisition, bool may_wait) const;

  // --- Its wait, and its answer.
  void execute(const AcquisitionPtr& acquisition, const AcquireFsm::Action& action)
      HOLDFAST_REQUIRES(mutex_);
  void on_heartbeat_reply(const AcquisitionPtr& acquisition, BootInstant now,
                          const Result<port::AcquisitionState>& reply) final
      HOLDFAST_REQUIRES(mutex_);
  // False: close() has passed over the leases already, and this one ends here, too.
  bool outlives_close(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  Result<AcquisitionPtr> settle(const AcquisitionPtr& acquisition, Result<AcquisitionPtr> answer);
  void leave_push_reader() HOLDFAST_REQUIRES(mutex_);

  struct IdHash {
    std::size_t operator()(const port::AcquisitionId& id) const { return id.low; }
  };
  std::unordered_map<port::AcquisitionId, AcquisitionPtr, IdHash> waiting_
      HOLDFAST_GUARDED_BY(mutex_);
  std::shared_ptr<DeadlockWatch> deadlocks_ HOLDFAST_GUARDED_BY(mutex_);  // Once a wait is named.

 private:
  friend class DeadlockWatch;

  Result<AcquisitionPtr> prepare_checked(std::string name, const holdfast::Mode& mode,
                                         AcquireOptions options);
  Result<AcquisitionPtr> prepare_upgrade(const AcquisitionPtr& reader, AcquireOptions options);
  Result<AcquisitionPtr> take(Result<AcquisitionPtr> made, bool may_wait);
  AcquisitionPtr take(Result<AcquisitionPtr> made, bool may_wait, Done<AcquisitionPtr> done);

  std::optional<Result<AcquisitionPtr>> try_without_queueing(const AcquisitionPtr& acquisition,
                                                             bool may_wait);
  Result<AcquisitionPtr> acquire_waiting(const AcquisitionPtr& acquisition, bool may_wait);
  void start_here(const AcquisitionPtr& acquisition);
  void start_waiting(const AcquisitionPtr& acquisition, bool may_wait) HOLDFAST_REQUIRES(mutex_);
  bool fail_if_closed(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  void heed_stop(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  void heed_deadlocks(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  void send_acquire(const AcquisitionPtr& acquisition, port::AcquireRequest request)
      HOLDFAST_REQUIRES(mutex_);
  void send_cancel(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  void tell_queued(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  void tell_delayed(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  void tell_held_up(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  void tell_waiter(Wait& wait, std::function<void()> callback) HOLDFAST_REQUIRES(mutex_);
  void finish(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  void conclude(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);

  static Result<AcquisitionPtr> answer_of(const AcquisitionPtr& acquisition);
  Result<AcquisitionPtr> await_answer(const AcquisitionPtr& acquisition);
  void listen_for(Wait& wait) HOLDFAST_REQUIRES(mutex_);
  void need_not_listen(Wait& wait) HOLDFAST_REQUIRES(mutex_);
  void stop_listening() HOLDFAST_EXCLUDES(mutex_);

  std::size_t asynchronous_waits_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  // Queued, and a thread waits for each. The first one listens.
  std::list<Wait*> at_push_reader_ HOLDFAST_GUARDED_BY(mutex_);
  bool push_reader_is_left_ HOLDFAST_GUARDED_BY(mutex_) = false;
};

}  // namespace holdfast::session
