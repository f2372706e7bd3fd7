// A lease while it lasts. Its deadline fires on the loop, and renewals leave in batches on a thread
// of their own. Its holder is told of a loss.
//
// Guarantee: a lease's deadline fires on the loop whatever the store and the user's callbacks do.
// Thread-safety: all public calls from any thread.
// Source of the decisions: RenewalFsm, which is pure; this layer executes them.
#pragma once

#include "src/session/core_base.h"

namespace holdfast::session {

class Renewing : public CoreBase {
 public:
  Result<void> renew(const AcquisitionPtr& acquisition);
  void renew(const AcquisitionPtr& acquisition, Done<void> done);
  // The wall clock disagrees with boot time: renew now.
  void doubt(const AcquisitionPtr& acquisition);
  static std::stop_token lost_token(Acquisition& acquisition);

 protected:
  using CoreBase::CoreBase;

  // The answer to a waiter's heartbeat, which goes with the renewals.
  virtual void on_heartbeat_reply(const AcquisitionPtr& acquisition, BootInstant now,
                                  const Result<port::AcquisitionState>& reply)
      HOLDFAST_REQUIRES(mutex_) = 0;

  void start_lease(const AcquisitionPtr& acquisition, const port::AcquisitionState& state,
                   const SendLog& log) HOLDFAST_REQUIRES(mutex_);
  void apply(const AcquisitionPtr& acquisition, const RenewalFsm::Action& action)
      HOLDFAST_REQUIRES(mutex_);
  void publish(Acquisition& acquisition) HOLDFAST_REQUIRES(mutex_);
  void lose(const AcquisitionPtr& acquisition, const Error& why) HOLDFAST_REQUIRES(mutex_);
  void look_at_deadline(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  void look_at_what_is_held() HOLDFAST_REQUIRES(mutex_);
  // Held, and nobody gives it back or leaves it to the store just now.
  std::vector<AcquisitionPtr> held() const HOLDFAST_REQUIRES(mutex_);
  void answer_renewals(Acquisition& acquisition) HOLDFAST_REQUIRES(mutex_);

  // renewing_batches.cc
  void send_out(const AcquisitionPtr& acquisition, std::uint64_t seq, bool waiting)
      HOLDFAST_REQUIRES(mutex_);
  void put_out(Outgoing outgoing) HOLDFAST_REQUIRES(mutex_);
  void send_outbox() final HOLDFAST_EXCLUDES(mutex_);
  void give_up_renewal(BootInstant now) HOLDFAST_REQUIRES(mutex_);

  Worker renewal_{"holdfast-renew"};

 private:
  struct Batch {
    std::vector<Outgoing> sent;
    BootInstant deadline{};
    bool given_up = false;  // Guarded by the mutex.
  };

  Result<std::uint64_t> ask_to_renew(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  std::optional<Result<void>> renewed(Acquisition& acquisition, std::uint64_t wanted)
      HOLDFAST_REQUIRES(mutex_);
  void on_renewed(const Outgoing& sent, BootInstant now,
                  const Result<port::AcquisitionState>& reply) HOLDFAST_REQUIRES(mutex_);

  // renewing_batches.cc
  bool send_batch() HOLDFAST_EXCLUDES(mutex_);
  static BootInstant request_end(const Outgoing& outgoing, BootInstant now);
  std::vector<port::RenewItem> take_outbox(Batch& batch) HOLDFAST_EXCLUDES(mutex_);
  void on_answered(const Batch& batch,
                   const Result<std::vector<Result<port::AcquisitionState>>>& replies)
      HOLDFAST_EXCLUDES(mutex_);

  // The outbox waits for the batch that the renewal thread sends, but no longer.
  BootInstant outbox_waits_until_ HOLDFAST_GUARDED_BY(mutex_) = BootInstant::max();
  Batch* under_way_ HOLDFAST_GUARDED_BY(mutex_) = nullptr;
  base::LocalCondition renewed_;  // Some renewal was answered, or some lease has ended.
};

}  // namespace holdfast::session
