// A connection to one store: the way to its locks.
//
//   auto client = holdfast::Client::connect("sqlite:///var/lib/app/locks.db");
//   if (!client) return client.error();
//   auto lease = client->mutex("orders/42").acquire({.wait = 5s, .ttl = 30s});
//
// Stores by URL: `memory:` (this process; `memory:NAME` is shared inside it), `sqlite:///PATH`
// (processes of one host); for any hosts `redis://HOST:PORT`, `rediss://` (TLS), `redis+unix:`,
// `redis+sentinel://HOST,...` and `rediss+sentinel://`, `redis+cluster://HOST,...` and
// `rediss+cluster://`, `zookeeper://HOST,...`, `etcd://HOST,...` and `etcds://`, `consul://HOST`
// and `consuls://`, `postgres://HOST/DATABASE`, `postgress://` (TLS) and `postgres+unix:`, and in
// the same way `mysql://`, `mysqls://` and `mysql+unix:`; `memcached://HOST`;
// `redlock://HOST,HOST,HOST` and `redlocks://`; `holdfast://HOST` and `holdfasts://`, the lock
// service of `holdfast serve`; `hybrid:`; `failover:`: each has a page in docs/stores.
// Memory is always there; the others are components of a build (find_package(holdfast COMPONENTS
// sqlite redis)), and without them connect() says kUnsupported.
// Options follow as `?ttl=30s&ns=app`; an unknown one is refused.
// Lock names: UTF-8, 1 to 256 bytes, no control characters, no `..` segment. Marks that change the
// direction of writing are allowed; the program and messages show them escaped.
//
// Thread-safety: call anything from any thread; copies are the same client. A move copies, too: the
// moved-from object can still be used.
// Ownership: locks, leases and watches share the client's core and keep it alive. Destroying the
// last of them waits for running user callbacks and for queued releases (for those at most a
// second); no other destructor waits.
// Blocking: a call that asks the store ends within ClientOptions::request_timeout plus the wait
// that was asked for. Taking back a grant that nobody was told of may add two seconds. (A busy
// machine may add to that.) It may do the client's work meanwhile, deaf to signals for 20 ms.
// After fork(): the child must connect again. Every call on the parent's client returns kClosed in
// the child and sends nothing.
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

#include "holdfast/barrier.h"
#include "holdfast/election.h"
#include "holdfast/export.h"
#include "holdfast/guarantees.h"
#include "holdfast/job_lock.h"
#include "holdfast/latch.h"
#include "holdfast/lease.h"
#include "holdfast/lock_info.h"
#include "holdfast/mode.h"
#include "holdfast/multi_lock.h"
#include "holdfast/mutex.h"
#include "holdfast/once.h"
#include "holdfast/options.h"
#include "holdfast/recursive_mutex.h"
#include "holdfast/result.h"
#include "holdfast/semaphore.h"
#include "holdfast/shared_mutex.h"
#include "holdfast/striped_mutex.h"

namespace holdfast {

namespace session {
class Core;
}
namespace detail {
struct Async;
struct ClientAccess;
}  // namespace detail

class HOLDFAST_EXPORT Client {
 public:
  Client(const Client&) = default;
  Client& operator=(const Client&) = default;
  ~Client() = default;

  // Opens the store, creating what it needs (SQLite: the directory and the file).
  // Errors: kInvalidArgument (the URL), kUnavailable, kPermissionDenied, kUnsupported (a store that
  // was not built in, a file system that cannot do it), kStoreInUse, kCorruptState,
  // kVersionMismatch.
  static Result<Client> connect(std::string_view url, ClientOptions options = {});

  // A handle; makes no request. lock() and its kin use `defaults`; acquire() takes its own options.
  // (Not `= {}`: gcc 12 frees such an argument twice in a statement with a co_await.)
  Mutex mutex(std::string name, AcquireOptions defaults = AcquireOptions()) const;

  // Readers and writers.
  SharedMutex shared_mutex(std::string name, AcquireOptions defaults = AcquireOptions()) const;

