// Holdfast's waiting calls as asynchronous operations of Asio, for any completion token:
//
//   Result<Lease> lease = co_await async_acquire(mutex, options, asio::use_awaitable);
//   async_acquire(mutex, options, [](Result<Lease> lease) { ... });
//   std::future<Result<Lease>> lease = async_acquire(mutex, options, asio::use_future);
//
// With gcc 12 name the options, as above: in a statement with a co_await that compiler frees the
// members of a temporary `{.ttl = ...}` twice (found by the address sanitizer; not with clang, nor
// in calls with other tokens). Without options, use the overload that takes none.
//
// Only this header of Holdfast and its part include Asio (standalone, 1.22 or later, without
// Boost), which the program brings along; the library's binary does not depend on it.
//
// The signature is always void(Result<T>), with the T of the blocking call of the same name.
// Errors are values, also for coroutines and futures. The only exceptions are those that Asio
// itself throws.
//
// Guarantee: an operation completes exactly once, also when the client is closed or this is a
// forked child (kClosed), and never inside the function that starts it. An operation that was in
// progress at a fork completes in the parent. A lease whose handler never runs, because its
// executor's context ended first, is given back.
// Not guaranteed: that operations complete in the order of their starts. That a lease is still held
// when the handler runs, because the executor may be late: ask held(), and fence.
//
// Executor: the handler runs on its associated executor (asio::bind_executor, a coroutine's own);
// a handler without one, like a plain lambda, runs on asio::system_executor, Asio's pool of
// threads. A thread of the client posts it there: code of the program never runs on the client's
// threads. An executor that runs posted work on the spot breaks this rule, and delays leases.
// The operation counts as outstanding work of the executor: io_context::run() waits for it.
// Allocator: the operation's state comes from the handler's associated allocator, which must be
// safe to use from the client's threads.
//
// Cancellation, by the handler's associated cancellation slot:
//   what waits for others: async_acquire, async_try_acquire and their kin, async_upgrade,
//   async_wait, async_arrive_and_wait, async_join, async_campaign, async_begin
//                                       total, partial or terminal: kCancelled. No ticket is left
//                                       in the queue and a grant that crossed it on the way is
//                                       given back; it completes when the store has confirmed that
//                                       (or kOutcomeUnknown: it may be held for one ttl).
//   what asks: async_connect, async_adopt, async_inspect, async_check, async_list, async_watch,
//   async_doctor, async_count, async_leader, async_observe, async_outcome
//                                       total, partial or terminal: kCancelled at once; an answer
//                                       that comes later is dropped (a lease is released).
//   what writes: async_release, async_renew, async_break_lock, async_downgrade, async_resize,
//   async_count_down, async_arrive_and_leave, async_reset, async_proclaim, async_complete
//                                       terminal only: kOutcomeUnknown at once; what was asked for
//                                       goes on and may take effect.
//   async_close                         not at all: it has its deadline.
// AcquireOptions::cancel and ::wait do the same as in blocking calls.
//
// Thread-safety: as the blocking calls'; a signal may be emitted on any thread that may touch its
// slot.
// Ownership: an operation keeps what it needs of the client; Client, Mutex, Lease and all other
// objects of this library may go before it completes. A Lease takes one release or renewal at a
// time. The executor's context must outlive the client, or all operations that were started on it.
// One that lives until the end of the program, like Asio's pool, does if it was made before the
// client: the end waits for completions that are being posted, and then none is posted any more. A
// program that ends with waits under way should close() the client before: else their tickets, and
// a lease that nobody has taken yet, may stay at the store until they run out. Time, fairness,
// errors: as the blocking call's.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <asio/associated_allocator.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/cancellation_type.hpp>

#include "holdfast/client.h"
#include "holdfast/detail/asio_operation.h"
#include "holdfast/detail/async.h"
#include "holdfast/lease.h"
#include "holdfast/mutex.h"

