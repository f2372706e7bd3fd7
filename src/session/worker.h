// A thread that runs tasks in order. A store's renewals may block, so they have one. The user's
// callbacks have another, since they must hold up neither deadlines nor renewals.
//
// Thread-safety: post() from any thread. The thread starts with the first task.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "src/base/local_mutex.h"

namespace holdfast::session {

class Worker {
 public:
  explicit Worker(const char* name) : name_(name) {}
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Tasks posted after stop() are dropped.
  void post(std::function<void()> task);
  // Runs what was posted before and ends the thread. Not from the thread itself.
  void stop();

 private:
  void run();

  const char* name_;
  base::LocalMutex mutex_;
  base::LocalCondition wake_;
  std::deque<std::function<void()>> tasks_ HOLDFAST_GUARDED_BY(mutex_);
  bool stopping_ HOLDFAST_GUARDED_BY(mutex_) = false;
  std::thread thread_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::session
