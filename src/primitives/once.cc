#include "holdfast/once.h"

#include <utility>

#include "holdfast/client.h"
#include "src/primitives/flow.h"
#include "src/primitives/value_records.h"

namespace holdfast {

struct Once::State {
  const std::shared_ptr<session::Core> core;
  const std::string key;
  const std::chrono::milliseconds retention;
};

namespace primitives::once_only {

// The turn, or what came of the first one.
struct Found {
  std::optional<Lease> lease;
  std::string outcome;
};

namespace {

using primitives::Flow;
using primitives::Pauses;
using primitives::ScopePtr;
using primitives::ValueNews;
using session::Core;

constexpr std::size_t kMostOutcome = 3072;

Result<void> check_retention(std::chrono::milliseconds retention) {
  if (retention >= std::chrono::milliseconds(100) && retention <= std::chrono::hours(24)) return {};
  return Error(Errc::kInvalidArgument, "a retention time of " + std::to_string(retention.count()) +
                                           " ms: it must be 100 ms to 24 h");
}

// Reads the value first and the holder second: if the value names that holder's token, the holder
// wrote it.
Flow<std::optional<std::string>> look(ScopePtr scope, std::string name) {
  const Result<std::string> text = co_await scope->get_value(name);
  if (!text) co_return text.error();
  const Result<std::optional<LockInfo>> info = co_await scope->inspect(name);
  if (!info) co_return info.error();
  const bool held = *info && !(*info)->holders.empty();
  const Token holder = held ? (*info)->holders.front().token : Token{};
  co_return read_outcome(*text, name, holder);
}

Flow<Found> find(ScopePtr scope, std::string name, AcquireOptions options) {
  Pauses pauses;
  std::optional<ValueNews> news;
  options.outlives_client = true;
  while (true) {
    if (news) news->forget();
    Result<std::optional<Lease>> lease =
        co_await scope->try_acquire(name, Mode::exclusive(), options);
    if (!lease) co_return lease.error();
    if (*lease) co_return Found{std::move(*lease), {}};
    Flow<std::optional<std::string>> looking = look(scope, name);
    Result<std::optional<std::string>> outcome = co_await std::move(looking);
    if (!outcome) co_return outcome.error();
    if (*outcome) co_return Found{std::nullopt, std::move(**outcome)};
    if (!news) {
      news.emplace(scope, name);  // Then look again: earlier changes were not reported.
      continue;
    }
    Flow<void> sleeping = news->wait(pauses.next());
    const Result<void> slept = co_await std::move(sleeping);
    if (!slept) co_return slept.error();
  }
}

// The lock is not released: its lease marks the key as done. One step stores the outcome and sets
// the lease, so a caller that is given the outcome can count on the mark.
Flow<void> store(ScopePtr scope, Core::AcquisitionPtr held, std::string outcome,
                 std::chrono::milliseconds retention) {
  const std::string document =
      write_outcome(Token{held->token.epoch, held->token.counter}, outcome);
  co_return co_await scope->keep(held, retention, document);
}

}  // namespace
}  // namespace primitives::once_only

Once Client::once(std::string key, std::chrono::milliseconds retention) const {
  return Once(primitives::make_state<Once::State>(core_, std::move(key), retention));
}

Once::Once(std::shared_ptr<State> state) : state_(std::move(state)) {}

const std::string& Once::key() const { return state_->key; }

Result<OnceTurn> Once::begin(AcquireOptions options) {
  return detail::wait_for(detail::Async::begin(*this, std::move(options)));
}

Result<std::optional<std::string>> Once::outcome() const {
  return detail::wait_for(detail::Async::outcome(*this));
}

Result<void> OnceTurn::complete(std::string outcome) {
  return detail::wait_for(detail::Async::complete(*this, std::move(outcome)));
}

namespace detail {

struct OnceMaker {
  static primitives::Flow<OnceTurn> begin(primitives::ScopePtr scope, std::string key,
                                          std::chrono::milliseconds retention,
                                          AcquireOptions options) {
    const Result<void> good = primitives::once_only::check_retention(retention);
    if (!good) co_return good.error();
    primitives::Flow<primitives::once_only::Found> finding =
        primitives::once_only::find(scope, key, options);
    Result<primitives::once_only::Found> found = co_await std::move(finding);
    if (!found) co_return found.error();
    if (found->lease) co_return OnceTurn(std::move(*found->lease), retention);
    co_return OnceTurn(std::move(found->outcome));
  }
};

Start<OnceTurn> Async::begin(const Once& once, AcquireOptions options) {
  // The outcome is remembered by a lease that outlives its client.
  if (once.state_->core->guarantees().ends_with_client) {
    Error error(Errc::kUnsupported, "once '" + once.state_->key +
                                        "': leases of this store end with their client, so it "
                                        "cannot remember what was done");
    return start_failed<OnceTurn>(std::move(error));
  }
  return primitives::start_flow(once.state_->core, options, OnceMaker::begin, once.state_->key,
                                once.state_->retention, options);
}

Start<std::optional<std::string>> Async::outcome(const Once& once) {
  return primitives::start_flow(once.state_->core, {}, primitives::once_only::look,
                                once.state_->key);
}

Start<void> Async::complete(OnceTurn& turn, std::string outcome) {
  if (!turn.lease_ || outcome.size() > primitives::once_only::kMostOutcome) {
    Error error(Errc::kInvalidArgument,
                turn.lease_
                    ? "an outcome has at most 3072 bytes: store a longer one elsewhere, and "
                      "where to find it here"
                    : "another caller was first: there is nothing to complete");
    return start_failed<void>(std::move(error));
  }
  return primitives::start_flow_on(*turn.lease_, {}, primitives::once_only::store,
                                   std::move(outcome), turn.retention_);
}

}  // namespace detail
}  // namespace holdfast
