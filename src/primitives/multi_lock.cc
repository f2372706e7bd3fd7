#include "holdfast/multi_lock.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

#include "holdfast/client.h"
#include "holdfast/detail/transient.h"
#include "src/base/local_mutex.h"
#include "src/primitives/flow.h"
#include "src/primitives/moved_lease.h"
#include "src/primitives/multi_lock_start.h"

namespace holdfast {

struct LeaseSet::State {
  std::vector<Lease> leases;  // By name.

  // Made when somebody asks for it: then whoever lets go of the set waits for no callback.
  base::LocalMutex mutex;
  std::stop_source any_lost HOLDFAST_GUARDED_BY(mutex);
  using Link = std::stop_callback<std::function<void()>>;
  std::vector<std::unique_ptr<Link>> links HOLDFAST_GUARDED_BY(mutex);
};

namespace detail {

struct LeaseSetAccess {
  static LeaseSet make(std::vector<Lease> leases) {
    auto state = std::make_unique<LeaseSet::State>();
    state->leases = std::move(leases);
    return LeaseSet(std::move(state));
  }
  static std::vector<session::Core::AcquisitionPtr> tickets(const LeaseSet& set) {
    std::vector<session::Core::AcquisitionPtr> all;
    if (!set.state_) return all;
    for (const Lease& lease : set.state_->leases) all.push_back(ticket(lease));
    return all;
  }
};

}  // namespace detail

namespace primitives::together {
namespace {

using detail::LeaseSetAccess;
using primitives::Flow;
using primitives::Scope;
using primitives::ScopePtr;
using session::Core;

// Sorted, each name once.
Result<std::vector<LockRequest>> in_order(std::vector<LockRequest> locks) {
  const auto bad = [](std::string what) { return Error(Errc::kInvalidArgument, std::move(what)); };
  if (locks.empty()) return bad("no lock was named");
  std::stable_sort(locks.begin(), locks.end(),
                   [](const LockRequest& a, const LockRequest& b) { return a.name < b.name; });
  std::vector<LockRequest> once;
  for (LockRequest& lock : locks) {
    if (once.empty() || once.back().name != lock.name) {
      once.push_back(std::move(lock));
      continue;
    }
    const std::string named = "lock '" + session::printable(lock.name) + "' was named twice, ";
    if (!(once.back().mode == lock.mode)) return bad(named + "in two modes");
    if (lock.mode.kind() == Mode::Kind::kPermits) {
      return bad(named + "with permits: ask for all of them at once");
    }
  }
  if (once.size() > port::kMostAtOnce) {
    return bad(std::to_string(once.size()) + " locks at once: at most " +
               std::to_string(port::kMostAtOnce));
  }
  return once;
}

std::vector<Core::Wanted> wanted(const std::vector<LockRequest>& locks) {
  std::vector<Core::Wanted> all;
  all.reserve(locks.size());
  for (const LockRequest& lock : locks) all.push_back({lock.name, lock.mode});
  return all;
}

LeaseSet as_set(std::vector<Core::AcquisitionPtr> held) {
  std::vector<Lease> leases;
  leases.reserve(held.size());
  for (Core::AcquisitionPtr& one : held)
    leases.push_back(detail::LeaseAccess::make(std::move(one)));
  return LeaseSetAccess::make(std::move(leases));
}

// The first failure; its message names every lock that was held and not given back.
Result<void> as_one(const std::vector<Result<void>>& results) {
  std::optional<Errc> first;
  std::string messages;
  std::size_t failed = 0;
  for (const Result<void>& result : results) {
    if (result) continue;
    if (!first) first = result.error().code();
    messages += (messages.empty() ? "" : "; ") + result.error().message();
    ++failed;
  }
  if (!first) return {};
  if (failed == 1 && results.size() == 1) return Error(*first, messages);
  return Error(*first, std::to_string(failed) + " of " + std::to_string(results.size()) +
                           " locks were not given back: " + messages);
}

auto take_all(ScopePtr scope, std::vector<Core::Wanted> locks, AcquireOptions options) {
  return asked<Core::Multi>([scope = std::move(scope), locks = std::move(locks),
                             options = std::move(options)](Core::Done<Core::Multi> done) {
    AcquireOptions plain = options;
    plain.cancel = {};
    plain.wait.reset();
    scope->core().try_acquire_all(locks, plain, std::move(done));
  });
}

auto give_back(ScopePtr scope, std::vector<Core::AcquisitionPtr> held) {
  using Ends = std::vector<Result<void>>;
  return asked<Ends>([scope = std::move(scope), held = std::move(held)](Core::Done<Ends> done) {
    scope->core().release_all(held, std::move(done));
  });
}

std::vector<Core::AcquisitionPtr> tickets_of(const std::vector<Lease>& leases) {
  std::vector<Core::AcquisitionPtr> all;
  all.reserve(leases.size());
  for (const Lease& lease : leases) all.push_back(detail::ticket(lease));
  return all;
}

std::optional<Error> first_loss(const std::vector<Lease>& leases) {
  for (const Lease& lease : leases) {
    if (!lease.held()) {
      const auto why = lease.loss();
      return Error(Errc::kLost, "lock '" + session::printable(lease.name()) +
                                    "' was lost while others were waited for" +
                                    (why ? ": " + why->message() : std::string()));
    }
  }
  return std::nullopt;
}

// Ends the wait for the next lock when a lock that is held is lost.
class LossWatch {
 public:
  explicit LossWatch(const ScopePtr& scope) : scope_(scope) {}
  void add(const Lease& lease) {
    links_.push_back(std::make_unique<Link>(lease.lost(), [weak = scope_] {
      // cancel() may end the flow and destroy this callback, so the scope is kept until it returns.
      if (const ScopePtr scope = weak.lock()) scope->cancel();
    }));
  }
  void stop() { links_.clear(); }

