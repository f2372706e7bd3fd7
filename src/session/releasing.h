// From a lease to its end: given back by its holder, by a handle that goes, or left to the store.
//
// Guarantee: from the moment a release begins here the lease answers "released", whatever the store
// answers. A release that the store did not answer is repeated while the lease lasts.
// Thread-safety: all public calls from any thread.
#pragma once

#include "src/session/renewing.h"

namespace holdfast::session {

class Releasing : public Renewing {
 public:
  Result<void> release(const AcquisitionPtr& acquisition);
  void release(const AcquisitionPtr& acquisition, Done<void> done);
  // release()'s answer for each, in one request where the store can.
  std::vector<Result<void>> release_all(const std::vector<AcquisitionPtr>& held);
  void release_all(const std::vector<AcquisitionPtr>& held, Done<std::vector<Result<void>>> done);
  // As a handle goes. `at`: not before that; until then the store keeps the lock.
  void release_later(const AcquisitionPtr& acquisition, std::optional<BootInstant> at = {});
  void detach(const AcquisitionPtr& acquisition);
  // release() answers this from then on.
  static Error detached_error(const Acquisition& acquisition);

 protected:
  using Renewing::Renewing;

  void end_locally(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  void send_release(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  // Nobody counts on it: taken back as soon as the store can be reached, should it be held.
  void give_back(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);

  std::size_t releases_under_way_ HOLDFAST_GUARDED_BY(mutex_) = 0;

 private:
  struct Giving;
  port::AcquisitionRequest release_of(const Acquisition& acquisition) const;
  static bool must_run_out(const Acquisition& acquisition);
  std::optional<Result<void>> begin_release(const AcquisitionPtr& acquisition,
                                            std::optional<Error>& loss) HOLDFAST_REQUIRES(mutex_);
  Result<void> end_release(const AcquisitionPtr& acquisition, const std::optional<Error>& loss,
                           const Result<port::EndStatus>& ended);
  Giving begin_release_all(const std::vector<AcquisitionPtr>& held) HOLDFAST_EXCLUDES(mutex_);
  std::vector<Result<void>> end_release_all(
      const Giving& giving, const Result<std::vector<Result<port::EndStatus>>>& ended);
  void on_release_sent(const AcquisitionPtr& acquisition, std::optional<Errc> failure);
};

}  // namespace holdfast::session
