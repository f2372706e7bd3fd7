#include "src/stores/holdfast/shard_renewals.h"

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

ShardRenewals::ShardRenewals(const std::vector<std::unique_ptr<port::Store>>& stores) {
  for (const auto& each : stores) {
    queues_.push_back(std::make_unique<Queue>());
    queues_.back()->store = each.get();
  }
}

ShardRenewals::~ShardRenewals() { stop(); }

void ShardRenewals::renew(std::size_t number, std::vector<port::RenewItem> items,
                          BootInstant deadline, port::Done<States> done) {
  Queue& queue = *queues_[number];
  {
    const base::LocalLock lock(mutex_);
    if (!stopping_) {
      const BootInstant now = BootClock::now();
      const BootInstant until = now + std::max(deadline - now, BootClock::duration::zero()) / 2;
      const bool waits = queue.busy || !queue.waiting.empty();
      queue.waiting.push_back({std::move(items), deadline, until, std::move(done)});
      if (!queue.thread.joinable()) {
        queue.thread = base::start_thread("holdfast-renew", [this, &queue] { run(queue); });
      }
      if (waits && !watcher_.joinable()) {
        watcher_ = base::start_thread("holdfast-watch", [this] { watch(); });
      }
      queue.changed.notify_one();
      return waits_changed_.notify_one();
    }
  }
  queue.store->renew(std::move(items), deadline, std::move(done));  // It is closed, and says so.
}

void ShardRenewals::run(Queue& queue) {
  mutex_.lock();
  while (!stopping_ || !queue.waiting.empty()) {
    if (queue.waiting.empty()) {
      queue.changed.wait(mutex_);
      continue;
    }
    Batch batch = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    queue.busy = true;
    if (!queue.waiting.empty()) waits_changed_.notify_one();
    mutex_.unlock();
    queue.store->renew(std::move(batch.items), batch.deadline, std::move(batch.done));
    mutex_.lock();
    queue.busy = false;
  }
  mutex_.unlock();
}

void ShardRenewals::watch() {
  const base::LocalLock lock(mutex_);
  while (!stopping_) {
    const BootInstant now = BootClock::now();
    const BootInstant next = give_up_what_hangs(now);
    next == BootInstant::max() ? waits_changed_.wait(mutex_)
                               : waits_changed_.wait_for(mutex_, next - now);
  }
}

// When it has to look again.
BootInstant ShardRenewals::give_up_what_hangs(BootInstant now) {
  BootInstant next = BootInstant::max();
  for (const auto& queue : queues_) {
    if (!queue->busy) continue;
    BootInstant due = BootInstant::max();
    for (const Batch& each : queue->waiting) due = std::min(due, each.waits_until);
    if (due <= now) {
      queue->store->give_up_renewal();
      due = now + kGiveUpAgain;
    }
    next = std::min(next, due);
  }
  return next;
}

void ShardRenewals::stop() {
  std::vector<std::thread> threads;
  {
    const base::LocalLock lock(mutex_);
    stopping_ = true;
    for (const auto& queue : queues_) {
      threads.push_back(std::move(queue->thread));
      queue->changed.notify_one();
    }
    threads.push_back(std::move(watcher_));
    waits_changed_.notify_one();
  }
  for (std::thread& each : threads) {
    if (each.joinable()) each.join();
  }
}

}  // namespace holdfast::stores::holdfast
