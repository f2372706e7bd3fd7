#include "src/stores/redis/renewal_threads.h"

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>

#include "src/base/abandon.h"
#include "src/base/local_mutex.h"
#include "src/base/thread.h"

namespace holdfast::stores::redis {

// Threads that start when they are needed, up to a number.
class RenewalThreads::Pool {
 public:
  explicit Pool(std::size_t most) : most_(most) {}

  // False after stop().
  bool post(port::Task& task) {
    const base::LocalLock lock(mutex_);
    if (stopping_) return false;
    tasks_.push_back(std::move(task));
    if (tasks_.size() > idle_ && threads_.size() < most_) {
      threads_.push_back(base::start_thread("holdfast-renew", [this] { run(); }));
    }
    wake_.notify_one();
    return true;
  }

  void stop() {
    std::vector<std::thread> threads;
    {
      const base::LocalLock lock(mutex_);
      stopping_ = true;
      threads.swap(threads_);
      wake_.notify_all();
    }
    for (std::thread& each : threads) each.join();
  }

 private:
  void run() {
    mutex_.lock();
    while (!stopping_ || !tasks_.empty()) {
      if (tasks_.empty()) {
        ++idle_;
        wake_.wait(mutex_);
        --idle_;
        continue;
      }
      const port::Task task = std::move(tasks_.front());
      tasks_.pop_front();
      mutex_.unlock();
      task();
      mutex_.lock();
    }
    mutex_.unlock();
  }

  const std::size_t most_;
  base::LocalMutex mutex_;
  base::LocalCondition wake_;
  std::deque<port::Task> tasks_ HOLDFAST_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ HOLDFAST_GUARDED_BY(mutex_);
  std::size_t idle_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  bool stopping_ HOLDFAST_GUARDED_BY(mutex_) = false;
};

RenewalThreads::RenewalThreads(port::Loop& loop, Ask ask, bool has_threads)
    : loop_(loop),
      ask_(std::move(ask)),
      renewals_(has_threads ? std::make_shared<Pool>(kForRenewals) : nullptr),
      heartbeats_(has_threads ? std::make_shared<Pool>(kForHeartbeats) : nullptr) {}

RenewalThreads::~RenewalThreads() { stop(); }

void RenewalThreads::renew(std::vector<port::RenewItem> items, base::BootInstant deadline,
                           port::Done<States> done) {
  const bool only_heartbeats = std::all_of(items.begin(), items.end(), is_heartbeat);
  port::Task batch = [this, items = std::move(items), deadline, done = std::move(done)]() mutable {
    loop_.post([states = ask_(items, deadline), done = std::move(done)]() mutable {
      done(std::move(states));
    });
  };
  const std::shared_ptr<Pool>& threads = only_heartbeats ? heartbeats_ : renewals_;
  if (threads == nullptr || !threads->post(batch)) batch();
}

void RenewalThreads::stop() {
  if (heartbeats_ != nullptr) heartbeats_->stop();
  if (renewals_ != nullptr) renewals_->stop();
}

void RenewalThreads::abandon() noexcept {
  base::abandon(std::move(heartbeats_));
  base::abandon(std::move(renewals_));
}

}  // namespace holdfast::stores::redis
