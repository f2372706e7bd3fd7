// One leader among many candidates, with a value that it proclaims, and observers.
//
//   State          campaign()       proclaim()        resign(), or its lease ends
//   no leader      leads            -                 -
//   somebody       waits its turn   the value is new  the next candidate leads
//   leads
//
// Example (examples/primitives.cc#election):
//   holdfast::Election scheduler = client.election("scheduler");
//   auto leading = scheduler.campaign("10.0.0.7:8080", {.ttl = 15s});  // waits for its turn
//   if (!leading) return leading.error();
//   auto leader = scheduler.leader();  // for everybody: who leads, and what it proclaims
//   if (!leader) return leader.error();
//   if (*leader) std::printf("ask %s\n", (*leader)->value.c_str());
//   while (leading->held() && work_is_left()) do_a_portion(leading->token());
//   return leading->resign();
//
// Guarantee: a leadership is a lease with a fencing token. At most one is held at a time (Lease),
// and each has a larger token than the one before. A leader's value counts only while its lease
// lasts. Candidates come to lead in the order in which they asked. Not guaranteed: that a paused
// leader has stopped (have the resource check the token); that an observer learns of a change at
// once (it learns the changes in order, and how many it missed: see observe()).
//
// Name: an election is a lock of that name, so break_lock() and inspect() work on it. A process
// that takes it as a mutex leads without a value.
// Thread-safety: as Mutex's; Leadership as Lease. Ownership: shares the client's core.
// Errors: as Mutex's; kInvalidArgument: a value of more than 1024 bytes, or a name in use for
// something else; kUnsupported (Guarantees::values).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "holdfast/export.h"
#include "holdfast/lease.h"
#include "holdfast/lock_info.h"
#include "holdfast/options.h"
#include "holdfast/result.h"
#include "holdfast/token.h"

namespace holdfast {

namespace detail {
struct Async;
struct ElectionMaker;
}  // namespace detail

struct LeaderInfo {
  Token token;
  std::string leader;  // OwnerInfo::owner of the leader.
  std::string value;   // The value proclaimed last; empty before that.

  friend bool operator==(const LeaderInfo&, const LeaderInfo&) = default;
};

// One report to an observer.
struct LeaderChange {
  std::optional<LeaderInfo> now;  // nullopt: nobody leads.
  std::uint64_t missed = 0;       // The number of changes before this one that were not reported.
};

// The leadership of an election. Its destructor resigns without waiting.
class HOLDFAST_EXPORT Leadership {
 public:
  Leadership(Leadership&&) noexcept = default;
  Leadership& operator=(Leadership&&) noexcept = default;
  ~Leadership() = default;

  Token token() const { return lease_.token(); }
  bool held() const { return lease_.held(); }
  std::stop_token lost() const { return lease_.lost(); }
  Lease& lease() { return lease_; }
  const Lease& lease() const { return lease_; }

  // Publishes a new value. Errors: kLost: this is not the leader any more.
  Result<void> proclaim(std::string value);
  // Lease::release().
  Result<void> resign() { return lease_.release(); }

 private:
  friend struct detail::ElectionMaker;
  explicit Leadership(Lease lease) : lease_(std::move(lease)) {}

  Lease lease_;
};

class HOLDFAST_EXPORT Election {
 public:
  Election(const Election&) = default;
  Election& operator=(const Election&) = default;
  ~Election() = default;

  const std::string& name() const;

  // Waits until this candidate leads, and proclaims `value`.
  Result<Leadership> campaign(std::string value = {}, AcquireOptions options = {});
  // nullopt: somebody leads.
  Result<std::optional<Leadership>> try_campaign(std::string value = {},
                                                 AcquireOptions options = {});

  // nullopt: nobody leads at this moment.
  Result<std::optional<LeaderInfo>> leader();

  // Calls back on the notifier thread: first with the present leader, then with each change, in
  // order. It looks at the store every quarter of a second, and whenever the store reports a
  // proclaimed value (memory, SQLite, Redis). It reports the last sixteen changes between two
  // looks, or fewer if values are long; LeaderChange::missed counts the others. It reports that
  // nobody leads only if that is so at a look. It reports nothing while the store is away. When the
  // store refuses a look, the log has watch_blind with the reason.
  Result<Watch> observe(std::function<void(const LeaderChange&)> callback);

 private:
  friend class Client;
  friend struct detail::Async;
  struct State;
  explicit Election(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace holdfast
