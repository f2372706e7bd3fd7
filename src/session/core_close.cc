// The end of a client, in four steps. Its waits and leases end on this side, requests under way are
// awaited, the store closes, and the threads end last.
#include <algorithm>
#include <system_error>

#include "src/base/thread.h"
#include "src/session/core.h"
#include "src/session/core_call.h"

namespace holdfast::session {

Result<void> Core::close(std::chrono::nanoseconds limit) {
  if (forked()) return forked_error();
  const BootInstant until = base::BootClock::now() + limit;
  if (closed_.exchange(true)) return await_close(until);
  Result<void> outcome = close_now(until);
  const base::LocalLock lock(mutex_);
  close_outcome_ = outcome;
  drained_.notify_all();
  return outcome;
}

// Another call closes the client, or has done so. Its outcome is that of this call, too.
Result<void> Core::await_close(BootInstant until) {
  const base::LocalLock lock(mutex_);
  while (!close_outcome_) {
    const auto now = base::BootClock::now();
    if (now >= until) {
      return Error(Errc::kTimedOut, "another close()" + at_store() + " is still under way");
    }
    drained_.wait_for(mutex_, until - now);
  }
  return *close_outcome_;
}

Result<void> Core::close_now(BootInstant until) {
  if (!store_) {
    loop_.stop();
    return {};
  }
  end_all();
  std::size_t left = 0;
  {
    const base::LocalLock lock(mutex_);
    while (releases_under_way_ + waiting_.size() + calls_under_way_ > 0) {
      const auto now = base::BootClock::now();
      if (now >= until) break;
      drained_.wait_for(mutex_, until - now);
    }
    left = releases_under_way_ + waiting_.size();
    samplers_.clear();
  }
  // Even when the time is over the store gets a moment to send what is queued.
  store_->close(std::max(until, base::BootClock::now() + std::chrono::milliseconds(10)));
  renewal_.stop();
  {
    // Calls that wait for a reply get one from Store::close(), by the loop.
    const base::LocalLock lock(mutex_);
    while (calls_under_way_ > 0) drained_.wait_for(mutex_, std::chrono::milliseconds(100));
  }
  loop_.stop();
  if (left == 0) return {};
  return Error(Errc::kTimedOut, std::to_string(left) + " releases" + at_store() +
                                    " were not confirmed in time; the store frees those locks at "
                                    "the end of their leases");
}

void Core::close(std::chrono::nanoseconds limit, const Done<void>& done) {
  if (forked()) return done(forked_error());
  try {
    base::start_thread("holdfast-close", [self = shared_from_this(), limit, done] {
      done(self->close(limit));
    }).detach();
  } catch (const std::system_error& error) {
    done(Error(Errc::kUnavailable,
               "no thread to close the client on: " + std::string(error.what())));
  }
}

// Waits end with kClosed, held leases are lost to their holders and given back.
void Core::end_all() {
  const Turn turn(*this);
  const BootInstant now = base::BootClock::now();
  std::vector<AcquisitionPtr> waiting;
  for (const auto& [id, acquisition] : waiting_) waiting.push_back(acquisition);
  for (const auto& acquisition : waiting) {
    execute(acquisition, acquisition->acquire->on_cancel(now, Errc::kClosed));
  }
  while (!sleepers_.empty()) rouse(sleepers_.begin()->second, closed_error());
  for (const auto& acquisition : held()) {
    if (acquisition->being_left) continue;
    lose(acquisition, Error(Errc::kClosed, "the client was closed"));
    if (!acquisition->perhaps_left) send_release(acquisition);
  }
}

}  // namespace holdfast::session
