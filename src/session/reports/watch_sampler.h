// A watch over a store that cannot tell every change: lists the locks again and again and tells
// what differs.
//
// Not guaranteed: that a hold shorter than the period is seen; a token that jumped tells of it. If
// two breaks fall into one period, the first may look like a release. While a million locks or more
// are held, nothing is told.
// Thread-safety: on_tick() and the replies run on the core's loop.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/errc.h"
#include "holdfast/lock_info.h"
#include "src/session/deadline.h"

namespace holdfast::session {

class Core;

// The changes from `before` to `after`, in the order: ends, then grants, then new waiters. These
// two do not tell how a lock ended that is not in `after`: see without_trace(). `longest`: the time
// since `before` was asked for. A lease that may have run out in it is told to have expired.
// `keeps_last_token`: the store does so for a lock that is free; where it does not, one that is
// unknown by now was given back.
std::vector<LockEvent> differences(const std::vector<LockInfo>& before,
                                   const std::vector<LockInfo>& after,
                                   std::chrono::milliseconds longest, bool keeps_last_token = true);

// The locks that had holders and are in no list any more. Whether they were broken stands in their
// trace, which only inspect() gives.
std::vector<std::string> without_trace(const std::vector<LockInfo>& before,
                                       const std::vector<LockInfo>& after);

class WatchSampler : public std::enable_shared_from_this<WatchSampler> {
 public:
  using Sink = std::function<void(const LockEvent&)>;
  static constexpr std::size_t kMostLocks = 1'000'000;

  // `present`: what there is now, so that only what changes from here on is told.
  static std::shared_ptr<WatchSampler> start(Core& core, std::string prefix, Sink sink,
                                             std::vector<LockInfo> present);

  // Asks the store if it is time; says when it will be next.
  BootInstant on_tick(BootInstant now);

 private:
  WatchSampler(Core& core, std::string prefix, Sink sink, std::vector<LockInfo> present)
      : core_(core),
        prefix_(std::move(prefix)),
        sink_(std::move(sink)),
        seen_(std::move(present)),
        seen_at_(base::BootClock::now()) {}

  struct Sample {
    BootInstant asked_at{};
    std::vector<LockInfo> listed;
    std::vector<std::string> vanished;
    std::vector<LockInfo> traces;  // Traces of vanished locks, as far as they were read.
    std::size_t asked = 0;
  };
  // Asks for the traces one after the other, and tells what differs once they are all there.
  void go_on(const std::shared_ptr<Sample>& sample);
  void keep(Sample& sample, const std::string& name) const;
  void tell(Sample& sample);
  void tell_failure(const Error& why);
  void tell_recovery();

  Core& core_;
  const std::string prefix_;
  const Sink sink_;
  std::vector<LockInfo> seen_;
  BootInstant seen_at_;  // When it was asked for.
  bool asking_ = false;
  bool failing_ = false;  // And that has been told.
  BootInstant next_{};
};

}  // namespace holdfast::session
