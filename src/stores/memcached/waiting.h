// The tickets of this client that wait, by lock; and when to look at each lock.
//
// The pace: 5 ms after a change, for the first in the queue; then each pause is half again as long
// as the one before, up to the URL's `poll`. For those behind, the first pause is as many times
// longer as others wait before them, and the longest is five times `poll`. Each is between 3/4 and
// 5/4 of that, at random.
// No lease that runs out is looked at late: see until().
//
// Version: where a document was seen; compared for equality only.
// Thread-safety: none. Time: boot time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/clock.h"
#include "src/base/jitter.h"
#include "src/machine/image.h"

namespace holdfast::stores::memcached {

template <typename Version>
class WaitingTickets {
 public:
  using Pause = std::chrono::microseconds;

  struct Lock {
    std::vector<machine::AcquisitionId> ids;    // Sorted.
    std::optional<Version> seen;                // The document that is known.
    std::optional<machine::Instant> lease_end;  // The first of a holder in it.
    std::size_t ahead = 0;
    Pause pause{};
    base::BootInstant due{};
    bool asked = false;  // A question is under way.
  };

  bool empty() const { return locks_.empty(); }
  bool contains(const std::string& name) const { return !locks_.empty() && locks_.contains(name); }
  std::unordered_map<std::string, Lock>& locks() { return locks_; }
  Lock* find(const std::string& name) {
    const auto found = locks_.find(name);
    return found == locks_.end() ? nullptr : &found->second;
  }

  void add(const std::string& name, machine::AcquisitionId id) {
    auto& ids = locks_[name].ids;
    const auto at = std::lower_bound(ids.begin(), ids.end(), id);
    if (at == ids.end() || *at != id) ids.insert(at, id);
  }
  void remove(const std::string& name, machine::AcquisitionId id) {
    if (locks_.empty()) return;
    const auto found = locks_.find(name);
    if (found == locks_.end()) return;
    auto& ids = found->second.ids;
    const auto at = std::lower_bound(ids.begin(), ids.end(), id);
    if (at != ids.end() && *at == id) ids.erase(at);
    if (ids.empty()) locks_.erase(found);
  }

  // The tickets of ours that do not wait any more: held, or gone. They are removed.
  struct News {
    machine::AcquisitionId id;
    const machine::TicketImage* held = nullptr;  // nullptr: it is gone.
  };
  std::vector<News> compare(const machine::LockImage& lock) {
    std::vector<News> news;
    const auto found = locks_.find(lock.name);
    if (found == locks_.end()) return news;
    Lock& waits = found->second;
    std::vector<machine::AcquisitionId> still;
    std::size_t before = 0;
    waits.lease_end.reset();
    for (const machine::TicketImage& ticket : lock.tickets) {
      if (ticket.system) continue;
      const bool ours = std::binary_search(waits.ids.begin(), waits.ids.end(), ticket.id);
      if (ticket.held) {
        if (ours) news.push_back({ticket.id, &ticket});
        if (!waits.lease_end || ticket.lease_end < *waits.lease_end) {
          waits.lease_end = ticket.lease_end;
        }
        continue;
      }
      if (ours && still.empty()) waits.ahead = before;
      if (ours) still.push_back(ticket.id);
      ++before;
    }
    std::sort(still.begin(), still.end());
    for (const machine::AcquisitionId& id : waits.ids) {
      if (std::binary_search(still.begin(), still.end(), id)) continue;
      const bool held =
          std::any_of(news.begin(), news.end(), [&](const News& each) { return each.id == id; });
      if (!held) news.push_back({id, nullptr});
    }
    waits.ids = std::move(still);
    if (waits.ids.empty()) locks_.erase(found);
    return news;
  }

  // The document has changed, or has been read for the first time.
  void changed(Lock& lock) {
    const auto times = static_cast<int>(std::min<std::size_t>(lock.ahead, 19)) + 1;
    lock.pause = std::chrono::milliseconds(5) * times;
  }
  void not_changed(Lock& lock, std::chrono::milliseconds poll) {
    const Pause most = lock.ahead == 0 ? Pause(poll) : Pause(poll) * 5;
    lock.pause = std::min(lock.pause * 3 / 2, most);
  }
  void set_due(Lock& lock, base::BootInstant now, base::Jitter& jitter) {
    lock.due = now + jitter.around(lock.pause);
  }

 private:
  std::unordered_map<std::string, Lock> locks_;
};

}  // namespace holdfast::stores::memcached
