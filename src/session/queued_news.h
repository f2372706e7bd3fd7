// The calls of AcquireOptions::on_queued and on_lock_delay for one wait.
//
// Guarantee: none begins after the wait was answered; an answer waits for a call that has begun. So
// what the callbacks refer to may go when the wait is over.
//
// Thread-safety: safe. The callback runs without a lock.
#pragma once

#include <functional>
#include <utility>

#include "src/base/local_mutex.h"

namespace holdfast::session {

class QueuedNews {
 public:
  // On the notifier's thread.
  void tell(const std::function<void()>& callback) {
    {
      const base::LocalLock lock(mutex_);
      if (over_) return;
      running_ = true;
    }
    callback();
    std::function<void()> answer;
    {
      const base::LocalLock lock(mutex_);
      running_ = false;
      answer = std::move(answer_);
      told_.notify_all();
    }
    if (answer) answer();
  }

  // The wait is over: returns when no call runs, and none will.
  void end() {
    const base::LocalLock lock(mutex_);
    over_ = true;
    while (running_) told_.wait(mutex_);
  }

  // The same for a thread that must not sleep: `answer` is called now, or behind the call that
  // runs.
  void end(std::function<void()> answer) {
    {
      const base::LocalLock lock(mutex_);
      over_ = true;
      if (running_) {
        answer_ = std::move(answer);
        return;
      }
    }
    answer();
  }

 private:
  base::LocalMutex mutex_;
  base::LocalCondition told_;
  bool running_ HOLDFAST_GUARDED_BY(mutex_) = false;
  bool over_ HOLDFAST_GUARDED_BY(mutex_) = false;
  std::function<void()> answer_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::session
