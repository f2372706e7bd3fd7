#include "src/stores/holdfast/renewal_lanes.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/base/thread.h"

namespace holdfast::stores::holdfast {
namespace {

using base::BootClock;
using base::BootInstant;

// A batch that is given up just before it is sent does not notice. So it is given up again.
constexpr std::chrono::milliseconds kGiveUpAgain{10};

}  // namespace

RenewalLanes::RenewalLanes(const std::vector<std::unique_ptr<port::Store>>& stores) {
  for (const auto& each : stores) {
    lanes_.push_back(std::make_unique<Lane>());
    lanes_.back()->store = each.get();
  }
}

RenewalLanes::~RenewalLanes() { stop(); }

void RenewalLanes::renew(std::size_t number, std::vector<port::RenewItem> items,
                         BootInstant deadline, port::Done<States> done) {
  Lane& lane = *lanes_[number];
  {
    const base::LocalLock lock(mutex_);
    if (!stopping_) {
      const BootInstant now = BootClock::now();
      const BootInstant until = now + std::max(deadline - now, BootClock::duration::zero()) / 2;
      lane.waiting.push_back({std::move(items), deadline, until, std::move(done)});
      if (!lane.thread.joinable()) {
        lane.thread = base::start_thread("holdfast-renew", [this, &lane] { run(lane); });
      }
      if (!lane.busy) return lane.changed.notify_one();
      if (!watcher_.joinable()) {
        watcher_ = base::start_thread("holdfast-watch", [this] { watch(); });
      }
      return waits_changed_.notify_one();
    }
  }
  lane.store->renew(std::move(items), deadline, std::move(done));  // It is closed, and says so.
}

void RenewalLanes::run(Lane& lane) {
  mutex_.lock();
  while (!stopping_ || !lane.waiting.empty()) {
    if (lane.waiting.empty()) {
      lane.changed.wait(mutex_);
      continue;
    }
    Batch batch = std::move(lane.waiting.front());
    lane.waiting.pop_front();
    lane.busy = true;
    mutex_.unlock();
    lane.store->renew(std::move(batch.items), batch.deadline, std::move(batch.done));
    mutex_.lock();
    lane.busy = false;
  }
  mutex_.unlock();
}

void RenewalLanes::watch() {
  const base::LocalLock lock(mutex_);
  while (!stopping_) {
    const BootInstant now = BootClock::now();
    const BootInstant next = give_up_what_hangs(now);
    next == BootInstant::max() ? waits_changed_.wait(mutex_)
                               : waits_changed_.wait_for(mutex_, next - now);
  }
}

// When it has to look again.
BootInstant RenewalLanes::give_up_what_hangs(BootInstant now) {
  BootInstant next = BootInstant::max();
  for (const auto& lane : lanes_) {
    if (!lane->busy) continue;
    BootInstant due = BootInstant::max();
    for (const Batch& each : lane->waiting) due = std::min(due, each.waits_until);
    if (due <= now) {
      lane->store->give_up_renewal();
      due = now + kGiveUpAgain;
    }
    next = std::min(next, due);
  }
  return next;
}

void RenewalLanes::stop() {
  std::vector<std::thread> threads;
  {
    const base::LocalLock lock(mutex_);
    stopping_ = true;
    for (const auto& lane : lanes_) {
      threads.push_back(std::move(lane->thread));
      lane->changed.notify_one();
    }
    threads.push_back(std::move(watcher_));
    waits_changed_.notify_one();
  }
  for (std::thread& each : threads) {
    if (each.joinable()) each.join();
  }
}

}  // namespace holdfast::stores::holdfast
