#include "holdfast/election.h"

#include <deque>
#include <mutex>
#include <utility>

#include "holdfast/client.h"
#include "holdfast/detail/transient.h"
#include "src/primitives/flow.h"
#include "src/primitives/value_records.h"

namespace holdfast {

struct Election::State {
  const std::shared_ptr<session::Core> core;
  const std::string name;
};

namespace primitives::electing {
namespace {

using primitives::Flow;
using primitives::Scope;
using primitives::ScopePtr;
using primitives::ticket;
using primitives::ValueNews;
using session::Core;

constexpr std::size_t kMostValue = 1024;
constexpr std::chrono::milliseconds kLookAgain(250);

Result<void> check_value(const std::string& value) {
  if (value.size() <= kMostValue) return {};
  return Error(Errc::kInvalidArgument,
               "a value of " + std::to_string(value.size()) + " bytes: 1024 at most");
}

// --- Leading.

Flow<void> proclaim(ScopePtr scope, Core::AcquisitionPtr held, std::string value) {
  const Result<void> good = check_value(value);
  if (!good) co_return good;
  const Result<std::string> text = co_await scope->get_value(held->name);
  if (!text) co_return text.error();
  Result<Record> record = read_record(*text, held->name);
  if (!record) co_return record.error();
  LeaderInfo now{Token{held->token.epoch, held->token.counter}, scope->core().owner_of(*held),
                 value};
  const std::string written = with(*std::move(record), std::move(now));
  co_return co_await scope->set_value(held, written);
}

Flow<std::optional<Lease>> take(ScopePtr scope, std::string name, std::string value,
                                AcquireOptions options, bool may_wait) {
  const Result<void> good = check_value(value);
  if (!good) co_return good.error();
  Flow<std::optional<Lease>> taking = scope->take(name, Mode::exclusive(), options, may_wait);
  Result<std::optional<Lease>> lease = co_await std::move(taking);
  if (!lease || !*lease) co_return lease;
  Flow<void> proclaiming = proclaim(scope, ticket(**lease), value);
  const Result<void> told = co_await std::move(proclaiming);
  if (!told) co_return told.error();
  co_return lease;
}

// --- Looking.

struct Look {
  std::optional<LeaderInfo> leader;
  Record record;
};

// The value is read first, the holder second. If the value names that holder, it is the holder's
// own.
Flow<Look> look(ScopePtr scope, std::string name) {
  const Result<std::string> text = co_await scope->get_value(name);
  if (!text) co_return text.error();
  const Result<std::optional<LockInfo>> info = co_await scope->inspect(name);
  if (!info) co_return info.error();
  Result<Record> record = read_record(*text, name);
  if (!record) co_return record.error();
  Look seen{std::nullopt, *std::move(record)};
  if (!*info || (*info)->holders.empty()) co_return std::move(seen);
  const HolderInfo& holder = (*info)->holders.front();
  seen.leader = LeaderInfo{holder.token, holder.who.owner, {}};
  const auto& changes = seen.record.changes;
  if (!changes.empty() && changes.back().token == holder.token) seen.leader = changes.back();
  co_return std::move(seen);
}

Flow<std::optional<LeaderInfo>> find_leader(ScopePtr scope, std::string name) {
  Flow<Look> looking = look(scope, name);
  Result<Look> seen = co_await std::move(looking);
  if (!seen) co_return seen.error();
  co_return std::move(seen->leader);
}

// --- Observing.

// Keeps a callback from running after its watch went. Recursive, because a callback may drop its
// own watch.
struct Observation {
  std::recursive_mutex mutex;
  bool ended = false;
  std::function<void(const LeaderChange&)> callback;
};

// Computes what to tell from what was told and what is seen.
class Teller {
 public:
  std::deque<LeaderChange> changes(const Look& seen) {
    std::deque<LeaderChange> out;
    const Record& record = seen.record;
    if (!first_ && record.last > told_) {
      const std::uint64_t fresh = record.last - told_;
      const std::uint64_t kept = std::min<std::uint64_t>(fresh, record.changes.size());
      missed_ += fresh - kept;
      for (std::size_t i = record.changes.size() - kept; i < record.changes.size(); ++i) {
        const LeaderInfo& change = record.changes[i];
        // A later leader was seen first: the record had been read before this change.
        if (change.token < newest_) {
          ++missed_;
          continue;
        }
        out.push_back({change, std::exchange(missed_, 0)});
        now_ = change;
        newest_ = change.token;
      }
    }
    told_ = record.last;
    // There is no leader, or the leader has not proclaimed a value yet.
    if (first_ || seen.leader != now_) out.push_back({seen.leader, std::exchange(missed_, 0)});
    now_ = seen.leader;
    if (now_) newest_ = std::max(newest_, now_->token);
    first_ = false;
    return out;
  }

