// A contender, before anything is sent: its checked options, its request and its terms.
#include <algorithm>

#include "src/base/random.h"
#include "src/session/acquiring.h"
#include "src/session/names.h"

namespace holdfast::session {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortestTtl(100);
constexpr milliseconds kLongestTtl = std::chrono::hours(24);
machine::Mode to_machine(const holdfast::Mode& mode) {
  switch (mode.kind()) {
    case holdfast::Mode::Kind::kExclusive: return machine::Mode::exclusive();
    case holdfast::Mode::Kind::kShared: return machine::Mode::shared();
    case holdfast::Mode::Kind::kPermits:
      return machine::Mode::of_permits(mode.count(), mode.capacity());
  }
  return {};
}

Result<void> check_options(const holdfast::Mode& mode, const AcquireOptions& options) {
  const auto bad = [](std::string what) { return Error(Errc::kInvalidArgument, std::move(what)); };
  if (options.ttl < kShortestTtl || options.ttl > kLongestTtl) {
    return bad("a ttl of " + std::to_string(options.ttl.count()) +
               " ms: it is 100 ms at least and 24 h at most");
  }
  if (options.wait && *options.wait < milliseconds::zero()) {
    return bad("a wait cannot be negative");
  }
  const milliseconds lock_delay = options.lock_delay.value_or(milliseconds::zero());
  if (lock_delay < milliseconds::zero()) return bad("a lock_delay cannot be negative");
  if (lock_delay > kLongestTtl - options.ttl) {
    return bad("a ttl and its lock_delay are at most 24 h");
  }
  if (options.max_hold < milliseconds::zero()) return bad("max_hold cannot be negative");
  if (options.min_remaining < milliseconds::zero() ||
      options.min_remaining > RenewalSchedule(options.ttl).safe_part()) {
    return bad("min_remaining is at most half of the ttl");
  }
  if (options.reason.size() > 1024) return bad("a reason has at most 1024 bytes");
  const std::string& trace = options.trace_id;
  if (trace.size() > 128 ||
      std::any_of(trace.begin(), trace.end(), [](char c) { return c <= ' ' || c > '~'; })) {
    return bad("a trace id has at most 128 characters, of printable ASCII without spaces");
  }
  if (options.owner && options.owner->label().size() > 128) {
    return bad("an owner's label has at most 128 bytes");
  }
  if (mode.kind() == holdfast::Mode::Kind::kPermits &&
      (mode.count() == 0 || mode.count() > mode.capacity())) {
    return bad(std::to_string(mode.count()) + " of " + std::to_string(mode.capacity()) +
               " permits: ask for at least one and at most all");
  }
  return {};
}

}  // namespace

const NameDefaults* Acquiring::defaults_of(const std::string& name) const {
  const NameDefaults* found = nullptr;
  for (const NameDefaults& each : options_.client.names) {
    const bool longer = found == nullptr || each.prefix.size() > found->prefix.size();
    if (longer && name.starts_with(each.prefix)) found = &each;
  }
  return found;
}

Result<void> Acquiring::check_names() const {
  for (const NameDefaults& each : options_.client.names) {
    AcquireOptions options;
    options.ttl = each.ttl == milliseconds::zero() ? kShortestTtl : each.ttl;
    options.wait = each.wait;
    options.lock_delay = each.lock_delay;
    const auto good = check_options(holdfast::Mode::exclusive(), options);
    if (good) continue;
    return Error(good.error().code(),
                 "names: '" + printable(each.prefix) + "': " + good.error().message());
  }
  return {};
}

milliseconds Acquiring::ttl_of(const std::string& name, const AcquireOptions& options) const {
  if (options.ttl > milliseconds::zero()) return options.ttl;
  const NameDefaults* const named = defaults_of(name);
  if (named != nullptr && named->ttl > milliseconds::zero()) return named->ttl;
  const milliseconds ours = options_.client.default_ttl;
  // Where leases are sessions, the URL may have asked for a longer session. Nobody asked for a
  // lease below it.
  if (options_.url_has_ttl || longest_lease_ == Duration::max()) return ours;
  return std::max(ours, std::chrono::ceil<milliseconds>(longest_lease_));
}

