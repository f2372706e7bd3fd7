#include "src/stores/consul/loop_timer.h"

#include <cstdint>
#include <new>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

namespace holdfast::stores::consul {

struct LoopTimer::State {
  explicit State(asio::io_context& io) : timer(io) {}
  asio::steady_timer timer;
  std::uint64_t armed = 0;
};

LoopTimer::LoopTimer(asio::io_context& io) : state_(std::make_shared<State>(io)) {}

LoopTimer::~LoopTimer() {
  if (state_ != nullptr) stop();
}

void LoopTimer::arm(std::chrono::nanoseconds after, std::function<void()> on_fire) {
  const std::uint64_t mine = ++state_->armed;
  state_->timer.expires_after(after);
  state_->timer.async_wait(
      [weak = std::weak_ptr(state_), mine, on_fire = std::move(on_fire)](auto error) {
        const auto state = weak.lock();
        if (!error && state != nullptr && state->armed == mine) on_fire();
      });
}

void LoopTimer::stop() {
  ++state_->armed;
  state_->timer.cancel();
}

void LoopTimer::abandon() noexcept {
  static_cast<void>(new (std::nothrow) std::shared_ptr<State>(std::exchange(state_, nullptr)));
}

}  // namespace holdfast::stores::consul
