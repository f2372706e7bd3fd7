#include "holdfast/latch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <utility>

#include "holdfast/client.h"
#include "src/primitives/flow.h"
#include "src/primitives/value_records.h"

namespace holdfast {

struct Latch::State {
  const std::shared_ptr<session::Core> core;
  const std::string name;
  std::atomic<std::uint64_t> initial;  // The count after a reset by this handle.
};

namespace primitives::latching {
namespace {

using primitives::Flow;
using primitives::Pauses;
using primitives::ScopePtr;
using primitives::ticket;
using primitives::ValueNews;

Result<Count> read_same(const std::string& text, const std::string& name, std::uint64_t initial) {
  auto count = read_count(text, name, initial);
  if (count && count->initial != initial) {
    return Error(Errc::kInvalidArgument,
                 "latch '" + session::printable(name) + "' is in use with a count of " +
                     std::to_string(count->initial) + ", not " + std::to_string(initial));
  }
  return count;
}

// The longest wait for a turn. Each participant needs a moment, and one that dies in its turn takes
// the rest of a short lease.
constexpr std::chrono::seconds kLongestTurn{30};

using Change = std::function<Result<Count>(const std::string& text)>;

// A caller that counts holds the name exclusively, and for a short lease.
bool is_of_another_use(const LockInfo& lock, std::chrono::milliseconds ttl) {
  return std::any_of(lock.holders.begin(), lock.holders.end(), [&](const HolderInfo& holder) {
    return holder.mode.kind() != Mode::Kind::kExclusive || holder.time_left > 2 * ttl;
  });
}

// Acquires the lock of the same name. If another program holds it for its own purpose, this does
// not wait.
Flow<Lease> enter(ScopePtr scope, std::string name) {
  if (scope->cancelled()) co_return scope->cancelled_error();
  const AcquireOptions options = scope->briefly();
  Result<std::optional<Lease>> tried =
      co_await scope->try_acquire(name, Mode::exclusive(), options);
  if (tried && *tried) co_return std::move(**tried);
  if (tried) {
    const Result<std::string> text = co_await scope->get_value(name);
    if (!text) co_return text.error();
    // The name may be in use for something else, which would never give it back for counting.
    if (const auto count = read_count(*text, name, 0); !count) co_return count.error();
    const Result<std::optional<LockInfo>> seen = co_await scope->inspect(name);
    if (seen && *seen && is_of_another_use(**seen, options.ttl)) {
      co_return Error(Errc::kInvalidArgument, "latch '" + session::printable(name) +
                                                  "': the name is held as a lock of another kind");
    }
  }
  const BootInstant latest = base::BootClock::now() + kLongestTurn;
  Result<Lease> lease = co_await scope->acquire(name, Mode::exclusive(), options, latest);
  co_return lease;
}

// Changes the count under that lock; gives what is left.
Flow<std::uint64_t> change(ScopePtr scope, std::string name, Change how) {
  Flow<Lease> entering = enter(scope, name);
  Result<Lease> lease = co_await std::move(entering);
  if (!lease) co_return lease.error();
  if (scope->cancelled()) co_return scope->cancelled_error();  // A try is not interrupted.
  const Result<std::string> text = co_await scope->get_value(name);
  if (!text) co_return text.error();
  const Result<Count> changed = how(*text);
  if (!changed) co_return changed.error();
  const std::string written = write_count(*changed);
  const Result<void> set = co_await scope->set_value(ticket(*lease), written);
  if (!set) co_return set.error();
  // The answer does not matter: the count is stored.
  static_cast<void>(co_await scope->release(ticket(*lease)));
  co_return changed->left;
}

Flow<std::uint64_t> count_down(ScopePtr scope, std::string name, std::uint64_t initial,
                               std::uint64_t n) {
  Change how = [name, initial, n](const std::string& text) -> Result<Count> {
    Result<Count> count = read_same(text, name, initial);
    if (count) count->left -= std::min(count->left, n);
    return count;
  };
  return change(std::move(scope), std::move(name), std::move(how));
}

template <typename State>
Flow<void> reset(ScopePtr scope, std::shared_ptr<State> state, std::uint64_t to) {
  const std::string name = state->name;
  Change how = [name, to](const std::string& text) -> Result<Count> {
    if (auto count = read_count(text, name, to); !count) return count;
    return Count{to, to};
  };
  Flow<std::uint64_t> changing = change(scope, name, how);
  const Result<std::uint64_t> left = co_await std::move(changing);
  if (!left) co_return left.error();
  state->initial = to;
  co_return Result<void>();
}

Flow<std::uint64_t> look(ScopePtr scope, std::string name, std::uint64_t initial) {
  const Result<std::string> text = co_await scope->get_value(name);
  if (!text) co_return text.error();
  const Result<Count> count = read_count(*text, name, initial);
  if (!count) co_return count.error();
  co_return count->left;
}

Flow<void> wait(ScopePtr scope, std::string name, std::uint64_t initial) {
  Pauses pauses;
  std::optional<ValueNews> news;
  while (true) {
    if (news) news->forget();
    Flow<std::uint64_t> looked = look(scope, name, initial);
    const Result<std::uint64_t> left = co_await std::move(looked);
    if (!left) co_return left.error();
    if (*left == 0) co_return Result<void>();
    if (!news) {
      news.emplace(scope, name);  // Then look again: earlier changes were not reported.
      continue;
    }
    Flow<void> sleeping = news->wait(pauses.next());
    const Result<void> slept = co_await std::move(sleeping);
    if (!slept) co_return slept;
  }
}

Flow<std::uint64_t> arrive_and_wait(ScopePtr scope, std::string name, std::uint64_t initial,
                                    std::uint64_t n) {
  Flow<std::uint64_t> counting = count_down(scope, name, initial, n);
  const Result<std::uint64_t> left = co_await std::move(counting);
  if (!left || *left == 0) co_return left;
  Flow<void> waiting = wait(scope, name, initial);
  const Result<void> opened = co_await std::move(waiting);
  if (!opened) co_return opened.error();
  co_return std::uint64_t{0};
}

}  // namespace
}  // namespace primitives::latching

Latch Client::latch(std::string name, std::uint64_t count) const {
  return Latch(primitives::make_state<Latch::State>(core_, std::move(name), count));
}

Latch::Latch(std::shared_ptr<State> state) : state_(std::move(state)) {}

const std::string& Latch::name() const { return state_->name; }

Result<std::uint64_t> Latch::count_down(std::uint64_t n) {
  return detail::wait_for(detail::Async::count_down(*this, n));
}

Result<void> Latch::wait(AcquireOptions options) {
  return detail::wait_for(detail::Async::wait(*this, std::move(options)));
}

Result<bool> Latch::try_wait() {
  const auto left = count();
  if (!left) return left.error();
  return *left == 0;
}

Result<std::uint64_t> Latch::arrive_and_wait(std::uint64_t n, AcquireOptions options) {
  return detail::wait_for(detail::Async::arrive_and_wait(*this, n, std::move(options)));
}

Result<std::uint64_t> Latch::count() { return detail::wait_for(detail::Async::count(*this)); }

Result<void> Latch::reset(std::uint64_t count) {
  return detail::wait_for(detail::Async::reset(*this, count));
}

namespace detail {

Start<std::uint64_t> Async::count_down(const Latch& latch, std::uint64_t n) {
  return primitives::start_flow(latch.state_->core, {}, primitives::latching::count_down,
                                latch.state_->name, latch.state_->initial.load(), n);
}

Start<void> Async::wait(const Latch& latch, AcquireOptions options) {
  return primitives::start_flow(latch.state_->core, std::move(options), primitives::latching::wait,
                                latch.state_->name, latch.state_->initial.load());
}

Start<std::uint64_t> Async::arrive_and_wait(const Latch& latch, std::uint64_t n,
                                            AcquireOptions options) {
  return primitives::start_flow(latch.state_->core, std::move(options),
                                primitives::latching::arrive_and_wait, latch.state_->name,
                                latch.state_->initial.load(), n);
}

Start<std::uint64_t> Async::count(const Latch& latch) {
  return primitives::start_flow(latch.state_->core, {}, primitives::latching::look,
                                latch.state_->name, latch.state_->initial.load());
}

Start<void> Async::reset(const Latch& latch, std::uint64_t count) {
  return primitives::start_flow(latch.state_->core, {}, primitives::latching::reset<Latch::State>,
                                latch.state_, count);
}

}  // namespace detail
}  // namespace holdfast
