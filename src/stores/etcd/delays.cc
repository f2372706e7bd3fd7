#include "src/stores/etcd/delays.h"

#include <set>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "src/base/local_mutex.h"

namespace holdfast::stores::etcd {

struct Delays::State {
  explicit State(asio::io_context& loop) : io(loop) {}

  asio::io_context& io;
  std::set<std::shared_ptr<asio::steady_timer>> timers;  // The loop's own.
  base::LocalMutex mutex;                                // Held while a task runs.
  bool closed HOLDFAST_GUARDED_BY(mutex) = false;
};

Delays::Delays(asio::io_context& io) : state_(std::make_shared<State>(io)) {}

Delays::~Delays() { close(); }

void Delays::after(std::chrono::nanoseconds time, std::function<void()> task) {
  const auto at = std::chrono::steady_clock::now() + time;
  asio::post(state_->io, [state = state_, at, task = std::move(task)]() mutable {
    auto timer = std::make_shared<asio::steady_timer>(state->io, at);
    state->timers.insert(timer);
    timer->async_wait([state, timer, task = std::move(task)](const std::error_code& error) {
      state->timers.erase(timer);
      if (error) return;
      const base::LocalLock lock(state->mutex);
      if (!state->closed) task();
    });
  });
}

void Delays::close() {
  {
    const base::LocalLock lock(state_->mutex);
    if (std::exchange(state_->closed, true)) return;
  }
  // Or the loop would not end before their time.
  asio::post(state_->io, [state = state_] {
    for (const auto& timer : state->timers) timer->cancel();
  });
}

}  // namespace holdfast::stores::etcd