namespace holdfast {

namespace detail {

// The effect of a cancellation signal on an operation.
enum class OnSignal {
  kEndWait,    // Any: the library ends the wait, and then completes.
  kStopRead,   // Any: completes with kCancelled; an answer that comes later is dropped.
  kStopWrite,  // Terminal only: completes with kOutcomeUnknown.
  kNothing
};

// The part of an operation that a signal ends. It is kept apart because the operation's memory
// belongs to the handler and must be free when the handler runs, maybe before the starting call has
// returned.
class Ending {
 public:
  // A signal and the start of the wait may cross: whoever comes second ends the wait.
  void started(Handle wait) {
    wait_ = std::move(wait);
    if ((progress_.fetch_or(kStarted) & kSignalled) != 0) Async::cancel(wait_);
  }
  void end_wait() {
    if ((progress_.fetch_or(kSignalled) & kStarted) != 0) Async::cancel(wait_);
  }

 private:
  static constexpr unsigned kStarted = 1;
  static constexpr unsigned kSignalled = 2;

  std::atomic<unsigned> progress_{0};
  Handle wait_;
};

// In the slot. Does not keep the operation: the slot may belong to what its handler owns.
template <typename T, typename Op>
struct Signalled {
  std::weak_ptr<Op> operation;
  std::shared_ptr<Ending> ending;
  OnSignal what;

  void operator()(asio::cancellation_type type) const {
    if (type == asio::cancellation_type::none || what == OnSignal::kNothing) return;
    const bool terminal =
        (type & asio::cancellation_type::terminal) != asio::cancellation_type::none;
    if (what == OnSignal::kStopWrite && !terminal) return;
    switch (what) {
      case OnSignal::kEndWait: return ending->end_wait();
      case OnSignal::kStopRead: return stop({Errc::kCancelled, "the call was cancelled"});
      case OnSignal::kStopWrite:
        return stop({Errc::kOutcomeUnknown,
                     "the call was cancelled on its way: it may or may not take effect"});
      case OnSignal::kNothing: return;
    }
  }

  void stop(Error why) const {
    auto alive = operation.lock();
    if (!alive) return;
    Op& op = *alive;
    op.complete(std::move(alive), std::move(why));
  }
};

// One type per kind of result, not per operation: a program with many is compiled sooner.
template <typename T>
struct Initiation {
  Start<T> start;
  OnSignal on_signal;

  template <typename H>
  void operator()(H&& handler) {
    using Handler = std::decay_t<H>;
    using Op = Operation<T, Handler>;
    const auto allocator = asio::get_associated_allocator(handler);
    auto slot = asio::get_associated_cancellation_slot(handler);
    auto operation = std::allocate_shared<Op>(allocator, std::forward<H>(handler));
    std::shared_ptr<Ending> ending;
    if (slot.is_connected()) {
      if (on_signal == OnSignal::kEndWait) ending = std::make_shared<Ending>();
      slot.assign(Signalled<T, Op>{operation, ending, on_signal});
    }
    Handle wait = start(std::move(operation));
    if (ending) ending->started(std::move(wait));
  }
};

// `start` is called with the receiver, at once or when the token says so.
template <typename CompletionToken, typename T>
decltype(auto) initiate(OnSignal on_signal, Start<T> start,
                        std::remove_reference_t<CompletionToken>& token) {
  return asio::async_initiate<CompletionToken, void(Result<T>)>(
      Initiation<T>{std::move(start), on_signal}, token);
}

// The same for a wait, a read and a write of the store.
template <typename CompletionToken, typename T>
decltype(auto) wait(Start<T> start, std::remove_reference_t<CompletionToken>& token) {
  return initiate<CompletionToken>(OnSignal::kEndWait, std::move(start), token);
}
template <typename CompletionToken, typename T>
decltype(auto) read(Start<T> start, std::remove_reference_t<CompletionToken>& token) {
  return initiate<CompletionToken>(OnSignal::kStopRead, std::move(start), token);
}
template <typename CompletionToken, typename T>
decltype(auto) write(Start<T> start, std::remove_reference_t<CompletionToken>& token) {
  return initiate<CompletionToken>(OnSignal::kStopWrite, std::move(start), token);
}

}  // namespace detail

// Client::connect(). It looks at the store on a thread of its own, since it may block.
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<Client>)) CompletionToken>
decltype(auto) async_connect(std::string url, ClientOptions options, CompletionToken&& token) {
  return detail::read<CompletionToken>(detail::Async::connect(std::move(url), std::move(options)),
                                       token);
}

// Mutex::acquire().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<Lease>)) CompletionToken>
decltype(auto) async_acquire(const Mutex& mutex, AcquireOptions options, CompletionToken&& token) {
  return detail::wait<CompletionToken>(detail::Async::acquire(mutex, std::move(options)), token);
}

