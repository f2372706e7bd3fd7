// A lock for jobs that a clock starts on many machines: one of them runs, the others skip.
//
// Example (examples/primitives.cc#job_lock):
//   using std::chrono::minutes;
//   const holdfast::JobTimes times{.at_least_for = minutes(10), .at_most_for = minutes(120)};
//   holdfast::JobLock nightly = client.job_lock("nightly-report", times);
//   auto job = nightly.try_acquire();
//   if (!job) return job.error();
//   if (!*job) return {};  // another machine runs it, or has just run it: skip
//   while ((*job)->held() && work_is_left()) do_a_portion((*job)->token());
//   return (*job)->release();  // and nobody else begins it for ten minutes
//
// Guarantee: as Mutex's. A job that ends early keeps the others out until `at_least_for` has passed
// since it began, also when its machine dies, so a machine with a late clock does not run it again.
// A job loses its lock after `at_most_for` (Lease::lost()). Not guaranteed: that a skipped run is
// made up for; that a job which lost its lock has stopped: it must look at lost(), or its resource
// must be fenced.
//
// Thread-safety: as Mutex's; JobLease as Lease. Ownership: shares the client's core.
// Errors: as Mutex's; kInvalidArgument: at_least_for is at most 24 h, and at most at_most_for;
// kUnsupported: an at_least_for where leases end with their client (Guarantees::ends_with_client).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "holdfast/export.h"
#include "holdfast/lease.h"
#include "holdfast/options.h"
#include "holdfast/result.h"

namespace holdfast {

namespace detail {
struct Async;
}  // namespace detail

struct JobTimes {
  std::chrono::milliseconds at_least_for{0};  // Zero: others may run as soon as it ends.
  std::chrono::milliseconds at_most_for{0};   // Zero: no bound.
};

// The permission to run. The destructor gives it back as release() does, without waiting.
class HOLDFAST_EXPORT JobLease {
 public:
  // Makes a job's lease of one that was acquired in another way, for example by Client::acquire()
  // with a wait. It is kept like that of JobLock::try_acquire(), until this instant of
  // CLOCK_BOOTTIME, at most 24 h from its release. Where leases end with their client release()
  JobLease(Lease lease, std::chrono::nanoseconds keep_until_boottime)
      : lease_(std::move(lease)), keep_until_(keep_until_boottime) {}
  JobLease(JobLease&&) noexcept = default;
  JobLease& operator=(JobLease&& other) noexcept;
  ~JobLease();

  Token token() const { return lease_.token(); }
  bool held() const { return lease_.held(); }
  std::stop_token lost() const { return lease_.lost(); }
  const Lease& lease() const { return lease_; }

  // The job is done. The store keeps the lock for the rest of `at_least_for` and no longer.
  // Errors: as Lease::release(); kUnavailable, kOutcomeUnknown: it is still held, and the
  // destructor tries again.
  Result<void> release();

 private:
  friend struct detail::Async;

  Lease lease_;
  std::chrono::nanoseconds keep_until_;
};

class HOLDFAST_EXPORT JobLock {
 public:
  JobLock(const JobLock&) = default;
  JobLock& operator=(const JobLock&) = default;
  ~JobLock() = default;

  const std::string& name() const;

  // nullopt: the job runs elsewhere or ran a moment ago: skip it. The options `wait` and `max_hold`
  // are ignored. A ttl shorter than `at_least_for` is raised to it: the lease of a machine that
  // dies keeps the others out for one ttl.
  Result<std::optional<JobLease>> try_acquire(AcquireOptions options = {});

 private:
  friend class Client;
  friend struct detail::Async;
  struct State;
  explicit JobLock(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace holdfast
