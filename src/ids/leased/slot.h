// One worker's slot in a store: its record, and who may write it.
//
//   ids/NAME                     the head: layout, policy, number of workers, incarnation
//   ids/NAME/INCARNATION/WORKER  a slot: the bound, and the fencing token of who wrote it
//   holdfast-ids/NAME/WORKER     the lock of the slot
//
// A holder's first write, the claim, puts its own token into the record. Every write replaces the
// version that was seen last, so after a claim no earlier holder can write any more, and a write
// that comes late changes nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "holdfast/ids/leased_workers.h"
#include "holdfast/token.h"
#include "src/base/clock.h"
#include "src/base/local_mutex.h"
#include "src/ids/reserving_permit.h"
#include "src/port/records.h"

namespace holdfast::ids {

struct WorkersHead {
  std::string name{};
  std::string incarnation{};
  LeasedWorkersSpec spec;
  bool served = false;  // The lock service gives ids, too (served.h).

  std::string slot_key(std::uint64_t worker) const;
  std::string lock_name(std::uint64_t worker) const;
  std::string text() const;
  // Errors: as RecordText::parse() for the kind of workers.
  static Result<WorkersHead> parse(const std::string& name, const std::string& text);
};

std::string host_name();

struct SlotState {
  std::string incarnation{};  // The namespace's.
  std::uint64_t worker = 0;
  Token token{};             // Its writer's.
  std::uint64_t number = 0;  // That writer counts its writes.
  ReservingPermit::Bounds bounds{};
  std::string host{};
  std::int64_t pid = 0;
  std::int64_t since_ms = 0;

  std::string text() const;
  // Errors: kCorruptState, kVersionMismatch.
  static Result<SlotState> parse(const std::string& text, const std::string& incarnation,
                                 std::uint64_t worker, const std::string& where);
};

// Makes slots and head. Errors: as LeasedWorkers::create().
Result<void> create_workers(port::Records& records, const std::string& name,
                            const LeasedWorkersSpec& spec, base::BootInstant by);
// Errors: as LeasedWorkers::open().
Result<WorkersHead> read_workers_head(port::Records& records, const std::string& name,
                                      base::BootInstant by);

// The lease on a slot's lock.
class SlotLease {
 public:
  virtual ~SlotLease() = default;
  virtual Token token() const = 0;
  virtual bool held() const = 0;
  // A clock that jumps makes held() false until the store has confirmed the lease: asks it to.
  // Errors: kUnavailable: the doubt stays. A lease that is lost, or in no doubt, is none.
  virtual Result<void> resolve_doubt() { return {}; }
  virtual std::chrono::nanoseconds deadline() const = 0;  // On CLOCK_BOOTTIME.
  virtual void release() = 0;
};

// Records that several slots use.
struct SharedRecords {
  base::LocalMutex mutex;
  std::unique_ptr<port::Records> records HOLDFAST_GUARDED_BY(mutex);
};
using SharedRecordsPtr = std::shared_ptr<SharedRecords>;

struct SlotSetting {
  SharedRecordsPtr records{};
  std::chrono::milliseconds ttl{};
  std::chrono::milliseconds request_timeout{};
  IdClock* clock = nullptr;  // nullptr: the machine's.
  bool looks_ahead = true;   // By a thread of its own.
  // For tests: is given the permit that was made.
  std::shared_ptr<ReservingPermit>* permit = nullptr;
};

// A generator of the slot whose lock was acquired. nullptr: its time is reserved too far ahead of
// the clock, so it is left out.
// Errors: kUnavailable, kOutcomeUnknown, kLost (another holder came), kCorruptState.
Result<std::unique_ptr<Snowflake>> take_slot(const WorkersHead& head, std::uint64_t worker,
                                             std::unique_ptr<SlotLease> lease,
                                             std::int64_t start_above, const SlotSetting& setting);

}  // namespace holdfast::ids