template <ASIO_COMPLETION_TOKEN_FOR(void(Result<Lease>)) CompletionToken>
decltype(auto) async_acquire(const Mutex& mutex, CompletionToken&& token) {
  return async_acquire(mutex, AcquireOptions(), std::forward<CompletionToken>(token));
}

// Mutex::try_acquire().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<std::optional<Lease>>)) CompletionToken>
decltype(auto) async_try_acquire(const Mutex& mutex, AcquireOptions options,
                                 CompletionToken&& token) {
  return detail::wait<CompletionToken>(detail::Async::try_acquire(mutex, std::move(options)),
                                       token);
}

template <ASIO_COMPLETION_TOKEN_FOR(void(Result<std::optional<Lease>>)) CompletionToken>
decltype(auto) async_try_acquire(const Mutex& mutex, CompletionToken&& token) {
  return async_try_acquire(mutex, AcquireOptions(), std::forward<CompletionToken>(token));
}

// Client::acquire(): any mode.
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<Lease>)) CompletionToken>
decltype(auto) async_acquire(const Client& client, std::string name, Mode mode,
                             AcquireOptions options, CompletionToken&& token) {
  return detail::wait<CompletionToken>(
      detail::Async::acquire(client, std::move(name), mode, std::move(options)), token);
}

// Client::try_acquire(): any mode.
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<std::optional<Lease>>)) CompletionToken>
decltype(auto) async_try_acquire(const Client& client, std::string name, Mode mode,
                                 AcquireOptions options, CompletionToken&& token) {
  return detail::wait<CompletionToken>(
      detail::Async::try_acquire(client, std::move(name), mode, std::move(options)), token);
}

// Client::acquire_all(). A signal ends the wait, and what was taken is given back.
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<LeaseSet>)) CompletionToken>
decltype(auto) async_acquire_all(const Client& client, std::vector<LockRequest> locks,
                                 AcquireOptions options, CompletionToken&& token) {
  return detail::wait<CompletionToken>(
      detail::Async::acquire_all(client, std::move(locks), std::move(options)), token);
}

// Client::try_acquire_all().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<std::optional<LeaseSet>>)) CompletionToken>
decltype(auto) async_try_acquire_all(const Client& client, std::vector<LockRequest> locks,
                                     AcquireOptions options, CompletionToken&& token) {
  return detail::wait<CompletionToken>(
      detail::Async::try_acquire_all(client, std::move(locks), std::move(options)), token);
}

// LeaseSet::release().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<void>)) CompletionToken>
decltype(auto) async_release(LeaseSet& set, CompletionToken&& token) {
  return detail::write<CompletionToken>(detail::Async::release(set), token);
}

// Lease::release(). From the moment it is started the lease holds nothing any more.
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<void>)) CompletionToken>
decltype(auto) async_release(Lease& lease, CompletionToken&& token) {
  return detail::write<CompletionToken>(detail::Async::release(lease), token);
}

// Lease::renew().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<void>)) CompletionToken>
decltype(auto) async_renew(Lease& lease, CompletionToken&& token) {
  return detail::write<CompletionToken>(detail::Async::renew(lease), token);
}

// Client::adopt().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<Lease>)) CompletionToken>
decltype(auto) async_adopt(const Client& client, std::string lease_id, AcquireOptions options,
                           CompletionToken&& token) {
  return detail::read<CompletionToken>(
      detail::Async::adopt(client, std::move(lease_id), std::move(options)), token);
}

// Client::inspect().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<std::optional<LockInfo>>)) CompletionToken>
decltype(auto) async_inspect(const Client& client, std::string name, CompletionToken&& token) {
  return detail::read<CompletionToken>(detail::Async::inspect(client, std::move(name)), token);
}

// Client::check().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<bool>)) CompletionToken>
decltype(auto) async_check(const Client& client, std::string name, Token lock_token,
                           CompletionToken&& token) {
  return detail::read<CompletionToken>(detail::Async::check(client, std::move(name), lock_token),
                                       token);
}

// Client::list().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<std::vector<LockInfo>>)) CompletionToken>
decltype(auto) async_list(const Client& client, std::string prefix, std::size_t limit,
                          CompletionToken&& token) {
  return detail::read<CompletionToken>(detail::Async::list(client, std::move(prefix), limit),
                                       token);
}

