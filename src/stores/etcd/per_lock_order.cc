#include "src/stores/etcd/per_lock_order.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace holdfast::stores::etcd {

bool PerLockOrder::waits(const Job& later, const Job& earlier) {
  // A step changes several keys, so nothing runs beside it.
  if (later.kind == Kind::kStep || earlier.kind == Kind::kStep) return true;
  // Entries must be created in the order of their calls, and must see earlier removals.
  if (later.kind == Kind::kEnter && earlier.kind != Kind::kOther) return true;
  return later.id == earlier.id;
}

void PerLockOrder::run(const std::string& lock, Kind kind, const machine::AcquisitionId& id,
                       std::function<void(std::function<void()> finished)> start) {
  Lane& lane = order_[lock];
  Job job{kind, id, std::move(start)};
  const bool blocked = std::any_of(lane.begin(), lane.end(),
                                   [&](const Job& earlier) { return waits(job, earlier); });
  lane.push_back(std::move(job));
  if (!blocked) begin(lock, std::prev(lane.end()));
}

void PerLockOrder::begin(const std::string& lock, Lane::iterator job) {
  const auto start = std::exchange(job->start, nullptr);
  start([this, lock, job] { finish(lock, job); });
}

void PerLockOrder::finish(const std::string& lock, Lane::iterator job) {
  const auto found = order_.find(lock);
  Lane& lane = found->second;
  lane.erase(job);
  if (lane.empty()) {
    order_.erase(found);
    return;
  }
  // Collected first, because a job that begins may end at once and change the list.
  std::vector<Lane::iterator> free;
  for (auto each = lane.begin(); each != lane.end(); ++each) {
    if (!each->start) continue;
    if (std::none_of(lane.begin(), each,
                     [&](const Job& earlier) { return waits(*each, earlier); })) {
      free.push_back(each);
    }
  }
  for (const auto& each : free) begin(lock, each);
}

}  // namespace holdfast::stores::etcd
