#include "src/session/event_loop.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>

#include "src/base/local_mutex.h"
#include "src/base/thread.h"
#include "src/base/timer_fd.h"

namespace holdfast::session {

struct EventLoop::Impl {
  explicit Impl(std::function<void()> timer_callback)
      : on_timer(std::move(timer_callback)),
        timer_fd(base::make_timer_fd()),
        timer(context, timer_fd) {}

  void wait_for_timer() {
    timer.async_wait(asio::posix::stream_descriptor::wait_read, [this](std::error_code error) {
      if (error) return;
      std::uint64_t expirations = 0;
      // EAGAIN: the timer was armed again after it fired, and will fire again.
      if (::read(timer_fd, &expirations, sizeof expirations) > 0) on_timer();
      wait_for_timer();
    });
  }

  // Runs what has gathered, and what that posts in its next turn.
  void drain() {
    {
      const base::LocalLock lock(mutex);
      running.swap(posted);
    }
    for (port::Task& task : running) {
      task();
      task = nullptr;  // Its captures go while the next has not begun.
    }
    running.clear();
  }

  std::function<void()> on_timer;
  base::LocalMutex mutex;
  std::vector<port::Task> posted HOLDFAST_GUARDED_BY(mutex);
  std::vector<port::Task> running;  // The loop's own.
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(context);
  int timer_fd;
  asio::posix::stream_descriptor timer;
  std::thread thread;
};

EventLoop::EventLoop(std::function<void()> on_timer)
    : impl_(std::make_unique<Impl>(std::move(on_timer))) {
  impl_->wait_for_timer();
  impl_->thread =
      base::start_thread("holdfast-loop", [impl = impl_.get()] { impl->context.run(); });
}

EventLoop::~EventLoop() { stop(); }

// Only the first post wakes the loop, since a wake costs a system call. Later ones ride along.
void EventLoop::post(port::Task task) {
  bool first = false;
  {
    const base::LocalLock lock(impl_->mutex);
    first = impl_->posted.empty();
    impl_->posted.push_back(std::move(task));
  }
  if (first) asio::post(impl_->context, [impl = impl_.get()] { impl->drain(); });
}

asio::io_context& EventLoop::io() noexcept { return impl_->context; }

void EventLoop::arm(base::BootInstant at) noexcept { base::set_timer_fd(impl_->timer_fd, at); }

void EventLoop::stop() {
  if (!impl_->thread.joinable()) return;
  asio::post(impl_->context, [this] {
    impl_->timer.close();
    impl_->work.reset();
  });
  impl_->thread.join();
}

}  // namespace holdfast::session