// Client::watch(). The events come to `callback` on the client's notifier thread, as they do there.
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<Watch>)) CompletionToken>
decltype(auto) async_watch(const Client& client, std::string prefix,
                           std::function<void(const LockEvent&)> callback,
                           CompletionToken&& token) {
  return detail::read<CompletionToken>(
      detail::Async::watch(client, std::move(prefix), std::move(callback)), token);
}

// Client::break_lock().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<void>)) CompletionToken>
decltype(auto) async_break_lock(const Client& client, std::string name, Token token,
                                std::string reason, CompletionToken&& completion) {
  return detail::write<CompletionToken>(
      detail::Async::break_lock(client, std::move(name), token, std::move(reason)), completion);
}

// Client::doctor().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<DoctorReport>)) CompletionToken>
decltype(auto) async_doctor(const Client& client, CompletionToken&& token) {
  return detail::read<CompletionToken>(detail::Async::doctor(client), token);
}

// Client::close(), on a thread of its own.
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<void>)) CompletionToken>
decltype(auto) async_close(const Client& client, std::chrono::milliseconds deadline,
                           CompletionToken&& token) {
  return detail::initiate<CompletionToken>(detail::OnSignal::kNothing,
                                           detail::Async::close(client, deadline), token);
}

// --- Readers and writers.

// SharedMutex::acquire(), for writing.
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<Lease>)) CompletionToken>
decltype(auto) async_acquire(const SharedMutex& mutex, AcquireOptions options,
                             CompletionToken&& token) {
  return detail::wait<CompletionToken>(detail::Async::acquire(mutex, std::move(options)), token);
}

// SharedMutex::try_acquire().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<std::optional<Lease>>)) CompletionToken>
decltype(auto) async_try_acquire(const SharedMutex& mutex, AcquireOptions options,
                                 CompletionToken&& token) {
  return detail::wait<CompletionToken>(detail::Async::try_acquire(mutex, std::move(options)),
                                       token);
}

// SharedMutex::acquire_shared(), for reading.
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<Lease>)) CompletionToken>
decltype(auto) async_acquire_shared(const SharedMutex& mutex, AcquireOptions options,
                                    CompletionToken&& token) {
  return detail::wait<CompletionToken>(detail::Async::acquire_shared(mutex, std::move(options)),
                                       token);
}

// SharedMutex::try_acquire_shared().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<std::optional<Lease>>)) CompletionToken>
decltype(auto) async_try_acquire_shared(const SharedMutex& mutex, AcquireOptions options,
                                        CompletionToken&& token) {
  return detail::wait<CompletionToken>(detail::Async::try_acquire_shared(mutex, std::move(options)),
                                       token);
}

// SharedMutex::upgrade(). The reader is held as before when it is cancelled.
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<Lease>)) CompletionToken>
decltype(auto) async_upgrade(const SharedMutex& mutex, const Lease& reader, AcquireOptions options,
                             CompletionToken&& token) {
  return detail::wait<CompletionToken>(detail::Async::upgrade(mutex, reader, std::move(options)),
                                       token);
}

// SharedMutex::downgrade().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<void>)) CompletionToken>
decltype(auto) async_downgrade(const SharedMutex& mutex, Lease& writer, CompletionToken&& token) {
  return detail::write<CompletionToken>(detail::Async::downgrade(mutex, writer), token);
}

// --- Permits.

// Semaphore::acquire().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<Lease>)) CompletionToken>
decltype(auto) async_acquire(const Semaphore& semaphore, std::uint32_t permits,
                             AcquireOptions options, CompletionToken&& token) {
  return detail::wait<CompletionToken>(
      detail::Async::acquire(semaphore, permits, std::move(options)), token);
}

// Semaphore::try_acquire().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<std::optional<Lease>>)) CompletionToken>
decltype(auto) async_try_acquire(const Semaphore& semaphore, std::uint32_t permits,
                                 AcquireOptions options, CompletionToken&& token) {
  return detail::wait<CompletionToken>(
      detail::Async::try_acquire(semaphore, permits, std::move(options)), token);
}

// Semaphore::resize().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<bool>)) CompletionToken>
decltype(auto) async_resize(const Semaphore& semaphore, std::uint32_t capacity,
                            CompletionToken&& token) {
  return detail::write<CompletionToken>(detail::Async::resize(semaphore, capacity), token);
}

