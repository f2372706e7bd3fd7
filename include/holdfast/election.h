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
// Guarantee: a leadership is a lease with a fencing token: at most one is held at a time (Lease),
// and each has a larger token than the one before. What a leader proclaims is believed only while
// its lease lasts. Candidates come to lead in the order in which they asked. Not guaranteed: that a
// leader which was paused has stopped: have the resource check the token. That an observer learns
// of a change at once (it is told in order, and how many it missed: see observe()).
//
// Name: a lock of its own, so that break_lock() and inspect() work on it; whoever takes it as a
// mutex leads without a value.
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
  std::string leader;  // OwnerInfo::owner of whoever leads.
  std::string value;   // As proclaimed last; empty before that.

  friend bool operator==(const LeaderInfo&, const LeaderInfo&) = default;
};

// Told to an observer.
struct LeaderChange {
  std::optional<LeaderInfo> now;  // nullopt: nobody leads.
  std::uint64_t missed = 0;       // How many changes came before it that were not told.
};

// To lead, as a value. Its destructor resigns without waiting.
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

  // Tells everybody a new value. Errors: kLost: it does not lead any more.
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

  // Waits until it leads, and proclaims `value`.
  Result<Leadership> campaign(std::string value = {}, AcquireOptions options = {});
  // nullopt: somebody leads.
  Result<std::optional<Leadership>> try_campaign(std::string value = {},
                                                 AcquireOptions options = {});

  // nullopt: nobody leads at this moment.
  Result<std::optional<LeaderInfo>> leader();

  // Calls back on the notifier thread: first with who leads now, then with each change, in order.
  // It looks when the store tells that something was proclaimed (memory, SQLite, Redis do), and
  // every quarter of a second. Of the changes between two looks the last sixteen are told, and
  // fewer where values are long; LeaderChange::missed counts the others. That nobody leads is told
  // when it is so at a look. While the store cannot be reached nothing is told.
  Result<Watch> observe(std::function<void(const LeaderChange&)> callback);

 private:
  friend class Client;
  friend struct detail::Async;
  struct State;
  explicit Election(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace holdfast
