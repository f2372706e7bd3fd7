// Runs a store's renewals: on the caller's thread, or on threads of its own if replicas have to
// confirm them (?replicas=N).
//
// A confirmation may take as long as the slowest replica. So each batch has a thread, and by that a
// connection of the renewer. Heartbeats of waiters need no confirmation and have threads that no
// renewal uses. The server orders requests about one acquisition by their numbers, so that batches
// may overtake each other.
//
// Guarantee: each batch is answered exactly once, by a task posted to the loop.
// Not guaranteed: that a batch leaves at once while all threads are busy. They all wait for the
// same replicas, so that its own confirmation would not have come earlier.
// Thread-safety: renew() from the renewal thread only. Ownership: `loop` and what `ask` uses
// outlive stop(). Blocking: renew() without threads, stop().
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "src/base/clock.h"
#include "src/port/store.h"

namespace holdfast::stores::redis {

class RenewalThreads {
 public:
  using States = std::vector<Result<port::AcquisitionState>>;
  // Blocks until the answer, or the deadline. With threads: is called on several at a time.
  using Ask =
      std::function<Result<States>(const std::vector<port::RenewItem>&, base::BootInstant)>;

  static constexpr std::size_t kForRenewals = 4;
  static constexpr std::size_t kForHeartbeats = 2;

  RenewalThreads(port::Loop& loop, Ask ask, bool has_threads);
  ~RenewalThreads();  // Calls stop().
  RenewalThreads(const RenewalThreads&) = delete;
  RenewalThreads& operator=(const RenewalThreads&) = delete;

  void renew(std::vector<port::RenewItem> items, base::BootInstant deadline,
             port::Done<States> done);
  // Whether renew() blocks.
  bool blocks() const noexcept { return renewals_ == nullptr; }

  // Answers the batches that were given before, and ends the threads. End the connections first,
  // or this waits for the deadlines.
  void stop();
  // In a forked child, which has no such threads.
  void abandon() noexcept;

 private:
  class Pool;

  port::Loop& loop_;
  const Ask ask_;
  std::shared_ptr<Pool> renewals_;
  std::shared_ptr<Pool> heartbeats_;
};

// Whether the request comes from a waiter. Its answer may nevertheless be a grant.
inline bool is_heartbeat(const port::RenewItem& item) noexcept {
  return item.token == port::Token{} && !item.adopts;
}

}  // namespace holdfast::stores::redis
