// The jobs that wait for the store's thread, in order; and the descriptor that wakes it.
//
// Thread-safety: safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>

#include "holdfast/result.h"
#include "src/base/local_mutex.h"

namespace holdfast::stores::sqlite {

struct Job {
  std::function<void()> run;
  std::function<void(const Error&)> refuse;
  bool gives_back = false;  // A release or cancel: still run while the store closes.
};

class JobQueue {
 public:
  explicit JobQueue(std::size_t limit);
  ~JobQueue();
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  // The error for the caller when there is no room, or close() was called. `job` is kept then.
  std::optional<Error> push(Job& job);
  std::optional<Job> pop();
  // The job popped last is done: called by its `run` or `refuse`.
  void finished() { pending_.fetch_sub(1, std::memory_order_release); }
  // Nothing waits and nothing runs.
  bool idle() const { return pending_.load(std::memory_order_acquire) == 0; }

  void close();
  bool closed() const { return closed_.load(std::memory_order_acquire); }

  int descriptor() const { return event_; }  // Readable when there is something to do.
  void wake() const;
  void consume_wake() const;
  void abandon() noexcept;

 private:
  const std::size_t limit_;
  int event_ = -1;
  std::atomic<std::size_t> pending_{0};
  std::atomic<bool> closed_{false};
  base::LocalMutex mutex_;
  std::deque<Job> jobs_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::stores::sqlite
