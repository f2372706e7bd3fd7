#include "holdfast/barrier.h"

#include <algorithm>
#include <utility>

#include "holdfast/client.h"
#include "holdfast/detail/transient.h"
#include "src/primitives/barrier_turns.h"
#include "src/primitives/flow.h"
#include "src/session/names.h"

namespace holdfast {

namespace primitives {

namespace barring {
namespace {

using primitives::Flow;
using primitives::Pauses;
using primitives::ScopePtr;
using primitives::ValueNews;
using session::Core;
using session::InnerName;

// --- Of a seat.

Token token_of(const session::Acquisition& seat) { return {seat.token.epoch, seat.token.counter}; }

BootInstant end_of(const session::Acquisition& seat) {
  return BootInstant(std::chrono::nanoseconds(seat.deadline_ns.load()));
}

// How the seat ended; nullopt: it has not.
std::optional<Error> end_error(const session::Acquisition& seat, const std::string& name) {
  const LeaseState state = seat.state.load();
  const bool ended = state == LeaseState::kLost || state == LeaseState::kReleased ||
                     base::BootClock::now() >= end_of(seat);
  if (!ended) return std::nullopt;
  if (auto loss = seat.why_lost(); loss && loss->code() == Errc::kClosed) return loss;
  return lost_error(name);
}

// If all seats are taken, a caller that would be refused later is refused before it waits.
Flow<Lease> take_seat(ScopePtr scope, BarrierPtr barrier, InnerName at, AcquireOptions options) {
  const Mode mode = Mode::permits(1, barrier->parties);
  if (scope->cancelled()) co_return scope->cancelled_error();
  Result<std::optional<Lease>> free = co_await scope->try_acquire(barrier->name, mode, options);
  if (!free) co_return free.error();
  if (*free) co_return std::move(**free);
  Flow<Look> viewing = view(scope, barrier, at);
  const Result<Look> seen = co_await std::move(viewing);
  if (!seen) co_return seen.error();
  // A record with members that are gone proves nothing. The next free seat settles it.
  if (seen->is_settled) {
    const auto good = check_use(seen->record, barrier->parties, barrier->policy, barrier->name);
    if (!good) co_return good.error();
  }
  Result<Lease> lease = co_await scope->acquire(barrier->name, mode, options);
  co_return lease;
}

Flow<Lease> join(ScopePtr scope, BarrierPtr barrier, AcquireOptions options) {
  const Result<InnerName> good = record_name(*barrier);
  if (!good) co_return good.error();
  Flow<Lease> sitting = take_seat(scope, barrier, *good, options);
  Result<Lease> seat = co_await std::move(sitting);
  if (!seat) co_return seat.error();
  Change how = [barrier, held = ticket(*seat)](Record& record) -> Result<void> {
    // A seat that has ended must not enter: the others would take it for a dead member.
    if (const auto ended = end_error(*held, barrier->name)) return *ended;
    return enter(record, token_of(*held), barrier->parties, barrier->policy, barrier->name);
  };
  Flow<Record> changing = change(scope, barrier, how);
  const Result<Record> joined = co_await std::move(changing);
  if (!joined) co_return joined.error();
  co_return std::move(seat);
}

// nullopt: the others have not all arrived yet.
std::optional<Result<void>> verdict(const Record& record, const Token& seat,
                                    const std::string& name) {
  const Member* member = record.find(seat);
  if (member == nullptr) return lost_error(name);
  switch (member->step) {
    case Step::kPassed: return Result<void>();
    case Step::kBroken: return broken_error(name);
    case Step::kThere:
    case Step::kArrived: break;
  }
  return std::nullopt;
}

// Ends a call that is over for `why`. A generation that is complete by then counts. If the store is
// silent, the outcome stays unknown.
Flow<void> take_back(ScopePtr scope, BarrierPtr barrier, Token seat, Error why) {
  if (why.code() == Errc::kClosed) co_return why;
  std::optional<Result<void>> before;
  Change how = [&before, seat, barrier](Record& record) {
    // The others may have arrived meanwhile, so the verdict comes before the withdrawal.
    before = verdict(record, seat, barrier->name);
    withdraw(record, seat);
    return Result<void>();
  };
  Flow<Record> changing = change(scope, barrier, how, Patience::kToUndo);
  const Result<Record> changed = co_await std::move(changing);
  if (changed && before) co_return *before;
  if (changed) co_return why;
  if (changed.error().code() == Errc::kClosed) co_return changed.error();
  co_return Error(Errc::kOutcomeUnknown,
                  why.message() + "; the arrival at barrier '" + session::printable(barrier->name) +
                      "' could not be taken back: " + changed.error().message());
}

// The lease limits the wait for a store that does not answer. The next sleep checks whether the
// call is over.
bool may_pass(const Error& error) {
  return detail::is_transient(error.code()) || error.code() == Errc::kTimedOut ||
         error.code() == Errc::kCancelled;
}

Flow<void> await_others(ScopePtr scope, BarrierPtr barrier, Core::AcquisitionPtr seat) {
  const Token token = token_of(*seat);
  const Result<InnerName> at = record_name(*barrier);
  if (!at) co_return at.error();
  Pauses pauses;
  ValueNews news(scope, at->text());
  news.hear_of(barrier->name);  // A seat that ends.
  while (true) {
    const BootInstant until = std::min(pauses.next(), end_of(*seat));
    Flow<void> sleeping = news.wait(until);
    const Result<void> slept = co_await std::move(sleeping);
    if (!slept) {
      Flow<void> taking_back = take_back(scope, barrier, token, slept.error());
      co_return co_await std::move(taking_back);
    }
    news.forget();
    Flow<Record> looking = look(scope, barrier);
    const Result<Record> record = co_await std::move(looking);
    if (!record && !may_pass(record.error())) co_return record.error();
    if (record) {
      const std::optional<Result<void>> found = verdict(*record, token, barrier->name);
      if (found) co_return *found;
    }
    if (const auto ended = end_error(*seat, barrier->name)) co_return *ended;
  }
}

Flow<std::uint64_t> arrive_and_wait(ScopePtr scope, Core::AcquisitionPtr seat, BarrierPtr barrier) {
  if (scope->cancelled()) co_return scope->cancelled_error();
  if (const auto ended = end_error(*seat, barrier->name)) co_return *ended;
  const Token token = token_of(*seat);
  std::uint64_t generation = 0;
  Change how = [&generation, token, barrier](Record& record) {
    generation = record.generation;
    return arrive(record, token, barrier->name);
  };
  Flow<Record> changing = change(scope, barrier, how);
  const Result<Record> arrived = co_await std::move(changing);
  if (!arrived) co_return arrived.error();
  const std::optional<Result<void>> found = verdict(*arrived, token, barrier->name);
  Result<void> passed = found ? *found : Result<void>();
  if (!found) {
    Flow<void> waiting = await_others(scope, barrier, seat);
    passed = co_await std::move(waiting);
  }
  if (!passed) co_return passed.error();
  co_return generation;
}

Flow<void> arrive_and_leave(ScopePtr scope, Core::AcquisitionPtr seat, BarrierPtr barrier) {
  if (const auto ended = end_error(*seat, barrier->name)) co_return *ended;
  Change how = [token = token_of(*seat), barrier](Record& record) -> Result<void> {
    // It has a seat, and yet is not in the record. So it has left before, in a call that did not
    // learn of it.
    if (record.find(token) == nullptr) return {};
    return leave(record, token, barrier->name);
  };
  Flow<Record> changing = change(scope, barrier, how);
  const Result<Record> left = co_await std::move(changing);
  if (!left) co_return left.error();
  // The answer does not matter: the record says already that nobody waits for this seat.
  static_cast<void>(co_await scope->release(seat));
  co_return Result<void>();
}

// --- Of a barrier.

Flow<void> reset(ScopePtr scope, BarrierPtr barrier) {
  Change how = [](Record& record) {
    reopen(record);
    return Result<void>();
  };
  Flow<Record> changing = change(scope, barrier, how);
  const Result<Record> done = co_await std::move(changing);
  if (!done) co_return done.error();
  co_return Result<void>();
}

Flow<BarrierCount> count(ScopePtr scope, BarrierPtr barrier) {
  Flow<Record> looking = look(scope, barrier);
  const Result<Record> record = co_await std::move(looking);
  if (!record) co_return record.error();
  BarrierCount count;
  // Participants that arrived and left were awaited, too.
  count.parties =
      record->parties == 0 ? barrier->parties : record->awaited() + record->arrived_and_left;
  count.joined = static_cast<std::uint32_t>(record->members.size());
  count.arrived = record->waiting() + record->arrived_and_left;
  count.generation = record->generation;
  count.broken = record->broken;
  co_return count;
}

}  // namespace
}  // namespace barring
}  // namespace primitives

Barrier Client::barrier(std::string name, std::uint32_t parties, BarrierPolicy policy) const {
  return Barrier(std::make_shared<const primitives::BarrierState>(
      primitives::BarrierState{core_, std::move(name), parties, policy}));
}

Barrier::Barrier(std::shared_ptr<const primitives::BarrierState> state)
    : state_(std::move(state)) {}

const std::string& Barrier::name() const { return state_->name; }

Result<BarrierSeat> Barrier::join(AcquireOptions options) {
  return detail::wait_for(detail::Async::join(*this, std::move(options)));
}

Result<void> Barrier::reset() { return detail::wait_for(detail::Async::reset(*this)); }

Result<BarrierCount> Barrier::count() { return detail::wait_for(detail::Async::count(*this)); }

Result<std::uint64_t> BarrierSeat::arrive_and_wait(AcquireOptions options) {
  return detail::wait_for(detail::Async::arrive_and_wait(*this, std::move(options)));
}

Result<void> BarrierSeat::arrive_and_leave() {
  return detail::wait_for(detail::Async::arrive_and_leave(*this));
}

namespace detail {

struct BarrierMaker {
  static primitives::Flow<BarrierSeat> join(primitives::ScopePtr scope,
                                            std::shared_ptr<const primitives::BarrierState> barrier,
                                            AcquireOptions options) {
    primitives::Flow<Lease> joining = primitives::barring::join(scope, barrier, options);
    Result<Lease> seat = co_await std::move(joining);
    if (!seat) co_return seat.error();
    co_return BarrierSeat(*std::move(seat), barrier);
  }
};

Start<BarrierSeat> Async::join(const Barrier& barrier, AcquireOptions options) {
  return primitives::start_flow(barrier.state_->core, options, BarrierMaker::join, barrier.state_,
                                options);
}

Start<std::uint64_t> Async::arrive_and_wait(const BarrierSeat& seat, AcquireOptions options) {
  return primitives::start_flow_on(seat.lease_, std::move(options),
                                   primitives::barring::arrive_and_wait, seat.barrier_);
}

Start<void> Async::arrive_and_leave(const BarrierSeat& seat) {
  return primitives::start_flow_on(seat.lease_, {}, primitives::barring::arrive_and_leave,
                                   seat.barrier_);
}

Start<void> Async::reset(const Barrier& barrier) {
  return primitives::start_flow(barrier.state_->core, {}, primitives::barring::reset,
                                barrier.state_);
}

Start<BarrierCount> Async::count(const Barrier& barrier) {
  return primitives::start_flow(barrier.state_->core, {}, primitives::barring::count,
                                barrier.state_);
}

}  // namespace detail
}  // namespace holdfast
