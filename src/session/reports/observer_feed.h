// Carries an observer's events from where they happen to the notifier's thread.
//
// Guarantee: told in the order of add(), one at a time; at most Observer::kMostKept are kept.
// Thread-safety: add() from any thread, tell() from one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "holdfast/observer.h"
#include "src/base/clock.h"
#include "src/base/local_mutex.h"

namespace holdfast::session {

// The part of an acquisition that only an observer needs; there is none without one.
struct ObservedSpan {
  base::BootInstant asked_at{};
  std::optional<base::BootInstant> held_since{};  // While it is held.
  std::uint32_t ahead = 0;                        // When it came.
  std::optional<std::uint32_t> told_ahead{};
};

class ObserverFeed {
 public:
  using News = std::variant<AcquireSeen, HoldSeen, RenewalSeen, QueueSeen>;

  explicit ObserverFeed(std::shared_ptr<Observer> observer) : observer_(std::move(observer)) {}

  // Whether tell() has to be called for it: not when an earlier call is still to come.
  bool add(News news);
  void tell();

 private:
  const std::shared_ptr<Observer> observer_;
  base::LocalMutex mutex_;
  std::vector<News> news_ HOLDFAST_GUARDED_BY(mutex_);
  std::size_t missed_ HOLDFAST_GUARDED_BY(mutex_) = 0;
};

}  // namespace holdfast::session
