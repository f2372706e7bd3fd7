// Decides which requests share a call to a store, and when. Many requests in one call cost the
// store one entry of its log.
//
//   Unanswered calls     what waits
//   fewer than a few     goes, as many as fit one call
//   a few                gathers; goes when one is answered, when it fills a call, or when it
//                        could not wait for an answer by its deadline
//
// It only decides. The sender calls take() at the end of a loop's turn with new requests, and after
// each answer, until it returns nothing. So a lone request goes at once, and no request waits for a
// timer.
//
// Guarantee: requests with the same `lock` go in the order of their adding, and in separate calls.
// The parts of a call share one number of the store, but entries of one queue need different
// numbers. A call ends by the earliest deadline of its parts.
// Not guaranteed: the order of different locks; that the requests gathered during a call still have
// time after its answer. Requests that cannot join a batch do not come here, nor parts that are
// repeated alone after a refused call: the sender sends those at once, in its own order.
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
  std::size_t calls = 2;          // With this many unanswered calls, others gather.
};

template <typename Part>
class BatchQueue {
 public:
  using BootInstant = base::BootInstant;

  struct Call {
    std::vector<Part> parts;  // Empty if nothing should be sent now.
    BootInstant deadline{};   // Pass it to answered().
  };

  explicit BatchQueue(BatchLimits limits) : limits_(limits) {}

  void add(std::string lock, BootInstant deadline, std::size_t bytes, Part part) {
    waiting_.push_back({std::move(lock), deadline, bytes, std::move(part)});
  }

  // The next call, which counts as sent from now on. Parts after their deadline go to `late`
  // instead.
  Call take(BootInstant now, std::vector<Part>& late) {
    drop_late(now, late);
    return may_go() ? take_some(now) : Call();
  }
  // The same even with the full number of unanswered calls, for a sender whose next request must
  // not overtake these.
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

  // The store accepts no more parts in one call.
  void limit_parts(std::size_t most) { limits_.parts = std::max<std::size_t>(most, 1); }

  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Waiting {
    std::string lock;
    BootInstant deadline{};
    std::size_t bytes = 0;
    Part part;
  };

  // How many requests are searched for fitting ones, so that a call does not search a whole long
  // queue.
  static constexpr std::size_t kMostLookedThrough = 256;

  // The remaining times of two parts differ by at most a factor of two, so no request ends much
  // earlier than asked, and no call stays open for others.
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
    // Some call under way ends by the earliest of these deadlines.
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