// Semaphore::count().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<SemaphoreCount>)) CompletionToken>
decltype(auto) async_count(const Semaphore& semaphore, CompletionToken&& token) {
  return detail::read<CompletionToken>(detail::Async::count(semaphore), token);
}

// --- Reentrancy and stripes.

// RecursiveMutex::acquire().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<RecursiveLease>)) CompletionToken>
decltype(auto) async_acquire(const RecursiveMutex& mutex, const Owner& owner,
                             AcquireOptions options, CompletionToken&& token) {
  return detail::wait<CompletionToken>(detail::Async::acquire(mutex, owner, std::move(options)),
                                       token);
}

// RecursiveMutex::try_acquire().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<std::optional<RecursiveLease>>)) CompletionToken>
decltype(auto) async_try_acquire(const RecursiveMutex& mutex, const Owner& owner,
                                 AcquireOptions options, CompletionToken&& token) {
  return detail::wait<CompletionToken>(detail::Async::try_acquire(mutex, owner, std::move(options)),
                                       token);
}

// RecursiveLease::release().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<void>)) CompletionToken>
decltype(auto) async_release(RecursiveLease& lease, CompletionToken&& token) {
  return detail::write<CompletionToken>(detail::Async::release(lease), token);
}

// StripedMutex::acquire().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<Lease>)) CompletionToken>
decltype(auto) async_acquire(const StripedMutex& mutex, std::string_view key,
                             AcquireOptions options, CompletionToken&& token) {
  return detail::wait<CompletionToken>(detail::Async::acquire(mutex, key, std::move(options)),
                                       token);
}

// StripedMutex::try_acquire().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<std::optional<Lease>>)) CompletionToken>
decltype(auto) async_try_acquire(const StripedMutex& mutex, std::string_view key,
                                 AcquireOptions options, CompletionToken&& token) {
  return detail::wait<CompletionToken>(detail::Async::try_acquire(mutex, key, std::move(options)),
                                       token);
}

// StripedMutex::acquire_all().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<LeaseSet>)) CompletionToken>
decltype(auto) async_acquire_all(const StripedMutex& mutex, AcquireOptions options,
                                 CompletionToken&& token) {
  return detail::wait<CompletionToken>(detail::Async::acquire_all(mutex, std::move(options)),
                                       token);
}

// StripedMutex::acquire_any().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<Lease>)) CompletionToken>
decltype(auto) async_acquire_any(const StripedMutex& mutex, std::string_view key,
                                 AcquireOptions options, CompletionToken&& token) {
  return detail::wait<CompletionToken>(detail::Async::acquire_any(mutex, key, std::move(options)),
                                       token);
}

// --- Latch.

// Latch::count_down().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<std::uint64_t>)) CompletionToken>
decltype(auto) async_count_down(const Latch& latch, std::uint64_t n, CompletionToken&& token) {
  return detail::write<CompletionToken>(detail::Async::count_down(latch, n), token);
}

// Latch::wait().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<void>)) CompletionToken>
decltype(auto) async_wait(const Latch& latch, AcquireOptions options, CompletionToken&& token) {
  return detail::wait<CompletionToken>(detail::Async::wait(latch, std::move(options)), token);
}

// Latch::arrive_and_wait(). Cancelled, it may have counted, or not.
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<std::uint64_t>)) CompletionToken>
decltype(auto) async_arrive_and_wait(const Latch& latch, std::uint64_t n, AcquireOptions options,
                                     CompletionToken&& token) {
  return detail::wait<CompletionToken>(detail::Async::arrive_and_wait(latch, n, std::move(options)),
                                       token);
}

// Latch::count().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<std::uint64_t>)) CompletionToken>
decltype(auto) async_count(const Latch& latch, CompletionToken&& token) {
  return detail::read<CompletionToken>(detail::Async::count(latch), token);
}

// Latch::reset().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<void>)) CompletionToken>
decltype(auto) async_reset(const Latch& latch, std::uint64_t count, CompletionToken&& token) {
  return detail::write<CompletionToken>(detail::Async::reset(latch, count), token);
}

// --- Barrier.

