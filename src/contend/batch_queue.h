// Which requests go to a store as one call, and when: many that wait together cost the store one
// entry of its log, and the client one call.
//
//   Unanswered calls     what waits
//   fewer than a few     goes, as many as fit one call
//   a few                gathers; goes when one is answered, when it fills a call, or when it
//                        could not wait for an answer by its deadline
//
// It decides only. Whoever sends asks take() at the end of the loop's turn in which something was
// added, and whenever a call was answered, until there is nothing to be sent. So a lone request
// waits for nothing, and nobody for a timer.
//
// Guarantee: what has the same `lock` goes in the order in which it was added, and in calls of
// their own: the parts of a call share one number of the store, which is to tell those apart that
// stand in one queue. A call ends by the earliest deadline of its parts.
// Not guaranteed: the order of different locks; that a call answered in time leaves time for what
// has gathered meanwhile.
// Requests that cannot be joined do not come here, nor those that are repeated alone after a call
// was refused as a whole: that the sender asks for at once, in an order of its own.
//
// Thread-safety: one thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.h"

namespace holdfast::contend {

struct BatchLimits {
  std::size_t parts = 32;         // In a call: at least 1.
  std::size_t bytes = 64 * 1024;  // In a call of several parts.
  std::size_t calls = 2;          // Unanswered ones, from which on others gather.
};

template <typename Part>
class BatchQueue {
 public:
  using BootInstant = base::BootInstant;

  struct Call {
    std::vector<Part> parts;  // Empty: nothing is to be sent now.
    BootInstant deadline{};   // To be given to answered().
  };

  explicit BatchQueue(BatchLimits limits) : limits_(limits) {}

  void add(std::string lock, BootInstant deadline, std::size_t bytes, Part part) {
    waiting_.push_back({std::move(lock), deadline, bytes, std::move(part)});
  }

  // The next call to send; it counts as sent. Parts that it meets after their deadline go to
  // `late`, unsent.
  Call take(BootInstant now, std::vector<Part>& late) {
    drop_late(now, late);
    return may_go() ? take_some(now) : Call();
  }
  // Also while a few are unanswered: what is to be sent ahead of something that does not come here.
  Call take_anyway(BootInstant now, std::vector<Part>& late) {
    drop_late(now, late);
    return take_some(now);
  }
  bool waits(const std::string& lock) const {
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [&lock](const Waiting& each) { return each.lock == lock; });
  }

  // A call was answered, or has ended without an answer.
  void answered(BootInstant deadline) {
    if (const auto call = ends_.find(deadline); call != ends_.end()) ends_.erase(call);
  }

  // The store takes no more in one call.
  void limit_parts(std::size_t most) { limits_.parts = std::max<std::size_t>(most, 1); }

  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Waiting {
    std::string lock;
    BootInstant deadline{};
    std::size_t bytes = 0;
    Part part;
  };

  // So many are looked through for others that fit: a long queue is not gone through for each call.
  static constexpr std::size_t kMostLookedThrough = 256;

  // The time left to one is at most twice that of another: nobody is cut much shorter than he asked
  // for, and nobody's call is kept open for others.
  static bool alike(BootInstant earliest, BootInstant latest, BootInstant one, BootInstant now) {
    return std::max(latest, one) - now <= 2 * (std::min(earliest, one) - now);
  }

  Call take_some(BootInstant now) {
    Call call;
    std::set<std::string> seen;
    std::deque<Waiting> passed;
    std::size_t bytes = 0;
    BootInstant latest{};
    for (std::size_t i = 0; i < kMostLookedThrough && !waiting_.empty(); ++i) {
      Waiting next = std::move(waiting_.front());
      waiting_.pop_front();
      const bool first_of_lock = seen.insert(next.lock).second;
      const bool fits = call.parts.empty() || (bytes + next.bytes <= limits_.bytes &&
                                               alike(call.deadline, latest, next.deadline, now));
      if (!first_of_lock || !fits) {
        passed.push_back(std::move(next));
        continue;
      }
      bytes += next.bytes;
      call.deadline = call.parts.empty() ? next.deadline : std::min(call.deadline, next.deadline);
      latest = std::max(latest, next.deadline);
      call.parts.push_back(std::move(next.part));
      if (call.parts.size() == limits_.parts) break;
    }
    waiting_.insert(waiting_.begin(), std::make_move_iterator(passed.begin()),
                    std::make_move_iterator(passed.end()));
    if (!call.parts.empty()) ends_.insert(call.deadline);
    return call;
  }

  bool may_go() const {
    if (waiting_.empty()) return false;
    if (ends_.size() < limits_.calls || waiting_.size() >= limits_.parts) return true;
    // An answer comes by the first end at the latest.
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [this](const Waiting& each) { return each.deadline < *ends_.begin(); });
  }

  void drop_late(BootInstant now, std::vector<Part>& late) {
    const auto is_late = [now](const Waiting& each) { return each.deadline <= now; };
    if (std::none_of(waiting_.begin(), waiting_.end(), is_late)) return;
    std::deque<Waiting> left;
    for (Waiting& each : waiting_) {
      if (is_late(each)) {
        late.push_back(std::move(each.part));
      } else {
        left.push_back(std::move(each));
      }
    }
    waiting_.swap(left);
  }

  BatchLimits limits_;
  std::deque<Waiting> waiting_;
  std::multiset<BootInstant> ends_;  // Deadlines of the calls under way.
};

}  // namespace holdfast::contend
