#include "holdfast/job_lock.h"

#include <algorithm>
#include <utility>

#include "holdfast/client.h"
#include "src/primitives/flow.h"

namespace holdfast {

struct JobLock::State {
  const std::shared_ptr<session::Core> core;
  const std::string name;
  const JobTimes times;
};

namespace primitives::jobs {
namespace {

using primitives::Flow;
using primitives::ScopePtr;
using std::chrono::milliseconds;

Result<void> check_times(const JobTimes& times) {
  const auto bad = [](const char* what) { return Error(Errc::kInvalidArgument, what); };
  if (times.at_least_for < milliseconds::zero() || times.at_least_for > std::chrono::hours(24)) {
    return bad("at_least_for is between zero and 24 h");
  }
  if (times.at_most_for < milliseconds::zero()) return bad("at_most_for cannot be negative");
  if (times.at_most_for > milliseconds::zero() && times.at_least_for > times.at_most_for) {
    return bad("at_least_for cannot be longer than at_most_for");
  }
  return {};
}

// Zero: the time is over.
milliseconds left_of(std::chrono::nanoseconds keep_until) {
  const auto left = keep_until - base::BootClock::now().time_since_epoch();
  return std::max(std::chrono::ceil<milliseconds>(left), milliseconds::zero());
}

Flow<std::optional<Lease>> take(ScopePtr scope, std::string name, JobTimes times,
                                AcquireOptions options) {
  const Result<void> good = check_times(times);
  if (!good) co_return good.error();
  options.max_hold = times.at_most_for;
  // A job that dies must keep the others out for at least as long as a job that ends early.
  const milliseconds ttl = scope->core().ttl_of(name, options);
  options.ttl = std::max(ttl, times.at_least_for);
  if (times.at_least_for > milliseconds::zero()) options.outlives_client = true;
  co_return co_await scope->try_acquire(name, Mode::exclusive(), options);
}

Flow<void> give_back(ScopePtr scope, session::Core::AcquisitionPtr held,
                     std::chrono::nanoseconds keep_until) {
  const milliseconds left = left_of(keep_until);
  if (left == milliseconds::zero()) co_return co_await scope->release(held);
  co_return co_await scope->keep(held, left, std::nullopt);
}

Flow<std::optional<JobLease>> take_job(ScopePtr scope, std::string name, JobTimes times,
                                       AcquireOptions options) {
  Flow<std::optional<Lease>> taking = take(scope, name, times, options);
  Result<std::optional<Lease>> lease = co_await std::move(taking);
  if (!lease) co_return lease.error();
  if (!*lease) co_return std::optional<JobLease>();
  const auto now = base::BootClock::now().time_since_epoch();
  co_return std::optional<JobLease>(JobLease(std::move(**lease), now + times.at_least_for));
}

}  // namespace
}  // namespace primitives::jobs

JobLock Client::job_lock(std::string name, JobTimes times) const {
  return JobLock(primitives::make_state<JobLock::State>(core_, std::move(name), times));
}

JobLock::JobLock(std::shared_ptr<State> state) : state_(std::move(state)) {}

const std::string& JobLock::name() const { return state_->name; }

Result<std::optional<JobLease>> JobLock::try_acquire(AcquireOptions options) {
  return detail::wait_for(detail::Async::try_acquire(*this, std::move(options)));
}

JobLease& JobLease::operator=(JobLease&& other) noexcept {
  if (this == &other) return *this;
  JobLease old(std::move(*this));
  lease_ = std::move(other.lease_);
  keep_until_ = other.keep_until_;
  return *this;
}

JobLease::~JobLease() {
  const auto held = detail::LeaseAccess::of(lease_);
  if (held) held->core->release_later(held, base::BootInstant(keep_until_));
}

Result<void> JobLease::release() { return detail::wait_for(detail::Async::release(*this)); }

namespace detail {

Start<std::optional<JobLease>> Async::try_acquire(const JobLock& lock, AcquireOptions options) {
  if (lock.state_->times.at_least_for > std::chrono::milliseconds::zero() &&
      lock.state_->core->guarantees().ends_with_client) {
    Error error(Errc::kUnsupported, "job '" + lock.state_->name +
                                        "': leases of this store end with their client, so none "
                                        "can be kept for at_least_for");
    return start_failed<std::optional<JobLease>>(std::move(error));
  }
  return primitives::start_flow(lock.state_->core, options, primitives::jobs::take_job,
                                lock.state_->name, lock.state_->times, options);
}

Start<void> Async::release(JobLease& job) {
  return primitives::start_flow_on(job.lease_, {}, primitives::jobs::give_back, job.keep_until_);
}

}  // namespace detail
}  // namespace holdfast
