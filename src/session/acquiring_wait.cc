// A thread waits for its lock asleep, or it reads the store's pushes itself.
#include <algorithm>

#include "src/session/acquiring.h"

namespace holdfast::session {
namespace {

// A thread that waited for a lock often waits again. If nobody else waits, no thread is woken to
// read pushes in between. This ends after a short time, because a push may tell that a held lock
// was broken.
constexpr std::chrono::milliseconds kPushReaderStays(50);

}  // namespace

Result<Acquiring::AcquisitionPtr> Acquiring::answer_of(const AcquisitionPtr& acquisition) {
  const Wait& wait = *acquisition->wait;
  if (wait.failure) return *wait.failure;
  return wait.granted ? acquisition : AcquisitionPtr();
}

Result<Acquiring::AcquisitionPtr> Acquiring::await_answer(const AcquisitionPtr& acquisition) {
  Wait& wait = *acquisition->wait;
  std::uint32_t seen = wait.word.get();
  for (; (seen & Wait::kFinished) == 0; seen = wait.word.get()) {
    // A push that comes in runs a turn of the core on this thread.
    (seen & Wait::kReads) != 0 ? store_->push_reader()->listen() : loop_.wait(wait.word, seen);
  }
  if ((seen & Wait::kReads) != 0) stop_listening();
  if (const auto news = wait.queued_news) news->end();
  return answer_of(acquisition);
}

// The thread that has waited longest reads the pushes for all: in a queue it is the next to get
// one. A thread that is not queued yet waits for a reply, not for a push.
void Acquiring::listen_for(Wait& wait) {
  if (wait.done || store_->push_reader() == nullptr) return;
  push_reader_is_left_ = false;
  at_push_reader_.push_back(&wait);
  if (at_push_reader_.size() > 1) return;
  wait.word.set(Wait::kReads);
  loop_.word_was_set();
}

// It has an answer. The one that listens stays the first until its thread has come back: two must
// not listen at the same time.
void Acquiring::need_not_listen(Wait& wait) {
  if ((wait.word.get() & Wait::kReads) != 0) return;
  const auto place = std::find(at_push_reader_.begin(), at_push_reader_.end(), &wait);
  if (place != at_push_reader_.end()) at_push_reader_.erase(place);
}

// The next waiter reads on. With nobody else waiting the reader stays free for a moment. If others
// wait without a thread of theirs, the loop has to read.
void Acquiring::stop_listening() {
  const base::LocalLock lock(mutex_);
  at_push_reader_.pop_front();
  if (!at_push_reader_.empty()) {
    at_push_reader_.front()->word.set(Wait::kReads);
    loop_.word_was_set();
  } else if (asynchronous_waits_ == 0) {
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