// Barrier::join().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<BarrierSeat>)) CompletionToken>
decltype(auto) async_join(const Barrier& barrier, AcquireOptions options, CompletionToken&& token) {
  return detail::wait<CompletionToken>(detail::Async::join(barrier, std::move(options)), token);
}

// BarrierSeat::arrive_and_wait(). Cancelled, the arrival is taken back.
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<std::uint64_t>)) CompletionToken>
decltype(auto) async_arrive_and_wait(const BarrierSeat& seat, AcquireOptions options,
                                     CompletionToken&& token) {
  return detail::wait<CompletionToken>(detail::Async::arrive_and_wait(seat, std::move(options)),
                                       token);
}

// BarrierSeat::arrive_and_leave().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<void>)) CompletionToken>
decltype(auto) async_arrive_and_leave(const BarrierSeat& seat, CompletionToken&& token) {
  return detail::write<CompletionToken>(detail::Async::arrive_and_leave(seat), token);
}

// Barrier::reset().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<void>)) CompletionToken>
decltype(auto) async_reset(const Barrier& barrier, CompletionToken&& token) {
  return detail::write<CompletionToken>(detail::Async::reset(barrier), token);
}

// Barrier::count().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<BarrierCount>)) CompletionToken>
decltype(auto) async_count(const Barrier& barrier, CompletionToken&& token) {
  return detail::read<CompletionToken>(detail::Async::count(barrier), token);
}

// --- Election.

// Election::campaign().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<Leadership>)) CompletionToken>
decltype(auto) async_campaign(const Election& election, std::string value, AcquireOptions options,
                              CompletionToken&& token) {
  return detail::wait<CompletionToken>(
      detail::Async::campaign(election, std::move(value), std::move(options)), token);
}

// Election::try_campaign().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<std::optional<Leadership>>)) CompletionToken>
decltype(auto) async_try_campaign(const Election& election, std::string value,
                                  AcquireOptions options, CompletionToken&& token) {
  return detail::wait<CompletionToken>(
      detail::Async::try_campaign(election, std::move(value), std::move(options)), token);
}

// Leadership::proclaim().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<void>)) CompletionToken>
decltype(auto) async_proclaim(Leadership& leadership, std::string value, CompletionToken&& token) {
  return detail::write<CompletionToken>(detail::Async::proclaim(leadership, std::move(value)),
                                        token);
}

// Election::leader().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<std::optional<LeaderInfo>>)) CompletionToken>
decltype(auto) async_leader(const Election& election, CompletionToken&& token) {
  return detail::read<CompletionToken>(detail::Async::leader(election), token);
}

// Election::observe(). The changes come to `callback` on the client's notifier thread.
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<Watch>)) CompletionToken>
decltype(auto) async_observe(const Election& election,
                             std::function<void(const LeaderChange&)> callback,
                             CompletionToken&& token) {
  return detail::read<CompletionToken>(detail::Async::observe(election, std::move(callback)),
                                       token);
}

// --- Once-guard and jobs.

// Once::begin().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<OnceTurn>)) CompletionToken>
decltype(auto) async_begin(const Once& once, AcquireOptions options, CompletionToken&& token) {
  return detail::wait<CompletionToken>(detail::Async::begin(once, std::move(options)), token);
}

// Once::outcome().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<std::optional<std::string>>)) CompletionToken>
decltype(auto) async_outcome(const Once& once, CompletionToken&& token) {
  return detail::read<CompletionToken>(detail::Async::outcome(once), token);
}

// OnceTurn::complete().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<void>)) CompletionToken>
decltype(auto) async_complete(OnceTurn& turn, std::string outcome, CompletionToken&& token) {
  return detail::write<CompletionToken>(detail::Async::complete(turn, std::move(outcome)), token);
}

// JobLock::try_acquire().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<std::optional<JobLease>>)) CompletionToken>
decltype(auto) async_try_acquire(const JobLock& lock, AcquireOptions options,
                                 CompletionToken&& token) {
  return detail::wait<CompletionToken>(detail::Async::try_acquire(lock, std::move(options)), token);
}

// JobLease::release().
template <ASIO_COMPLETION_TOKEN_FOR(void(Result<void>)) CompletionToken>
decltype(auto) async_release(JobLease& job, CompletionToken&& token) {
  return detail::write<CompletionToken>(detail::Async::release(job), token);
}

}  // namespace holdfast