Result<Acquiring::AcquisitionPtr> Acquiring::make_acquisition(std::string name,
                                                              const holdfast::Mode& mode,
                                                              AcquireOptions options) {
  if (options.ttl == milliseconds::zero()) options.ttl = ttl_of(name, options);
  if (const auto* const named = defaults_of(name); named != nullptr) {
    if (!options.wait) options.wait = named->wait;
    if (!options.lock_delay) options.lock_delay = named->lock_delay;
  }
  if (options.wait && *options.wait >= kForever) options.wait.reset();
  if (options.max_hold >= kForever) options.max_hold = milliseconds::zero();
  if (auto good = check_options(mode, options); !good) return good.error();
  // Such a grant could never be used: the slack alone would take what must be left.
  if (options.min_remaining + bound_.slack(options.ttl) >= options.ttl) {
    return Error(Errc::kInvalidArgument,
                 "min_remaining leaves nothing of the lease, by which "
                 "clocks may differ by clock_rate_error_ppm");
  }
  const Duration lock_delay = options.lock_delay.value_or(milliseconds::zero());
  const bool outlives = options.outlives_client || lock_delay > Duration::zero();
  if (outlives && !may_outlive_) {
    return Error(Errc::kUnsupported,
                 "leases of this store end with their client, and " +
                     std::string(options.outlives_client ? "outlives_client" : "a lock_delay") +
                     " needs one that goes on");
  }
  auto acquisition = std::make_shared<Acquisition>(std::move(name), mode, generation_);
  acquisition->asked_ttl = options.ttl;
  acquisition->outlives_client = may_outlive_ && (outlives || !options.auto_renew);
  acquisition->lock_delay = lock_delay;
  // No lease outlasts the session that it is part of, so renewals are timed by the shorter one.
  acquisition->ttl = acquisition->outlives_client ? Duration(options.ttl)
                                                  : std::min<Duration>(options.ttl, longest_lease_);
  if (options.owner || !options.trace_id.empty()) {
    acquisition->labels =
        std::make_unique<Acquisition::Labels>(Acquisition::Labels{options.owner, options.trace_id});
  }
  acquisition->wait = std::make_shared<Wait>();
  acquisition->wait->thread = std::this_thread::get_id();
  acquisition->wait->options = std::move(options);
  return acquisition;
}

// An id that no store has seen yet.
void Acquiring::begin_anew(Acquisition& acquisition) {
  const base::Random128 random = base::random_128();
  acquisition.id = {random.high, random.low};
  acquisition.issue = ++last_issue_;
  acquisition.wall_minus_boot_at_send = base::wall_minus_boot().count();
  acquisition.wait->pushes_missed_at_send = pushes_missed_;
}

port::AcquireRequest Acquiring::request_for(const Acquisition& acquisition, bool may_wait) const {
  const AcquireOptions& options = *acquisition.wait->options;
  port::AcquireRequest request;
  request.name = stored(acquisition.name);
  request.id = acquisition.id;
  request.issue = acquisition.issue;
  request.mode = to_machine(acquisition.mode);
  request.may_wait = may_wait;
  request.ttl = acquisition.lease_at_store();
  request.waiter_ttl = RenewalSchedule::waiter_lease(acquisition.ttl);
  request.max_waiters = options.max_waiters;
  if (acquisition.base) request.upgrade_of = acquisition.base->id;
  request.owner =
      owner_info(options.reason, options.trace_id, options.owner, acquisition.lock_delay);
  request.deadline = request_deadline();
  request.outlives_client = acquisition.outlives_client;
  return request;
}

AcquireFsm::Terms Acquiring::terms_for(const Acquisition& acquisition, bool may_wait) const {
  const AcquireOptions& options = *acquisition.wait->options;
  AcquireFsm::Terms terms;
  terms.ttl = acquisition.ttl;
  terms.lock_delay = acquisition.lock_delay;
  terms.waiter_ttl = RenewalSchedule::waiter_lease(acquisition.ttl);
  terms.may_wait = may_wait;
  terms.outlasts_first = options_.outlasts_first;
  if (options.wait) terms.wait = *options.wait;
  terms.heartbeat = RenewalSchedule(terms.waiter_ttl).heartbeat();
  terms.min_left =
      options.min_remaining > milliseconds::zero() ? Nanos(options.min_remaining) : terms.heartbeat;
  // At most half of a session is guaranteed to be left.
  if (longest_lease_ != Duration::max()) {
    terms.min_left = std::min(terms.min_left, RenewalSchedule(longest_lease_).safe_part());
  }
  terms.whole = !options.auto_renew;
  terms.request = options_.client.request_timeout;
  terms.bound = bound_;
  return terms;
}

Result<Acquiring::AcquisitionPtr> Acquiring::prepare(std::string name, const holdfast::Mode& mode,
                                                     AcquireOptions options) {
  if (auto good = check_name(name); !good) return good.error();
  return prepare_checked(std::move(name), mode, std::move(options));
}

Result<Acquiring::AcquisitionPtr> Acquiring::prepare_checked(std::string name,
                                                             const holdfast::Mode& mode,
                                                             AcquireOptions options) {
  auto made = make_acquisition(std::move(name), mode, std::move(options));
  if (!made) return made;
  Acquisition& acquisition = **made;
  if (acquisition.wait->options->cancel.stop_requested()) {
    return Error(Errc::kCancelled, "the wait for lock '" + acquisition.name + "' was cancelled");
  }
  // The core stays until the lease, or this call, is over.
  acquisition.core = self();
  reports_.asked(acquisition);
  return made;
}

}  // namespace holdfast::session
