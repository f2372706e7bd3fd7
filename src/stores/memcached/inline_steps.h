// The two commonest steps on the calling thread: the acquire of a lock that nobody uses, and the
// release of a lock that was acquired so. Whatever else the server answers, the engine's loop does
// the step, as if nothing had been tried here.
//
// Guarantee: an acquire that was cancelled meanwhile holds nothing: it is withdrawn. One whose
// answer was lost is told as kOutcomeUnknown, and the engine knows that it may still arrive.
// Thread-safety: safe. Blocking: acquire() and release(), until the request's deadline.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "src/base/local_mutex.h"
#include "src/machine/image.h"
#include "src/port/store.h"
#include "src/stores/memcached/direct_link.h"
#include "src/stores/memcached/document.h"

namespace holdfast::stores::memcached {

class InlineSteps {
 public:
  using Acquired = std::optional<Result<port::AcquisitionState>>;
  using Ended = std::optional<Result<port::EndStatus>>;

  struct Hooks {
    std::function<std::uint64_t()> floor;  // Tokens are above it.
    // The acquisition must not hold the lock, now or when a late request arrives.
    std::function<void(const std::string& name, machine::AcquisitionId id)> withdraw;
    // A request of the acquisition may still arrive.
    std::function<void(machine::AcquisitionId id)> late;
  };

  InlineSteps(std::string address, std::chrono::milliseconds patience, Hooks hooks)
      : address_(std::move(address)), link_(patience), hooks_(std::move(hooks)) {}

  DirectLink& link() { return link_; }

  // nullopt: the loop is to do it. `lock` is filled where the lock was acquired.
  Acquired acquire(const port::AcquireRequest& request, machine::Instant at,
                   machine::LockImage& lock);
  Ended release(const port::AcquisitionRequest& request, machine::Instant at);

  // --- The loop tells and asks.

  // It is about to change the lock: the document will be another one.
  void forget(const std::string& name);
  // A release or cancel of this acquisition was asked for.
  void end(machine::AcquisitionId id);
  // acquire() has just found the lock in use for this one: do not guess that it is free.
  bool found_busy(machine::AcquisitionId id) const;

 private:
  struct Held {
    std::uint64_t generation = 0;
    std::uint64_t number = 0;
    machine::AcquisitionId id{};
    machine::Instant lease_end{};
  };
  static constexpr std::size_t kMostHeld = 65'536;

  const std::string address_;
  DirectLink link_;
  const Hooks hooks_;
  std::atomic<bool> used_{false};  // Until then the loop need not tell or ask.

  mutable base::LocalMutex mutex_;
  std::unordered_map<std::string, Held> held_ HOLDFAST_GUARDED_BY(mutex_);
  machine::AcquisitionId under_way_ HOLDFAST_GUARDED_BY(mutex_){};
  machine::AcquisitionId found_busy_ HOLDFAST_GUARDED_BY(mutex_){};
  bool cancelled_ HOLDFAST_GUARDED_BY(mutex_) = false;  // The one that is under way.
};

}  // namespace holdfast::stores::memcached
