// The parts of include/holdfast/asio.h: Holdfast's asynchronous calls without Asio, so that the
// library does not depend on the Asio that a program uses. Not for programs: it may change with any
// version.
//
// Starting a call returns at once; it completes its receiver exactly once, also when the client is
// closed (kClosed) or this is a forked child.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/client.h"
#include "holdfast/export.h"
#include "holdfast/lease.h"
#include "holdfast/lock_info.h"
#include "holdfast/mode.h"
#include "holdfast/multi_lock.h"
#include "holdfast/mutex.h"
#include "holdfast/options.h"
#include "holdfast/result.h"
#include "holdfast/shared_mutex.h"
#include "holdfast/token.h"

namespace holdfast::detail {

// Receives the outcome of a call.
template <typename T>
class Receiver {
 public:
  virtual ~Receiver() = default;

  // On any thread, maybe on the caller's before the call returns; no mutex of the library is held.
  // Must not block, throw or run code of the program. `self`: the library keeps no other reference.
  virtual void complete(std::shared_ptr<Receiver> self, Result<T> result) = 0;
};
template <typename T>
using ReceiverPtr = std::shared_ptr<Receiver<T>>;

// An asynchronous call that has its outcome, and whose handler is to run on its executor.
class Ready {
 public:
  virtual ~Ready() = default;
  virtual bool same_executor(const Ready& other) const noexcept = 0;
  // The same for all whose executors have one type.
  virtual const void* kind() const noexcept = 0;
  // Posts the handler, and those of `others`, which have the same executor. `self`: as in
  // complete().
  virtual void post(std::shared_ptr<Ready> self, std::vector<std::shared_ptr<Ready>> others) = 0;
};
using ReadyPtr = std::shared_ptr<Ready>;

// Takes it if this thread of the library has more outcomes just now: then it posts them together.
// false: the caller posts it.
HOLDFAST_EXPORT bool gather(ReadyPtr& ready);

// A call of several requests that is under way.
class HOLDFAST_EXPORT Flowing {
 public:
  virtual ~Flowing() = default;
  // Ends it with kCancelled, or with what came before. Any time, from any thread.
  virtual void cancel() = 0;
};

// Async::cancel() ends the wait for a lock, or the call of several requests, that this names. It
// keeps the client's core alive.
struct Handle {
  std::shared_ptr<session::Core> core{};
  std::shared_ptr<session::Acquisition> acquisition{};
  std::shared_ptr<Flowing> flow{};
};

// Starts a call for the receiver. Gives the wait that Async::cancel() can end; an empty handle
// where there is none.
template <typename T>
using Start = std::function<Handle(ReceiverPtr<T>)>;

// The calls, each to be started once. None of these functions does anything yet; but what belongs
// to a lease is taken from it here.
struct HOLDFAST_EXPORT Async {
  static Start<Client> connect(std::string url, ClientOptions options);

  static Start<Lease> acquire(const Mutex& mutex, AcquireOptions options);
  static Start<Lease> acquire(const Client& client, std::string name, Mode mode,
                              AcquireOptions options);
  static Start<std::optional<Lease>> try_acquire(const Mutex& mutex, AcquireOptions options);
  static Start<std::optional<Lease>> try_acquire(const Client& client, std::string name, Mode mode,
                                                 AcquireOptions options);
  static Start<Lease> acquire(const SharedMutex& mutex, AcquireOptions options);
  static Start<Lease> acquire_shared(const SharedMutex& mutex, AcquireOptions options);
  static Start<std::optional<Lease>> try_acquire(const SharedMutex& mutex, AcquireOptions options);
  static Start<std::optional<Lease>> try_acquire_shared(const SharedMutex& mutex,
                                                        AcquireOptions options);
  static Start<Lease> upgrade(const SharedMutex& mutex, const Lease& reader,
                              AcquireOptions options);
  static Start<void> downgrade(const SharedMutex& mutex, const Lease& writer);

