#include "src/stores/etcd/transport/delays.h"

#include <algorithm>
#include <map>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "src/base/clock.h"
#include "src/base/local_mutex.h"
#include "src/port/boot_timer.h"

namespace holdfast::stores::etcd {

struct Delays::State : std::enable_shared_from_this<State> {
  explicit State(asio::io_context& loop) : io(loop), timer(loop) {}

  void arm();
  void run_due();

  asio::io_context& io;
  port::BootTimer timer;  // Used on the loop only, like `tasks`.
  std::multimap<base::BootInstant, std::function<void()>> tasks;
  base::LocalMutex mutex;  // Held while a task runs.
  bool closed HOLDFAST_GUARDED_BY(mutex) = false;
};

void Delays::State::arm() {
  if (tasks.empty()) return timer.stop();
  timer.arm_at(tasks.begin()->first, [weak = weak_from_this()] {
    if (const auto state = weak.lock()) state->run_due();
  });
}

void Delays::State::run_due() {
  const auto now = base::BootClock::now();
  while (!tasks.empty() && tasks.begin()->first <= now) {
    const auto task = std::move(tasks.extract(tasks.begin()).mapped());
    const base::LocalLock lock(mutex);
    if (!closed) task();
  }
  arm();
}

Delays::Delays(asio::io_context& io) : state_(std::make_shared<State>(io)) {}

Delays::~Delays() { close(); }

void Delays::after(std::chrono::nanoseconds time, std::function<void()> task) {
  const auto at = base::BootClock::now() + time;
  asio::post(state_->io, [state = state_, at, task = std::move(task)]() mutable {
    const auto added = state->tasks.emplace(at, std::move(task));
    if (added == state->tasks.begin()) state->arm();
  });
}

void Delays::close() {
  {
    const base::LocalLock lock(state_->mutex);
    if (std::exchange(state_->closed, true)) return;
  }
  // Otherwise the loop could not end before the last task's time.
  asio::post(state_->io, [state = state_] {
    state->tasks.clear();
    state->timer.stop();
  });
}

}  // namespace holdfast::stores::etcd
