#include "src/primitives/barrier_turns.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "src/session/names.h"

namespace holdfast::primitives::barring {
namespace {

using session::Core;

// The record is held for a few requests only, and by a lease that is soon over when its holder dies
// over it.
constexpr std::chrono::milliseconds kTurnLease(1'000);
// Longer than many turns, and than the lease of a client that died in its turn.
constexpr std::chrono::milliseconds kLongestTurn(15'000);
// A call with less time gets this much, because the others' turns take moments only.
constexpr std::chrono::milliseconds kShortestTurn(500);
constexpr int kTurns = 5;

std::vector<Token> seats_of(const std::optional<LockInfo>& info) {
  std::vector<Token> seats;
  if (!info) return seats;
  for (const HolderInfo& holder : info->holders) seats.push_back(holder.token);
  return seats;
}

AcquireOptions turn_options(const Scope& scope, Patience patience) {
  AcquireOptions options;
  options.ttl = std::max(kTurnLease, scope.core().guarantees().min_ttl);
  if (patience == Patience::kToUndo) {
    options.wait = options.ttl + kShortestTurn;
  } else if (scope.until() == BootInstant::max()) {
    options.wait = kLongestTurn;
  } else {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(scope.until() - base::BootClock::now());
    options.wait = std::clamp(left, kShortestTurn, kLongestTurn);
  }
  return options;
}

// Runs even if the call is over or cancelled, because it undoes an arrival.
auto take_to_undo(const ScopePtr& scope, const session::InnerName& name,
                  const AcquireOptions& options) {
  return asked<Lease>([scope, name, options](const Core::Done<Lease>& done) {
    scope->core().acquire(name, options, [name, done](Result<Core::AcquisitionPtr> got) {
      done(detail::as_lease(std::move(got), name.text()));
    });
  });
}

Flow<Lease> take_record(ScopePtr scope, session::InnerName name, Patience patience) {
  const AcquireOptions options = turn_options(*scope, patience);
  if (patience == Patience::kToUndo) {
    Result<Lease> lease = co_await take_to_undo(scope, name, options);
    co_return lease;
  }
  Result<Lease> lease = co_await scope->acquire(name, options);
  // Other participants' turns took the call's time.
  if (!lease && lease.error().code() == Errc::kTimedOut && scope->is_over()) {
    co_return scope->timed_out_error();
  }
  co_return lease;
}

auto read_text(const ScopePtr& scope, const session::InnerName& name) {
  return asked<std::string>([scope, name](Core::Done<std::string> done) {
    scope->core().administration().get_value(name, std::move(done));
  });
}

// The result of one turn. `outcome` is that of the change. Its error does not undo that members
// which are gone were dropped.
struct Turn {
  Record record;
  Result<void> outcome;
};

Flow<Turn> take_turn(ScopePtr scope, BarrierPtr barrier, session::InnerName at, Change how,
                     Patience patience) {
  Flow<Lease> taking = take_record(scope, at, patience);
  Result<Lease> lease = co_await std::move(taking);
  if (!lease) co_return lease.error();
  const Result<std::string> text = co_await read_text(scope, at);
  if (!text) co_return text.error();
  // Seats are read after the record. A member stands in the record only after it took its seat, so
  // a seat that is missing now has ended.
  const Result<std::optional<LockInfo>> info = co_await scope->inspect(barrier->name);
  if (!info) co_return info.error();
  Result<Record> record = read_record(*text, barrier->name);
  if (!record) co_return record.error();
  drop_gone(*record, seats_of(*info));
  Turn turn{*record, {}};
  turn.outcome = how(turn.record);
  if (!turn.outcome) turn.record = *record;
  const std::string written = write_record(turn.record);
  if (turn.record.parties > 0 && written != *text) {
    const Result<void> set = co_await scope->set_value(ticket(*lease), written);
    if (!set) co_return set.error();
  }
  // The answer does not matter: the record is stored.
  static_cast<void>(co_await scope->release(ticket(*lease)));
  co_return std::move(turn);
}

Flow<Record> make_change(ScopePtr scope, BarrierPtr barrier, Change how, Patience patience) {
  const Result<session::InnerName> at = record_name(*barrier);
  if (!at) co_return at.error();
  Error error(Errc::kUnavailable, "");
  for (int turns = 0; turns < kTurns; ++turns) {
    Flow<Turn> taking = take_turn(scope, barrier, *at, how, patience);
    Result<Turn> turn = co_await std::move(taking);
    if (turn && !turn->outcome) co_return turn->outcome.error();
    if (turn) co_return std::move(turn->record);
    error = turn.error();
    // The lock of the record was lost on the way: nothing was written.
    const bool again = error.code() == Errc::kLost || error.code() == Errc::kBroken;
    if (!again) break;
  }
  const Errc code = error.code();
  const bool unserved = code == Errc::kLost || code == Errc::kBroken || code == Errc::kTimedOut;
  const bool own_time = code == Errc::kTimedOut && patience == Patience::kOfTheCall;
  if (!unserved || (own_time && scope->is_over())) co_return error;
  co_return Error(Errc::kUnavailable, "barrier '" + session::printable(barrier->name) +
                                          "': its record could not be had: " + error.message());
}

Flow<Look> make_view(ScopePtr scope, BarrierPtr barrier, session::InnerName at) {
  const Result<std::string> text = co_await read_text(scope, at);
  if (!text) co_return text.error();
  const Result<std::optional<LockInfo>> info = co_await scope->inspect(barrier->name);
  if (!info) co_return info.error();
  Result<Record> record = read_record(*text, barrier->name);
  if (!record) co_return record.error();
  Record settled = *record;
  const bool anybody_gone = drop_gone(settled, seats_of(*info));
  co_return Look{*std::move(record), !anybody_gone};
}

Flow<Record> make_look(ScopePtr scope, BarrierPtr barrier) {
  const Result<session::InnerName> at = record_name(*barrier);
  if (!at) co_return at.error();
  Flow<Look> viewing = make_view(scope, barrier, *at);
  Result<Look> seen = co_await std::move(viewing);
  if (!seen) co_return seen.error();
  if (seen->is_settled) co_return std::move(seen->record);
  // A member is gone. Its end is written down, so that the others see it.
  Change nothing = [](Record&) { return Result<void>(); };
  Flow<Record> changing = make_change(scope, barrier, nothing, Patience::kOfTheCall);
  co_return co_await std::move(changing);
}

}  // namespace

Result<session::InnerName> record_name(const BarrierState& barrier) {
  if (barrier.parties == 0 || barrier.parties > kMostParties) {
    return Error(Errc::kInvalidArgument, "a barrier for " + std::to_string(barrier.parties) +
                                             " parties: there must be at least one and at most " +
                                             std::to_string(kMostParties) + " at most");
  }
  return session::InnerName::make(barrier.name, "barrier");
}

// Coroutines with linkage may hold nothing of this file's own.

Flow<Record> change(ScopePtr scope, BarrierPtr barrier, Change how, Patience patience) {
  return make_change(std::move(scope), std::move(barrier), std::move(how), patience);
}

Flow<Look> view(ScopePtr scope, BarrierPtr barrier, session::InnerName at) {
  return make_view(std::move(scope), std::move(barrier), std::move(at));
}

Flow<Record> look(ScopePtr scope, BarrierPtr barrier) {
  return make_look(std::move(scope), std::move(barrier));
}

}  // namespace holdfast::primitives::barring
