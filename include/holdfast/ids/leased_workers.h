// Worker numbers of many hosts, leased from a store: a process takes a free one, keeps it by a
// lease, and gives it back by ending.
//
// Guarantee: no two ids of a namespace are the same, whatever its processes and clocks do: kill,
// pause beyond the lease, partition, restart, a wall clock that goes back meanwhile. No id with a
// time T is given before a bound above T is durable in the store. The next holder of a number
// begins above that bound, after which no earlier holder can raise it. A generator gives ids until
// its lease's local deadline or its bound, whichever comes first; then an error.
// Not guaranteed: anything after an older copy of the store's data was put back, or after the store
// lost a write that it had answered (IdGuarantees::forgets says whether it may). Nor that ids of
// two namespaces differ.
//
// Thread-safety: all calls. Ownership: a generator keeps its number until it ends, and may outlive
// this object. Blocking: the store; each request request_timeout at most.
// Time: the lease on CLOCK_BOOTTIME; times of ids as the policy says.
// fork(): the child's calls answer kClosed, its generators', too. It opens the namespace anew.
// Errors: with each call; besides, those of Client::connect(). kCorruptState: a record is missing,
// damaged or lower than it was; nothing repairs it, so make a new namespace.
// Source: reserving time ahead is of Flake (2012) and Leaf (2017); leases with a fenced bound are
// our own (docs/design/0066-leased-workers.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/ids/id.h"
#include "holdfast/ids/layout.h"
#include "holdfast/ids/snowflake.h"
#include "holdfast/result.h"

namespace holdfast::ids {

// A namespace's own, for good: another layout or policy needs another namespace.
struct LeasedWorkersSpec {
  Layout layout;
  ClockPolicy policy{};
  std::uint64_t workers = 64;  // The numbers 0 to workers - 1: at most 1,024.
};

struct LeasedWorkersOptions {
  // The length of a worker's lease, but at least the store's shortest one (Guarantees::min_ttl). So
  // long, and up to twice that, is reserved ahead: a crash costs up to 2 ttl of logical time.
  std::chrono::milliseconds ttl{30'000};
  std::chrono::milliseconds request_timeout{5'000};
  // Refuses a store that may forget a write that it has answered.
  bool require_durable = false;
};

struct LeasedWorker {
  std::uint64_t worker = 0;
  bool held = false;
  // Its holder, or the last one; empty and 0: nobody yet.
  std::string host{};
  std::int64_t pid = 0;
  std::chrono::milliseconds since{};           // It was taken then, in time since 1970.
  std::chrono::milliseconds reserved_until{};  // The next holder begins there.
  std::string trouble{};  // Its record is missing or damaged: only `held` is known then.
};

// Ids that go on after a loss: when the lease of its worker number ends, the next call takes a free
// number, whose ids are above all that this object gave.
//
// Guarantee: as LeasedWorkers; ids of one object grow in the order of the calls, where the
// layout's time stands above all else: after a loss another worker number goes on.
// Not guaranteed: an id while the store is away for longer than the lease.
// Thread-safety: all calls, from any thread; no lock but after a loss. Ownership: may outlive the
// LeasedWorkers. Blocking: next(), for the store after a loss; else as Snowflake::next().
class HOLDFAST_EXPORT LeasedIds final : public IdSource {
 public:
  ~LeasedIds() override;
  LeasedIds(const LeasedIds&) = delete;
  LeasedIds& operator=(const LeasedIds&) = delete;

  // Errors: those of Snowflake::next() but kLost, and those of LeasedWorkers::take(). The next call
  // tries again.
  Result<Id> next() override;
  IdGuarantees guarantees() const override;
  // The one that the last id carries.
  std::uint64_t worker() const;

 private:
  friend class LeasedWorkers;
  struct Impl;
  explicit LeasedIds(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

class HOLDFAST_EXPORT LeasedWorkers {
 public:
  // Makes the namespace `name` in the store of a client's URL.
  // Errors: kStoreInUse: it is there already. kInvalidArgument: a name or a spec out of bounds, or
  // the name is taken by ids of another kind. kUnsupported: the store keeps no records.
  static Result<void> create(const std::string& url, const std::string& name,
                             const LeasedWorkersSpec& spec);

  // Errors: kInvalidArgument: there is no such namespace (make it by create()), or it is of another
  // kind. kUnsupported: the store keeps no records, or forgets them (require_durable).
  static Result<LeasedWorkers> open(const std::string& url, const std::string& name,
                                    const LeasedWorkersOptions& options = {});

  LeasedWorkers(LeasedWorkers&& other) noexcept;
  LeasedWorkers& operator=(LeasedWorkers&& other) noexcept;
  ~LeasedWorkers();

  const LeasedWorkersSpec& spec() const;
  // A random name of the namespace, for logs.
  const std::string& incarnation() const;

  // A generator with a free number. One whose reserved time lies too far ahead of the clock is left
  // out. After a loss take another one: `start_above` is the lost generator's last_unit().
  // Errors: kQueueFull: every number is taken, or reserved too far ahead. kUnavailable: the store
  // cannot be reached, or this host's clock is ahead of the store's by more than the policy's
  // forward_at_most. PostgreSQL, MySQL, MariaDB, Redis and the lock service have such a clock.
  Result<std::unique_ptr<Snowflake>> take(std::int64_t start_above = -1) const;

  // As take(), for a program that wants ids and does not mind which number they carry.
  Result<std::unique_ptr<LeasedIds>> ids() const;

  // For operators. Errors: kUnavailable.
  Result<std::vector<LeasedWorker>> workers() const;

 private:
  friend class LeasedIds;
  struct State;
  explicit LeasedWorkers(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace holdfast::ids
