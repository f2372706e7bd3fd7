// Renews at each shard on a thread of its own, so that a shard that hangs holds up no other one.
//
// Guarantee: a batch is answered once, by its shard's store, on the loop. A batch that waits behind
// one that hangs has that one given up after half of the time that it has itself.
// Not guaranteed: that batches of one shard are answered in their order. One that was given up may
// have been applied.
//
// Thread-safety: any thread. Ownership: the stores outlive it. Blocking: stop(), until the batches
// are answered; close the stores first. Time: boot time.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/base/local_mutex.h"
#include "src/port/store.h"

namespace holdfast::stores::holdfast {

class ShardRenewals {
 public:
  using States = std::vector<Result<port::AcquisitionState>>;

  explicit ShardRenewals(const std::vector<std::unique_ptr<port::Store>>& stores);
  ~ShardRenewals();
  ShardRenewals(const ShardRenewals&) = delete;
  ShardRenewals& operator=(const ShardRenewals&) = delete;

  void renew(std::size_t shard, std::vector<port::RenewItem> items, base::BootInstant deadline,
             port::Done<States> done);
  void stop();

 private:
  struct Batch {
    std::vector<port::RenewItem> items;
    base::BootInstant deadline{};
    base::BootInstant waits_until{};  // Behind another one.
    port::Done<States> done;
  };
  struct Queue {
    port::Store* store = nullptr;
    bool busy = false;
    std::deque<Batch> waiting{};
    base::LocalCondition changed{};
    std::thread thread{};  // From the first batch on.
  };

  void run(Queue& queue);
  void watch();
  base::BootInstant give_up_what_hangs(base::BootInstant now) HOLDFAST_REQUIRES(mutex_);

  base::LocalMutex mutex_;
  base::LocalCondition waits_changed_;
  bool stopping_ HOLDFAST_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<Queue>> queues_;  // Their contents: with the mutex.
  std::thread watcher_;                         // From the first batch on that has to wait.
};

}  // namespace holdfast::stores::holdfast
