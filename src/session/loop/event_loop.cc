#include "src/session/loop/event_loop.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>

#include "src/base/brief_spin.h"
#include "src/base/local_mutex.h"
#include "src/base/thread.h"
#include "src/base/timer_fd.h"
#include "src/session/loop/lending.h"

namespace holdfast::session {
namespace {

// A server near by answers a request with a commit in this time.
constexpr std::chrono::microseconds kLooks(300);
// Then the caller leaves the loop to its thread, and sleeps.
constexpr std::chrono::milliseconds kLongestRun(20);
// With more than that to do, the loop is too busy to be lent.
constexpr int kMostTasksFirst = 64;

// While a caller's thread runs the loop it is as one of ours: deaf to signals, not cancelled within
// a task, and never waiting for the loop to end.
class AsLibraryThread {
 public:
  AsLibraryThread() : before_(std::exchange(base::is_library_thread, true)) {
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_);
  }
  ~AsLibraryThread() {
    ::pthread_setcancelstate(cancel_, nullptr);
    base::is_library_thread = before_;
  }
  AsLibraryThread(const AsLibraryThread&) = delete;
  AsLibraryThread& operator=(const AsLibraryThread&) = delete;

 private:
  const base::BlockedSignals blocked_;
  const bool before_;
  int cancel_ = 0;
};

}  // namespace

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

  // False: there is more. New tasks may come as fast as they are done, and an answer waits.
  bool do_what_is_ready() {
    for (int done = 0; done < kMostTasksFirst; ++done) {
      if (context.poll_one() == 0) return true;
    }
    return false;
  }

  void run() {
    for (context.run(); last_answer; context.run()) {
      context.restart();
      const bool busy = !do_what_is_ready();
      const port::Task tell = std::exchange(last_answer, nullptr);
      if (busy) lending.put_off();
      over || busy ? tell() : lending.let_go(tell);
    }
  }

  // On a caller's thread. A task must not throw into a call of the user, who might go on without a
  // loop then.
  void run_for(const base::WaitWord& word, std::uint32_t seen,
               std::chrono::nanoseconds limit) noexcept {
    using std::chrono::steady_clock;
    const AsLibraryThread ours;  // A signal is handled once the loop is given back.
    if (!lending.begin_run()) return;
    const auto answered = [&] { return word.get() != seen; };
    const auto go_on = [&] { return !answered() && lending.may_run() && !context.stopped(); };
    const auto until = steady_clock::now() + std::min<std::chrono::nanoseconds>(limit, kLongestRun);
    spin.until([&] {
      while (go_on() && steady_clock::now() < until && context.poll_one() > 0) {
      }
      return !go_on();
    });
    while (go_on() && context.run_one_until(until) > 0) {
    }
    lending.end_run(/*more=*/!answered() || over);
  }

  std::function<void()> on_timer;
  Lending lending;
  // They belong to whoever has the loop.
  base::BriefSpin spin{kLooks};
  port::Task last_answer;  // With it the loop is let go.
  bool over = false;
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
  impl_->thread = base::start_thread("holdfast-loop", [impl = impl_.get()] { impl->run(); });
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

// A caller that runs the loop ends its task; it may be asleep for want of one.
void EventLoop::keep() {
  impl_->lending.keep();
  if (impl_->context.get_executor().running_in_this_thread()) return;
  asio::post(impl_->context, [] {});
  impl_->lending.await_thread();
}

void EventLoop::rouse() { impl_->lending.recall(); }

void EventLoop::wait(base::WaitWord& word, std::uint32_t seen, std::chrono::nanoseconds limit) {
  const auto begin = std::chrono::steady_clock::now();
  if (impl_->lending.begin_wait()) impl_->run_for(word, seen, limit);
  if (limit == std::chrono::nanoseconds::max()) {
    word.wait(seen);
  } else {
    word.wait_for(seen, limit - (std::chrono::steady_clock::now() - begin));
  }
  impl_->lending.end_wait();
}

void EventLoop::answer(port::Task tell) {
  Impl& impl = *impl_;
  const bool on_its_thread =
      impl.lending.at_home() && impl.context.get_executor().running_in_this_thread();
  if (!on_its_thread || impl.over || impl.last_answer || !impl.lending.is_due()) {
    tell();
    return word_was_set();
  }
  impl.last_answer = std::move(tell);
  impl.context.stop();
}

void EventLoop::word_was_set() {
  Impl& impl = *impl_;
  if (!impl.lending.with_caller()) return;
  if (!impl.context.get_executor().running_in_this_thread()) asio::post(impl.context, [] {});
}

asio::io_context& EventLoop::io() noexcept { return impl_->context; }

void EventLoop::arm(base::BootInstant at) noexcept { base::set_timer_fd(impl_->timer_fd, at); }

void EventLoop::stop() {
  if (!impl_->thread.joinable()) return;
  asio::post(impl_->context, [this] {
    impl_->timer.close();
    impl_->work.reset();
    impl_->over = true;
  });
  rouse();
  impl_->thread.join();
}

}  // namespace holdfast::session
