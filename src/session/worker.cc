#include "src/session/worker.h"

#include <utility>

#include "src/base/thread.h"

namespace holdfast::session {

void Worker::post(std::function<void()> task) {
  const base::LocalLock lock(mutex_);
  if (stopping_) return;
  tasks_.push_back(std::move(task));
  if (!thread_.joinable()) thread_ = base::start_thread(name_, [this] { run(); });
  wake_.notify_one();
}

void Worker::run() {
  mutex_.lock();
  while (!stopping_ || !tasks_.empty()) {
    if (tasks_.empty()) {
      wake_.wait(mutex_);
      continue;
    }
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    mutex_.unlock();
    task();
    task = nullptr;  // Its captures may belong to the user: let them go without the mutex.
    mutex_.lock();
  }
  mutex_.unlock();
}

void Worker::stop() {
  std::thread thread;
  {
    const base::LocalLock lock(mutex_);
    stopping_ = true;
    thread = std::move(thread_);
    wake_.notify_all();
  }
  if (thread.joinable()) thread.join();
}

}  // namespace holdfast::session