  static Start<Lease> acquire(const Semaphore& semaphore, std::uint32_t permits,
                              AcquireOptions options);
  static Start<std::optional<Lease>> try_acquire(const Semaphore& semaphore, std::uint32_t permits,
                                                 AcquireOptions options);
  static Start<bool> resize(const Semaphore& semaphore, std::uint32_t capacity);
  static Start<SemaphoreCount> count(const Semaphore& semaphore);

  static Start<RecursiveLease> acquire(const RecursiveMutex& mutex, const Owner& owner,
                                       AcquireOptions options);
  static Start<std::optional<RecursiveLease>> try_acquire(const RecursiveMutex& mutex,
                                                          const Owner& owner,
                                                          AcquireOptions options);
  static Start<void> release(RecursiveLease& lease);

  static Start<Lease> acquire(const StripedMutex& mutex, std::string_view key,
                              AcquireOptions options);
  static Start<std::optional<Lease>> try_acquire(const StripedMutex& mutex, std::string_view key,
                                                 AcquireOptions options);
  static Start<LeaseSet> acquire_all(const StripedMutex& mutex, AcquireOptions options);
  static Start<Lease> acquire_any(const StripedMutex& mutex, std::string_view key,
                                  AcquireOptions options);

  static Start<std::uint64_t> count_down(const Latch& latch, std::uint64_t n);
  static Start<void> wait(const Latch& latch, AcquireOptions options);
  static Start<std::uint64_t> arrive_and_wait(const Latch& latch, std::uint64_t n,
                                              AcquireOptions options);
  static Start<std::uint64_t> count(const Latch& latch);
  static Start<void> reset(const Latch& latch, std::uint64_t count);

  static Start<BarrierSeat> join(const Barrier& barrier, AcquireOptions options);
  static Start<std::uint64_t> arrive_and_wait(const BarrierSeat& seat, AcquireOptions options);
  static Start<void> arrive_and_leave(const BarrierSeat& seat);
  static Start<void> reset(const Barrier& barrier);
  static Start<BarrierCount> count(const Barrier& barrier);

  static Start<Leadership> campaign(const Election& election, std::string value,
                                    AcquireOptions options);
  static Start<std::optional<Leadership>> try_campaign(const Election& election, std::string value,
                                                       AcquireOptions options);
  static Start<void> proclaim(Leadership& leadership, std::string value);
  static Start<std::optional<LeaderInfo>> leader(const Election& election);
  static Start<Watch> observe(const Election& election,
                              std::function<void(const LeaderChange&)> callback);

  static Start<OnceTurn> begin(const Once& once, AcquireOptions options);
  static Start<void> complete(OnceTurn& turn, std::string outcome);
  static Start<std::optional<std::string>> outcome(const Once& once);

  static Start<std::optional<JobLease>> try_acquire(const JobLock& lock, AcquireOptions options);
  static Start<void> release(JobLease& job);

  static Start<LeaseSet> acquire_all(const Client& client, std::vector<LockRequest> locks,
                                     AcquireOptions options);
  static Start<std::optional<LeaseSet>> try_acquire_all(const Client& client,
                                                        std::vector<LockRequest> locks,
                                                        AcquireOptions options);
  static Start<void> release(const LeaseSet& set);

  // The wait ends with kCancelled, or with what came before. Any time, from any thread.
  static void cancel(const Handle& wait);

  static Start<void> release(const Lease& lease);
  static Start<void> renew(const Lease& lease);

  static Start<Lease> adopt(const Client& client, std::string lease_id, AcquireOptions options);
  static Start<std::optional<LockInfo>> inspect(const Client& client, std::string name);
  static Start<bool> check(const Client& client, std::string name, Token token);
  static Start<std::vector<LockInfo>> list(const Client& client, std::string prefix,
                                           std::size_t limit);
  static Start<Watch> watch(const Client& client, std::string prefix,
                            std::function<void(const LockEvent&)> callback);
  static Start<void> break_lock(const Client& client, std::string name, Token token,
                                std::string reason);
  static Start<DoctorReport> doctor(const Client& client);
  static Start<void> close(const Client& client, std::chrono::milliseconds deadline);
};

}  // namespace holdfast::detail