  // `capacity` permits, which all users of the name must agree on.
  Semaphore semaphore(std::string name, std::uint32_t capacity) const;
  // Re-entered by its Owner, at most `max_depth` deep.
  RecursiveMutex recursive_mutex(std::string name, std::uint32_t max_depth = 1000) const;
  // `stripes` mutexes under one name: at most 64.
  StripedMutex striped_mutex(std::string name, std::uint32_t stripes) const;
  // Opens when `count` has been counted down.
  Latch latch(std::string name, std::uint64_t count) const;
  // Opens each time that `parties` have arrived.
  Barrier barrier(std::string name, std::uint32_t parties,
                  BarrierPolicy policy = BarrierPolicy::kBreak) const;
  Election election(std::string name) const;
  // The outcome of the first caller is kept for `retention`: 24 h at most.
  Once once(std::string key, std::chrono::milliseconds retention = std::chrono::hours(24)) const;
  JobLock job_lock(std::string name, JobTimes times = JobTimes()) const;

  // The general form: any mode. Errors as Mutex's; kUnsupported for a mode the store lacks.
  Result<Lease> acquire(std::string name, Mode mode, AcquireOptions options = {}) const;
  Result<std::optional<Lease>> try_acquire(std::string name, Mode mode,
                                           AcquireOptions options = {}) const;

  // All of these locks, or none of them: sorted by name, one deadline for all.
  Result<LeaseSet> acquire_all(std::vector<LockRequest> locks, AcquireOptions options = {}) const;
  // nullopt: one of them is not free. Never waits for other holders.
  Result<std::optional<LeaseSet>> try_acquire_all(std::vector<LockRequest> locks,
                                                  AcquireOptions options = {}) const;

  // Takes over a lease by its id() (from another process, or after detach()), and renews it once
  // to learn whether it is still held. Without a ttl in the options it keeps its length. A lease
  // has one keeper: the previous one is told kLost at its own next renewal.
  // Errors: kLost, kInvalidArgument (not an id), kUnavailable.
  Result<Lease> adopt(std::string_view lease_id, AcquireOptions options = {}) const;

  // nullopt: nobody holds it or waits for it, and the store knows nothing of it. Where leases are
  // bound to their client (Guarantees::bound_to_client) it may have been held before. Here and in
  // break_lock(), `name` may also be that of a lock of the library's own, as a list shows it
  // (barrier.h).
  Result<std::optional<LockInfo>> inspect(std::string name) const;
  // Whether a holder of the lock has this token, in the newest state of the store, at some moment
  // between the call and its return. false: that hold has ended, or never was.
  // Not guaranteed: that it goes on while you read the answer. For a resource that can keep a
  // record, a guard is stronger (holdfast/fence): check and write are one step there. An answer of
  // false is for good; so a resource without a record may refuse by it.
  // Errors: kInvalidArgument: the zero token. kUnsupported: the store's locks have no tokens
  // (Guarantees::fenced). kCorruptState: a holder's description cannot be read.
  Result<bool> check(std::string name, Token token) const;
  // Locks with holders or waiters whose names begin with `prefix`, sorted, at most `limit`.
  // Not guaranteed: all of them. Locks that cannot be read are missing, and so are those of a shard
  // of the lock service that does not answer in time while others do: the log names them.
  Result<std::vector<LockInfo>> list(std::string prefix = {}, std::size_t limit = 10'000) const;
  // Reports each event from now on to `callback`, on the notifier thread. The log names a shard of
  // the lock service that does not answer in time while others do. When it answers, kMissed comes
  // first. When a server with another journal answers, nothing follows, and the log has
  // watch_blind with kCorruptState.
  Result<Watch> watch(std::string prefix, std::function<void(const LockEvent&)> callback) const;

  // Frees the lock by force from the holder with `token`; `reason` is left as a trace. The holder
  // learns kBroken at its next renewal and may go on until then, so fence the resource.
  // Errors: kLost: no holder has that token (any more); nothing was changed.
  Result<void> break_lock(std::string name, Token token, std::string reason = {}) const;

  Guarantees guarantees() const;
  // Examines the running store: the guarantees it gives as configured, and what to change.
  Result<DoctorReport> doctor() const;

  // The URL, without credentials.
  std::string store_url() const;

  // Flushes queued releases and stops. Leases that are still held are lost to their holders and
  // released. Waits in progress end with kClosed. A second call waits for the first, until its own
  // deadline, and returns the same answer. Errors: kTimedOut: the message names what was left; the
  // store frees that at the end of its lease. Not guaranteed: the deadline, while the system does
  // not come back from reading or writing a file of the store.
  Result<void> close(std::chrono::milliseconds deadline = std::chrono::seconds(5));

 private:
  friend struct detail::Async;
  friend struct detail::ClientAccess;
  explicit Client(std::shared_ptr<session::Core> core);

  std::shared_ptr<session::Core> core_;
};

}  // namespace holdfast
