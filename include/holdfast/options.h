// The options of a client's connection and of a request for a lock.
//
// Callbacks run on the client's notifier thread and must not throw: std::terminate, as for a
// std::stop_callback.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "holdfast/owner.h"

namespace holdfast {

struct LogEvent;
class Observer;

// The options of one request for a lock. Durations are rounded up to milliseconds.
struct AcquireOptions {
  // How long to wait for other holders; not set: without limit; zero: not at all.
  std::optional<std::chrono::milliseconds> wait{};
  // Length of the lease: how long the lock outlives a holder that dies. At least 100 ms, at most
  // 24 h. Zero: the client's default. The client renews it every third of that time.
  std::chrono::milliseconds ttl{0};
  // Ends the wait with kCancelled, and leaves the queue.
  std::stop_token cancel{};
  // Shown to people who ask who holds the lock.
  std::string reason{};
  // Names the work that asks, in your tracing (a W3C traceparent, say). It is shown with the lock,
  // so that people find the work that holds it. 1 to 128 printable ASCII characters, no spaces;
  // empty: none.
  std::string trace_id{};
  // The longest time that the lock may be held. After it lost() fires, renewal stops and the lease
  // runs out. Zero: no limit.
  std::chrono::milliseconds max_hold{0};
  // false: the lease is not renewed in the background. It lasts for its ttl, as with
  // `outlives_client` where the store can give that.
  bool auto_renew = true;
  // How long the lock stays closed to others after this holder's lease when the holder does not
  // release it: it crashed, was cut off, or lost the lease. Its last requests to other services may
  // still be under way then (the lock-delay of Chubby). release() and a break open the lock at
  // once. Counts at the store, by its clock; with the ttl at most 24 h. It begins with the first
  // renewal where another holder handed the lock over: the grant is reported after that. Where
  // leases live by their client's session, this one gets one of its own, as with
  // `outlives_client`, with the same errors. An upgrade ends with the shared lease under it: name
  // the delay for that. Not set: what ClientOptions::names says, else none.
  std::optional<std::chrono::milliseconds> lock_delay{};
  // A grant is reported only while at least this much of the lease is left; otherwise the lease is
  // renewed first. Zero: one heartbeat.
  std::chrono::milliseconds min_remaining{0};
  // kQueueFull when this many waiters are queued already. Zero: no limit.
  std::uint32_t max_waiters = 0;
  // Called once on the notifier thread when the request must wait, with the number of waiters
  // before it. Never called after the request's answer: the answer waits for a call that has begun.
  std::function<void(std::uint32_t ahead)> on_queued{};
  // The same for a wait that nobody counts on the lock any more: its last holder's lock_delay keeps
  // it closed, and ends after `opens_in`. A break opens it at once. Called once for each such end,
  // at most a second after it began. The lock service tells its waiters of this, and other
  // stores may; LockInfo::opens_in() does on all that know how much of a lease is left.
  std::function<void(std::chrono::milliseconds opens_in)> on_lock_delay{};
  // The asking owner, shown to people in place of ClientOptions::owner. Once a second the client
  // looks whether owners wait for each other in a circle. After two to four seconds, the youngest
  // wait of the circle (by the waiters' clocks, then by id) ends with kWouldDeadlock, and the
  // message names the circle. This works where the store lists its queues. One client looks at up
  // to 10,000 locks of its namespace.
  std::optional<Owner> owner{};
  // The lease goes on without this client, until its end: after close() or a crash, too. That makes
  // a difference where leases live by their client's session (Guarantees::bound_to_client): there
  // it gets one of its own, for two requests more, and is renewed one by one. kUnsupported:
  // no lease of this store can (Guarantees::ends_with_client).
  bool outlives_client = false;
};

// The lease and the wait of the locks whose names begin so, where a request does not say: with the
// zero ttl, and with no wait. Also of the locks that a primitive of such a name makes for itself.
struct NameDefaults {
  std::string prefix;                               // Without the URL's ns=. Empty: every name.
  std::chrono::milliseconds ttl{0};                 // Zero: the client's default.
  std::optional<std::chrono::milliseconds> wait{};  // Not set: without limit.
  std::chrono::milliseconds lock_delay{0};
};

struct ClientOptions {
  // Length of a lease where the request names none (the URL's ttl= comes first). If the URL has
  // none and leases end with their session, a longer session length takes its place.
  std::chrono::milliseconds default_ttl{30'000};
  // Where several have a prefix of the name, the longest counts. A ttl here comes before the URL's.
  std::vector<NameDefaults> names{};
  // Longest time that one request to the store may take; at most 24 hours.
  std::chrono::milliseconds request_timeout{5'000};
  // Longest time that Client::connect() may take to reach the store; at most 24 hours. If the URL
  // has open_timeout=, the shorter one counts. Zero: the URL's, or the store's own.
  std::chrono::milliseconds open_timeout{0};
  // This client's name, shown to people. Empty: made from host, pid and random digits.
  std::string owner{};
  // Shown as the program's name. Empty: read from the process.
  std::string program{};
  // Bound on the relative rate error of two clocks, in parts per million; at most 500,000.
  std::uint32_t clock_rate_error_ppm = 10'000;
  // Receives late renewals, losses and store failures as text; called on the notifier thread.
  std::function<void(const std::string& line)> log{};
  // The same as data (holdfast/log_event.h), for a log that machines read.
  std::function<void(const LogEvent& event)> log_event{};
  // Receives how long waits and holds took, renewals and losses (holdfast/observer.h).
  std::shared_ptr<Observer> observer{};
};

}  // namespace holdfast
