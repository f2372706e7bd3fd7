// A thread waits for its lock asleep, or it reads the store's pushes itself.
#include "src/session/acquiring.h"

namespace holdfast::session {
namespace {

// A thread that waited for a lock often waits again. If nobody else waits, no thread is woken to
// read pushes in between. This ends after a short time, because a push may tell that a held lock
// was broken.
constexpr std::chrono::milliseconds kPushReaderStays(50);

}  // namespace

Result<Acquiring::AcquisitionPtr> Acquiring::await_answer(const AcquisitionPtr& acquisition) {
  Result<AcquisitionPtr> answer = acquisition;
  std::shared_ptr<QueuedNews> news;
  {
    const base::LocalLock lock(mutex_);
    Acquisition::Wait& wait = *acquisition->wait;
    if (store_->push_reader() != nullptr) await_at_push_reader(wait);
    while (!wait.finished) wait.changed.wait(mutex_);
    news = wait.queued_news;
    if (wait.failure) {
      answer = *wait.failure;
    } else if (!acquisition->renewal) {
      answer = AcquisitionPtr();
    }
  }
  if (news) news->end();
  return answer;
}

// The thread that has waited longest reads the pushes for all: in a queue it is the next to get
// one.
void Acquiring::await_at_push_reader(Acquisition::Wait& wait) {
  if (wait.finished) return;
  const auto place = at_push_reader_.insert(at_push_reader_.end(), &wait);
  push_reader_is_left_ = false;
  while (!wait.finished) {
    if (place != at_push_reader_.begin()) {
      wait.changed.wait(mutex_);
      continue;
    }
    wait.push_reader = std::this_thread::get_id();
    // The mutex is free meanwhile, because a push that comes in runs a turn of the core on this
    // thread.
    mutex_.unlock();
    store_->push_reader()->listen();
    mutex_.lock();
    wait.push_reader.reset();
  }
  const bool listened = place == at_push_reader_.begin();
  at_push_reader_.erase(place);
  if (!listened) return;
  // The next waiter reads on. With nobody else waiting the reader stays free for a moment. If
  // others wait without a thread of theirs, the loop has to read.
  if (!at_push_reader_.empty()) {
    at_push_reader_.front()->changed.notify_all();
  } else if (waiting_.empty()) {
    push_reader_is_left_ = true;
    arm(base::BootClock::now() + kPushReaderStays);
  } else {
    store_->push_reader()->rest();
  }
}

// The thread that left the push reader did not come back in time, so the loop reads pushes again.
void Acquiring::leave_push_reader() {
  if (std::exchange(push_reader_is_left_, false) && at_push_reader_.empty())
    store_->push_reader()->rest();
}

}  // namespace holdfast::session