 private:
  using Link = std::stop_callback<std::function<void()>>;
  const std::weak_ptr<Scope> scope_;
  std::vector<std::unique_ptr<Link>> links_;
};

// Calls on_queued once, however many locks must be waited for.
AcquireOptions told_once(AcquireOptions options) {
  if (!options.on_queued) return options;
  options.on_queued = [told = std::make_shared<std::atomic<bool>>(false),
                       on_queued = std::move(options.on_queued)](std::uint32_t ahead) {
    if (!told->exchange(true)) on_queued(ahead);
  };
  return options;
}

// Whether they are taken one after the other when they could not be taken in one step. Each of
// those waits for a store that is away, where the store's waits do.
bool goes_on(const Core& core, const Error& error, bool may_wait) {
  if (error.code() == Errc::kUnsupported) return true;
  return may_wait && core.outlasts_first() && detail::is_transient(error.code());
}

// One after the other. nullopt: one is not free, and it was not to wait.
Flow<std::optional<LeaseSet>> take_each(ScopePtr scope, std::vector<LockRequest> locks,
                                        AcquireOptions options, bool may_wait) {
  options = told_once(std::move(options));
  std::vector<Lease> held;
  LossWatch watch(scope);
  std::optional<Error> failed;
  bool busy = false;
  for (std::size_t i = 0; i < locks.size() && !failed && !busy; ++i) {
    const LockRequest lock = locks[i];
    Flow<std::optional<Lease>> taking = scope->take(lock.name, lock.mode, options, may_wait);
    Result<std::optional<Lease>> lease = co_await std::move(taking);
    if (!lease) {
      failed = lease.error();
    } else if (*lease) {
      held.push_back(std::move(**lease));
      if (may_wait && i + 1 < locks.size()) watch.add(held.back());
    } else {
      busy = true;
    }
    if (!failed && scope->cancelled()) failed = scope->cancelled_error();
  }
  watch.stop();
  // A loss cancels the wait (LossWatch). The caller must learn of the loss, not the cancellation.
  const bool ended =
      failed && (failed->code() == Errc::kCancelled || failed->code() == Errc::kTimedOut);
  if ((!failed || ended) && !busy) {
    if (auto loss = first_loss(held)) failed = std::move(loss);
  }
  if (!failed && !busy) co_return std::optional<LeaseSet>(LeaseSetAccess::make(std::move(held)));
  if (!held.empty()) {
    // If this fails, the core retries.
    std::vector<Core::AcquisitionPtr> tickets = tickets_of(held);
    const Result<std::vector<Result<void>>> ends = co_await give_back(scope, std::move(tickets));
    static_cast<void>(ends);
  }
  if (failed) co_return *failed;
  co_return std::optional<LeaseSet>();
}

Flow<std::optional<LeaseSet>> take(ScopePtr scope, std::vector<LockRequest> locks,
                                   AcquireOptions options, bool may_wait) {
  Result<std::vector<LockRequest>> sorted = in_order(std::move(locks));
  if (!sorted) co_return sorted.error();
  if (scope->cancelled()) co_return scope->cancelled_error();
  std::vector<Core::Wanted> all = wanted(*sorted);
  Result<Core::Multi> together = co_await take_all(scope, std::move(all), options);
  if (together && *together) {
    std::optional<LeaseSet> set = as_set(std::move(**together));
    co_return set;
  }
  if (!together && !goes_on(scope->core(), together.error(), may_wait)) co_return together.error();
  if (together && !may_wait) co_return std::optional<LeaseSet>();
  // One by one in the order of names, so two such callers never wait for each other.
  Flow<std::optional<LeaseSet>> rest =
      take_each(scope, std::move(*sorted), std::move(options), may_wait);
  Result<std::optional<LeaseSet>> answer = co_await std::move(rest);
  co_return answer;
}

Flow<LeaseSet> acquire(ScopePtr scope, std::vector<LockRequest> locks, AcquireOptions options) {
  return primitives::whole(
      take(std::move(scope), std::move(locks), std::move(options), /*may_wait=*/true));
}

// Runs on the caller's thread, which is faster; nullopt: not all are free, or the store cannot.
Result<std::optional<LeaseSet>> take_here(Core& core, const std::vector<LockRequest>& locks,
                                          const AcquireOptions& options) {
  Result<Core::Multi> together = core.try_acquire_all(wanted(locks), options);
  if (!together) return together.error();
  if (!*together) return std::optional<LeaseSet>();
  return std::optional<LeaseSet>(as_set(std::move(**together)));
}

}  // namespace
}  // namespace primitives::together

LeaseSet::LeaseSet(std::unique_ptr<State> state) : state_(std::move(state)) {}
LeaseSet::LeaseSet(LeaseSet&& other) noexcept = default;
LeaseSet& LeaseSet::operator=(LeaseSet&& other) noexcept = default;
LeaseSet::~LeaseSet() = default;

std::size_t LeaseSet::size() const { return state_ ? state_->leases.size() : 0; }

std::vector<std::string> LeaseSet::names() const {
  std::vector<std::string> all;
  if (!state_) return all;
  for (const Lease& lease : state_->leases) all.push_back(lease.name());
  return all;
}

const Lease* LeaseSet::lease(std::string_view name) const {
  if (!state_) return nullptr;
  for (const Lease& lease : state_->leases) {
    if (lease.name() == name) return &lease;
  }
  return nullptr;
}

Token LeaseSet::token(std::string_view name) const {
  const Lease* const found = lease(name);
  return found != nullptr ? found->token() : Token();
}

bool LeaseSet::held() const {
  return state_ && std::all_of(state_->leases.begin(), state_->leases.end(),
                               [](const Lease& lease) { return lease.held(); });
}

std::chrono::milliseconds LeaseSet::remaining() const {
  if (!held()) return std::chrono::milliseconds::zero();
  auto least = std::chrono::milliseconds::max();
  for (const Lease& lease : state_->leases) least = std::min(least, lease.remaining());
  return least;
}

std::stop_token LeaseSet::lost() const {
  if (!state_) return {};
  const base::LocalLock lock(state_->mutex);
  if (state_->links.empty()) {
    for (const Lease& lease : state_->leases) {
      state_->links.push_back(std::make_unique<State::Link>(
          lease.lost(), [any = state_->any_lost]() mutable { any.request_stop(); }));
    }
  }
  return state_->any_lost.get_token();
}

std::optional<Error> LeaseSet::loss() const {
  if (!state_) return std::nullopt;
  for (const Lease& lease : state_->leases) {
    if (auto why = lease.loss()) return why;
  }
  return std::nullopt;
}

Result<void> LeaseSet::release() {
  const auto held = detail::LeaseSetAccess::tickets(*this);
  if (held.empty()) return primitives::moved_lease_error();
  return primitives::together::as_one(held.front()->core->release_all(held));
}

Result<LeaseSet> Client::acquire_all(std::vector<LockRequest> locks, AcquireOptions options) const {
  namespace together = primitives::together;
  const auto begun = base::BootClock::now();
  auto sorted = together::in_order(std::move(locks));
  if (!sorted) return sorted.error();
  auto here = together::take_here(*core_, *sorted, options);
  if (here && *here) return std::move(**here);
  if (!here && !together::goes_on(*core_, here.error(), /*may_wait=*/true)) return here.error();
  // The wait covers the whole call, so the try above counts.
  if (options.wait) {
    const auto spent = base::BootClock::now() - begun;
    options.wait = std::max(*options.wait - std::chrono::floor<std::chrono::milliseconds>(spent),
                            std::chrono::milliseconds::zero());
  }
  auto rest = detail::wait_for(primitives::start_flow(
      core_, options, together::take_each, *std::move(sorted), options, /*may_wait=*/true));
  if (!rest) return rest.error();
  return std::move(**rest);
}

Result<std::optional<LeaseSet>> Client::try_acquire_all(std::vector<LockRequest> locks,
                                                        AcquireOptions options) const {
  namespace together = primitives::together;
  auto sorted = together::in_order(std::move(locks));
  if (!sorted) return sorted.error();
  auto here = together::take_here(*core_, *sorted, options);
  if (here || here.error().code() != Errc::kUnsupported) return here;
  return detail::wait_for(primitives::start_flow(core_, options, together::take_each,
                                                 *std::move(sorted), options, /*may_wait=*/false));
}

detail::Start<LeaseSet> primitives::start_acquire_all(std::shared_ptr<session::Core> core,
                                                      std::vector<LockRequest> locks,
                                                      AcquireOptions options) {
  return start_flow(std::move(core), options, together::acquire, std::move(locks), options);
}

namespace detail {

Start<LeaseSet> Async::acquire_all(const Client& client, std::vector<LockRequest> locks,
                                   AcquireOptions options) {
  return primitives::start_acquire_all(client.core_, std::move(locks), std::move(options));
}

Start<std::optional<LeaseSet>> Async::try_acquire_all(const Client& client,
                                                      std::vector<LockRequest> locks,
                                                      AcquireOptions options) {
  return primitives::start_flow(client.core_, options, primitives::together::take, std::move(locks),
                                options, /*may_wait=*/false);
}

Start<void> Async::release(const LeaseSet& set) {
  return start<void>([held = LeaseSetAccess::tickets(set)](const session::Core::Done<void>& done) {
    if (held.empty()) return done(primitives::moved_lease_error());
    held.front()->core->release_all(held, [done](Result<std::vector<Result<void>>> results) {
      done(results ? primitives::together::as_one(*results) : results.error());
    });
  });
}

}  // namespace detail
}  // namespace holdfast
