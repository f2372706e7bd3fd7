#include "src/stores/sqlite/job_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

namespace holdfast::stores::sqlite {

JobQueue::JobQueue(std::size_t limit)
    : limit_(limit), event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

JobQueue::~JobQueue() { abandon(); }

std::optional<Error> JobQueue::push(Job& job) {
  {
    const base::LocalLock lock(mutex_);
    if (closed()) return Error(Errc::kClosed, "the client is closed");
    if (jobs_.size() >= limit_) {
      return Error(Errc::kQueueFull, "sqlite store: " + std::to_string(limit_) +
                                         " requests wait for the file already; try later");
    }
    pending_.fetch_add(1, std::memory_order_acq_rel);
    jobs_.push_back(std::move(job));
  }
  wake();
  return std::nullopt;
}

std::optional<Job> JobQueue::pop() {
  const base::LocalLock lock(mutex_);
  if (jobs_.empty()) return std::nullopt;
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  return job;
}

void JobQueue::close() {
  {
    const base::LocalLock lock(mutex_);
    closed_.store(true, std::memory_order_release);
  }
  wake();
}

void JobQueue::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(event_, &one, sizeof one);
}

void JobQueue::consume_wake() const {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t ignored = ::read(event_, &count, sizeof count);
}

void JobQueue::abandon() noexcept {
  if (event_ >= 0) ::close(event_);
  event_ = -1;
}

}  // namespace holdfast::stores::sqlite