 private:
  bool first_ = true;
  std::uint64_t told_ = 0;
  std::uint64_t missed_ = 0;
  std::optional<LeaderInfo> now_;
  Token newest_;  // The newest leader that was reported.
};

Flow<void> observe(ScopePtr scope, std::string name, std::weak_ptr<Observation> to) {
  Teller teller;
  ValueNews news(scope, name);
  bool blind = false;  // For a reason that does not pass by itself. It is told once.
  while (true) {
    news.forget();
    Flow<Look> looking = look(scope, name);
    const Result<Look> seen = co_await std::move(looking);
    if (!seen && seen.error().code() == Errc::kClosed) co_return seen.error();
    const bool sees = seen || detail::is_transient(seen.error().code());
    const bool was_blind = std::exchange(blind, !sees);
    if (blind && !was_blind) scope->core().on_watches_blind(seen.error());
    if (seen) {
      for (LeaderChange& change : teller.changes(*seen)) {
        scope->core().notify([to, change = std::move(change)] {
          const auto observation = to.lock();
          if (!observation) return;
          const std::lock_guard lock(observation->mutex);
          if (!observation->ended) observation->callback(change);
        });
      }
    }
    Flow<void> sleeping = news.wait(base::BootClock::now() + kLookAgain);
    const Result<void> slept = co_await std::move(sleeping);
    if (!slept) co_return slept;
  }
}

class ObservationEnder {
 public:
  ObservationEnder(ScopePtr scope, std::shared_ptr<Observation> observation)
      : scope_(std::move(scope)), observation_(std::move(observation)) {}
  ObservationEnder(const ObservationEnder&) = delete;
  ObservationEnder& operator=(const ObservationEnder&) = delete;
  ~ObservationEnder() {
    if (scope_->core().forked()) return;
    {
      const std::lock_guard lock(observation_->mutex);
      observation_->ended = true;
    }
    scope_->cancel();
  }

 private:
  const ScopePtr scope_;
  const std::shared_ptr<Observation> observation_;
};

// A wrong name is reported here; the observation has a scope of its own.
Flow<Watch> begin_to_observe(ScopePtr scope, std::string name,
                             std::function<void(const LeaderChange&)> callback) {
  Flow<Look> looking = look(scope, name);
  const Result<Look> seen = co_await std::move(looking);
  if (!seen) co_return seen.error();
  auto observation = std::make_shared<Observation>();
  observation->callback = std::move(callback);
  auto own = std::make_shared<Scope>(scope->shared_core(), AcquireOptions());
  Flow<void> observing = observe(own, name, observation);
  std::move(observing).start([](const Result<void>&) {});
  co_return Watch(std::make_shared<ObservationEnder>(std::move(own), std::move(observation)));
}

}  // namespace
}  // namespace primitives::electing

// --- Election.

Election Client::election(std::string name) const {
  return Election(primitives::make_state<Election::State>(core_, std::move(name)));
}

Election::Election(std::shared_ptr<State> state) : state_(std::move(state)) {}

const std::string& Election::name() const { return state_->name; }

Result<Leadership> Election::campaign(std::string value, AcquireOptions options) {
  return detail::wait_for(detail::Async::campaign(*this, std::move(value), std::move(options)));
}

Result<std::optional<Leadership>> Election::try_campaign(std::string value,
                                                         AcquireOptions options) {
  return detail::wait_for(detail::Async::try_campaign(*this, std::move(value), std::move(options)));
}

Result<std::optional<LeaderInfo>> Election::leader() {
  return detail::wait_for(detail::Async::leader(*this));
}

Result<void> Leadership::proclaim(std::string value) {
  return detail::wait_for(detail::Async::proclaim(*this, std::move(value)));
}

Result<Watch> Election::observe(std::function<void(const LeaderChange&)> callback) {
  return detail::wait_for(detail::Async::observe(*this, std::move(callback)));
}

namespace detail {

struct ElectionMaker {
  static primitives::Flow<std::optional<Leadership>> campaign(primitives::ScopePtr scope,
                                                              std::string name, std::string value,
                                                              AcquireOptions options,
                                                              bool may_wait) {
    primitives::Flow<std::optional<Lease>> taking =
        primitives::electing::take(scope, name, value, options, may_wait);
    Result<std::optional<Lease>> lease = co_await std::move(taking);
    if (!lease) co_return lease.error();
    if (!*lease) co_return std::optional<Leadership>();
    co_return std::optional<Leadership>(Leadership(std::move(**lease)));
  }

  static primitives::Flow<Leadership> campaign_waiting(primitives::ScopePtr scope,
                                                       std::string name, std::string value,
                                                       AcquireOptions options) {
    return primitives::whole(campaign(std::move(scope), std::move(name), std::move(value),
                                      std::move(options), /*may_wait=*/true));
  }
};

Start<Leadership> Async::campaign(const Election& election, std::string value,
                                  AcquireOptions options) {
  return primitives::start_flow(election.state_->core, options, ElectionMaker::campaign_waiting,
                                election.state_->name, std::move(value), options);
}

Start<std::optional<Leadership>> Async::try_campaign(const Election& election, std::string value,
                                                     AcquireOptions options) {
  return primitives::start_flow(election.state_->core, options, ElectionMaker::campaign,
                                election.state_->name, std::move(value), options,
                                /*may_wait=*/false);
}

Start<void> Async::proclaim(Leadership& leadership, std::string value) {
  return primitives::start_flow_on(leadership.lease(), {}, primitives::electing::proclaim,
                                   std::move(value));
}

Start<std::optional<LeaderInfo>> Async::leader(const Election& election) {
  return primitives::start_flow(election.state_->core, {}, primitives::electing::find_leader,
                                election.state_->name);
}

Start<Watch> Async::observe(const Election& election,
                            std::function<void(const LeaderChange&)> callback) {
  return primitives::start_flow(election.state_->core, {}, primitives::electing::begin_to_observe,
                                election.state_->name, std::move(callback));
}

}  // namespace detail
}  // namespace holdfast
